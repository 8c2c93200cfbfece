package sqlstore

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/impart-im/impart/internal/store"
)

// Every statement of every method goes by an index. The statements are gathered from
// the server's own log while everything is done once, in tables with rows enough for
// an index to be worth it.
func TestMySQLEveryQueryGoesByAnIndex(t *testing.T) {
	w, p := newMyWorld(t, Options{DedupRetention: true})
	fill(t, p)
	p.exec(t, "TRUNCATE mysql.general_log; SET GLOBAL log_output = 'TABLE'; SET GLOBAL general_log = ON")
	everything(w)
	w.must(w.stored(w.msg("u-1", "c-1", "new-1", "x"), w.msg("u-2", "c-2", "new-2", "x"), w.msg("u-1", "c-1", "new-1", "x")))
	n := int64(7)
	for _, out := range w.Advance(t.Context(), []store.Advance{{User: "u-1", Device: "d-1", Install: 1, Conv: "c-1", Seq: 1, N: &n}, {User: "u-2", Device: "d-2", Install: 1, Conv: "c-2", Seq: 1}}) {
		w.must(out.Err)
	}
	w.must(w.MarkRead(t.Context(), []store.MarkRead{{User: "u-1", Conv: "c-1", Seq: 1}})[0].Err)
	w.must(second(w.Beat(t.Context(), store.Node{ID: "n", Name: "n"})))
	p.exec(t, "SET GLOBAL general_log = OFF")
	texts := map[string]bool{}
	pool, err := p.server.Open(p.name)
	w.must(err)
	defer pool.Close()
	rows, err := pool.Query("SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log WHERE command_type = 'Query' AND user_host LIKE 'impart%'")
	w.must(err)
	defer rows.Close()
	for rows.Next() {
		var text string
		w.must(rows.Scan(&text))
		texts[text] = true
	}
	w.must(rows.Err())
	if got := scansOf(t, p, "SELECT seq FROM events WHERE body = 'x'"); len(got) == 0 {
		t.Fatal("a scan is not recognised: the test would find nothing")
	}
	tried := map[string]bool{}
	for text := range texts {
		verb, _, _ := strings.Cut(text, " ")
		if !strings.Contains("SELECT UPDATE DELETE", verb) || strings.Contains(text, "information_schema") || strings.Contains(text, "GET_LOCK") {
			continue
		}
		tried[regexp.MustCompile(`x'[0-9a-f]*'|\d+`).ReplaceAllString(text, "?")] = true
		for _, table := range scansOf(t, p, text) {
			reason := ""
			for start, why := range scans {
				if strings.HasPrefix(text, start) {
					reason = why
				}
			}
			if reason == "" {
				t.Errorf("%s\n\tgoes through %s", text, table)
			}
		}
	}
	t.Logf("%d statements", len(tried))
	if len(tried) < 40 {
		t.Errorf("only %d statements were heard", len(tried))
	}
}

// fill puts 4,000 rows into each table.
func fill(t *testing.T, p myPlace) {
	t.Helper()
	for _, sql := range []string{
		"INSERT INTO users (user_id) SELECT CONCAT('u-', seq) FROM seq_1_to_4000",
		"INSERT INTO devices SELECT CONCAT('u-', seq), CONCAT('d-', seq), 'x', 1, 0, 1, 0 FROM seq_1_to_4000",
		"INSERT INTO conversations (conv_id, kind, next_seq, floor, history, members_version, updated_at) SELECT CONCAT('c-', seq), 'group', 2, 0, 'from_join', 1, seq * 100000 FROM seq_1_to_4000",
		"INSERT INTO members (conv_id, user_id, role, from_seq) SELECT CONCAT('c-', seq), CONCAT('u-', seq), 'member', 1 FROM seq_1_to_4000",
		"INSERT INTO events (conv_id, seq, kind, mid, sender, device, cmid, type, body, at) SELECT CONCAT('c-', seq), 1, 'msg', CONCAT('m-', seq), CONCAT('u-', seq), 'd', CONCAT('k-', seq), 'text', 'hi', 1800000000000 FROM seq_1_to_4000",
		"INSERT INTO msg_dedup (user_id, cmid, mid, conv_id, seq, hash, created_at) SELECT CONCAT('u-', seq), CONCAT('k-', seq), CONCAT('m-', seq), CONCAT('c-', seq), 1, '', 1800000000000 FROM seq_1_to_4000",
		"INSERT INTO device_cursors SELECT CONCAT('u-', seq), CONCAT('d-', seq), CONCAT('c-', seq), 1, 1, 0, 0, 0, 0 FROM seq_1_to_4000",
		"INSERT INTO read_cursors SELECT CONCAT('u-', seq), CONCAT('c-', seq), 1, 0, 0 FROM seq_1_to_4000",
		"ANALYZE TABLE users, devices, conversations, members, events, msg_dedup, device_cursors, read_cursors",
	} {
		p.exec(t, sql)
	}
}

// scansOf are the tables of more than one row that a statement goes through as a whole.
func scansOf(t *testing.T, p myPlace, text string) (tables []string) {
	t.Helper()
	pool, err := p.server.Open(p.name)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	rows, err := pool.QueryContext(context.Background(), "EXPLAIN "+text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, kind, table, how, possible, key, length, ref, count, extra *string
		if err := rows.Scan(&id, &kind, &table, &how, &possible, &key, &length, &ref, &count, &extra); err != nil {
			t.Fatal(err)
		}
		whole := how != nil && (*how == "ALL" || *how == "index")
		small := table != nil && (strings.Contains("meta m nodes verdicts gates", *table) || strings.HasPrefix(*table, "<"))
		if whole && !small {
			tables = append(tables, fmt.Sprintf("%s (%s)", *table, *how))
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return tables
}
