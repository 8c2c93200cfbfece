package sqlstore

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

func TestOpenMakesAPrivateFile(t *testing.T) {
	t.Chdir(t.TempDir())
	s, err := Open(t.Context(), "sqlite:data/deep/impart.db", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, want := range map[string]os.FileMode{"data": 0o700, "data/deep": 0o700, "data/deep/impart.db": 0o600} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o: others could read messages", name, got, want)
		}
	}
	entries, err := os.ReadDir("data/deep")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v (%v)", e.Name(), info.Mode(), err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefusesWhatItDoesNotKnow(t *testing.T) {
	for dsn, want := range map[string]string{
		"":                                       "sqlite:PATH",
		"impart.db":                              "sqlite:PATH",
		"postgres://u:secret@127.0.0.1:1/impart": "cannot connect",
		"postgres://u:secret@db:port/impart":     "cannot parse",
		"sqlite:":                                "name a file",
		"sqlite::memory:":                        "name a file",
		"sqlite:/dev/null/impart.db":             "folder",
		"sqlite:" + t.TempDir():                  "cannot open its file",
		"sqlite:" + notADatabase(t):              "not a database",
		"sqlite:" + anothersDatabase(t):          "another program's tables (orders, users)",
		"mysql://root:secret@127.0.0.1:1/impart": "cannot connect",
		"mysql://root:secret@127.0.0.1:1":        "names no database",
		"mysql://root:secret@/im":                "names no host",
		"mysql://root:secret@db/im?charset=x":    `parameter "charset"`,
		"mysql://root:secret@db/im?ssl-mode=x":   "VERIFY_IDENTITY",
		"oracle://root:secret@db/im":             "sqlite:PATH",
	} {
		s, err := Open(t.Context(), dsn, Options{})
		if err == nil {
			t.Fatalf("%q was opened: %v", dsn, s.Close())
		}
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error is %q; want %q in it, and no password", dsn, err, want)
		}
	}
}

