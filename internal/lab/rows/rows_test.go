package rows

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
)

// tables are those of the server that are looked at, without the keys that would
// keep a fault out.
const tables = `
CREATE TABLE events (conv_id, seq, kind, mid, sender, cmid, body);
CREATE TABLE conversations (conv_id, next_seq);
CREATE TABLE msg_dedup (user_id, cmid, mid, conv_id, seq);
CREATE TABLE device_cursors (user_id, device_id, conv_id, delivered_seq);
INSERT INTO events VALUES ('c', 1, 'msg', 'm1', 'u', 'k1', 'a'), ('c', 2, 'msg', 'm2', 'u', 'k2', 'b'), ('d', 1, 'join', 'm3', 'system', '', '');
INSERT INTO conversations VALUES ('c', 3), ('d', 2), ('empty', 1);
INSERT INTO msg_dedup VALUES ('u', 'k1', 'm1', 'c', 1), ('u', 'k2', 'm2', 'c', 2);
INSERT INTO device_cursors VALUES ('u', 'd', 'c', 2);`

// file makes a database file of these statements, in WAL mode as the server's.
func file(t *testing.T, statements string) (path string, writer *sql.DB) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "impart.db")
	writer, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = writer.Close() })
	if _, err := writer.Exec("PRAGMA journal_mode = WAL;" + tables + statements); err != nil {
		t.Fatal(err)
	}
	return path, writer
}

func open(t *testing.T, path string) *DB {
	t.Helper()
	d, err := Open("sqlite:" + path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func TestLogFaultsFindsEach(t *testing.T) {
	for want, statement := range map[string]string{
		"":                                      "",
		"1 seqs are there twice":                "INSERT INTO events VALUES ('c', 2, 'msg', 'm9', 'u', 'k9', 'x'); UPDATE conversations SET next_seq = 3 WHERE conv_id = 'c'",
		"1 mids are there twice":                "UPDATE events SET mid = 'm1' WHERE mid = 'm3'",
		"1 messages are there twice":            "INSERT INTO events VALUES ('c', 3, 'msg', 'm9', 'u', 'k1', 'a'); UPDATE conversations SET next_seq = 4 WHERE conv_id = 'c'",
		"1 conversations have a hole":           "UPDATE events SET seq = 3 WHERE mid = 'm2'; UPDATE conversations SET next_seq = 4 WHERE conv_id = 'c'; UPDATE msg_dedup SET seq = 3 WHERE cmid = 'k2'",
		"1 conversations do not go on":          "UPDATE conversations SET next_seq = 9 WHERE conv_id = 'd'",
		"1 dedup keys name another message":     "UPDATE msg_dedup SET mid = 'm9' WHERE cmid = 'k1'",
		"1 dedup keys name another message or ": "INSERT INTO msg_dedup VALUES ('u', 'k9', 'm9', 'c', 9)",
		"1 cursors are past the head":           "UPDATE device_cursors SET delivered_seq = 3",
	} {
		path, _ := file(t, statement)
		faults, err := open(t, path).LogFaults(t.Context())
		if err != nil || !strings.Contains(strings.Join(faults, "\n"), want) || (want == "") != (len(faults) == 0) {
			t.Errorf("%s: %v, %v; want %q", statement, faults, err, want)
		}
	}
}

func TestItReadsBesideTheServerAndAfterIt(t *testing.T) {
	path, writer := file(t, "")
	d := open(t, path)
	look := func(want int64) {
		t.Helper()
		if n, err := d.Copies(context.Background(), "u", "k3"); err != nil || n != want {
			t.Errorf("%d copies, %v; want %d", n, err, want)
		}
	}
	look(0)
	if _, err := writer.Exec("INSERT INTO events VALUES ('c', 3, 'msg', 'm4', 'u', 'k3', 'c')"); err != nil {
		t.Fatal(err)
	}
	look(1)
	if _, err := d.db.Exec("DELETE FROM events"); err == nil {
		t.Error("it can write")
	}
	_ = d.Close()
	if err := writer.Close(); err != nil { // takes the log away
		t.Fatal(err)
	}
	d = open(t, path)
	look(1)
	if err := d.Sound(t.Context()); err != nil {
		t.Error(err)
	}
	events, err := d.Events(t.Context(), "c")
	if err != nil || len(events) != 3 || events[2].Body != "c" {
		t.Errorf("%+v, %v", events, err)
	}
}

func TestANumberOfNothingIsZero(t *testing.T) {
	path, _ := file(t, "")
	d := open(t, path)
	for _, query := range []string{"SELECT seq FROM events WHERE cmid = 'gone'", "SELECT max(seq) FROM events WHERE cmid = 'gone'"} {
		if n, err := d.number(t.Context(), query); n != 0 || err != nil {
			t.Errorf("%s: %d, %v", query, n, err)
		}
	}
	if _, err := Open("sqlite:" + filepath.Join(t.TempDir(), "gone.db")); err == nil {
		t.Error("a file that is not there can be opened")
	}
}