func notADatabase(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "impart.db")
	if err := os.WriteFile(name, []byte(strings.Repeat("this is a letter, not a database\n", 200)), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// anothersDatabase is a file of a program that also numbers its schema with goose.
func anothersDatabase(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "shop.db")
	db, err := sqlitePool(name, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"CREATE TABLE goose_db_version (version_id INTEGER)", "CREATE TABLE orders (id INTEGER)", "CREATE TABLE users (id INTEGER)"} {
		if _, err := db.Exec(query); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestPathsMayLookLikeQueries(t *testing.T) {
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "a?mode=memory&x#y z%20.db")
	for range 2 { // the second finds what the first made
		s, err := Open(t.Context(), dsn, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.PutUser(t.Context(), "ana", nil, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(strings.TrimPrefix(dsn, "sqlite:")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOneStoreAtATime(t *testing.T) {
	dsn := dsnIn(t.TempDir())
	first, err := Open(t.Context(), dsn, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := Open(t.Context(), dsn, Options{}); err == nil {
		t.Fatalf("opened twice: %v", s.Close())
	} else if !strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), "stop that one") {
		t.Errorf("the error does not say what to do: %v", err)
	}
	if _, err := first.PutUser(t.Context(), "ana", nil, nil); err != nil {
		t.Errorf("the first one is no longer usable: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(t.Context(), dsn, Options{})
	if err != nil {
		t.Fatalf("after the first one closed: %v", err)
	}
	if _, err := again.User(t.Context(), "ana"); err != nil {
		t.Error(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

// A second process that comes by another name of the file meets the same lock.
func TestOneStoreAtATimeByWhateverName(t *testing.T) {
	folder := t.TempDir()
	own, link, linked := filepath.Join(folder, "own"), filepath.Join(folder, "link.db"), filepath.Join(folder, "linked")
	for link, target := range map[string]string{link: filepath.Join(own, "impart.db"), linked: own} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	names := []string{filepath.Join(own, "impart.db"), link, filepath.Join(linked, "impart.db")}
	for _, first := range names { // the link may come first, before there is a file
		s, err := Open(t.Context(), "sqlite:"+first, Options{})
		if err != nil {
			t.Fatalf("%s: %v", first, err)
		}
		for _, second := range names {
			if s, err := Open(t.Context(), "sqlite:"+second, Options{}); err == nil {
				t.Errorf("open as %s and again as %s: %v", first, second, s.Close())
			} else if !strings.Contains(err.Error(), "in use") {
				t.Errorf("open as %s, then as %s: %v", first, second, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestANewerSchemaIsRefused(t *testing.T) {
	w := newWorld(t, Options{})
	err := w.direct(t.Context(), func(tx *txn) error {
		return tx.one("INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)")
	})
	w.must(err)
	w.must(w.Close())
	s, err := Open(t.Context(), dsnIn(w.dir), Options{})
	if err == nil {
		t.Fatalf("a newer schema was opened: %v", s.Close())
	}
	if !strings.Contains(err.Error(), "version 999") || !strings.Contains(err.Error(), "newer impart") {
		t.Errorf("the error does not say what to do: %v", err)
	}
}

func TestTheIncarnationIsOfTheFile(t *testing.T) {
	w, other := newWorld(t, Options{}), newWorld(t, Options{})
	first, err := w.Meta(t.Context())
	w.must(err)
	second, err := other.Meta(t.Context())
	w.must(err)
	if first.Epoch != 1 || len(first.Incarnation) != 32 || first.Incarnation == second.Incarnation {
		t.Errorf("two files say %+v and %+v", first, second)
	}
	w.must(w.Close())
	w.open(Options{})
	if again, err := w.Meta(t.Context()); err != nil || again != first {
		t.Errorf("after reopening %+v, %v; before %+v", again, err, first)
	}
}

func TestSettingsAreReadBack(t *testing.T) {
	w := newWorld(t, Options{})
	got, err := w.Settings(t.Context())
	w.must(err)
	want := map[string]string{"journal_mode": "wal", "synchronous": "2"}
	for _, s := range got {
		if !s.Safe || s.Value != want[s.Name] || s.Want == "" || s.Why == "" {
			t.Errorf("%+v", s)
		}
		delete(want, s.Name)
	}
	if len(want) > 0 {
		t.Errorf("not reported: %v", want)
	}
	for pragma, name := range map[string]string{"synchronous(NORMAL)": "synchronous", "synchronous(OFF)": "synchronous", "journal_mode(MEMORY)": "journal_mode"} {
		db, err := sqlitePool(filepath.Join(t.TempDir(), "unsafe.db"), 1, nil, pragma)
		w.must(err)
		w.must(withConn(t.Context(), db, func(c *conn) error {
			settings, err := sqliteSettings(c)
			for _, s := range settings {
				if s.Safe == (s.Name == name) && s.Name == name {
					t.Errorf("with %s: %+v", pragma, s)
				}
			}
			return err
		}))
		w.must(db.Close())
	}
}

func TestReadersCannotWrite(t *testing.T) {
	w := newWorld(t, Options{})
	err := w.read(t.Context(), func(c session) error {
		_, err := c.exec("UPDATE meta SET epoch = 7")
		return err
	})
	if err == nil {
		t.Error("a reader has written")
	}
}

// A store that could not be opened holds nothing: neither goroutines (see
// TestMain) nor the lock.
func TestAFailedOpenLetsGo(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := Open(ctx, dsnIn(dir), Options{}); err == nil {
		t.Fatalf("opened with a context that has ended: %v", s.Close())
	}
	s, err := Open(t.Context(), dsnIn(dir), Options{DedupRetention: true})
	if err != nil {
		t.Fatal(err)
	}
	if out := s.Append(t.Context(), []store.Append{{Kind: impart.KindMsg, Sender: "ana", Conv: "c", CMID: "k"}}); impart.CodeOf(out[0].Err) != impart.NotMember {
		t.Errorf("%+v", out)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
