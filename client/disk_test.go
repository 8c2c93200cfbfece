package client_test

import (
	"bytes"
	"database/sql"
	"os"
	"testing"

	"github.com/impart-im/impart/client"
)

func diskConfig(t *testing.T) client.Config {
	return client.Config{URL: "http://127.0.0.1:1", Device: "d", Token: client.StaticToken("x"), Store: t.TempDir() + "/store.db"}
}

// The store holds what people write to each other.
func TestTheStoreIsItsOwnersOnly(t *testing.T) {
	cfg := diskConfig(t)
	c, err := client.Open(t.Context(), cfg)
	must(t, err)
	defer c.Close()
	_, err = c.Send(t.Context(), client.Draft{Conv: ab, Body: "hi"})
	must(t, err)
	for _, side := range []string{"", "-wal"} {
		info, err := os.Stat(cfg.Store + side)
		must(t, err)
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has the mode %v", info.Name(), mode)
		}
	}
}

// A file of somebody else's is refused and stays as it is.
func TestAForeignFileIsNotTakenOver(t *testing.T) {
	for name, statement := range map[string]string{
		"a database of another program": "CREATE TABLE theirs (x)",
		"a store of a later version":    "PRAGMA user_version = 99",
		"a store of an earlier version": "PRAGMA user_version = 1",
	} {
		cfg := diskConfig(t)
		db, err := sql.Open("sqlite", cfg.Store)
		must(t, err)
		_, err = db.Exec(statement)
		must(t, err)
		if c, err := client.Open(t.Context(), cfg); err == nil {
			t.Errorf("%s is taken", name)
			_ = c.Close()
		}
		var tables int
		must(t, db.QueryRow("SELECT count(*) FROM sqlite_schema WHERE name = 'outbox'").Scan(&tables))
		if tables > 0 {
			t.Errorf("%s has got tables", name)
		}
		must(t, db.Close())
	}
	cfg := diskConfig(t)
	text := bytes.Repeat([]byte("not a database "), 1000)
	must(t, os.WriteFile(cfg.Store, text, 0o600))
	if c, err := client.Open(t.Context(), cfg); err == nil {
		t.Error("a text is taken for a store")
		_ = c.Close()
	}
	if got, err := os.ReadFile(cfg.Store); err != nil || !bytes.Equal(got, text) {
		t.Error("the text is another now")
	}
}

// What stands in the file may be lost or become garbage while the client works:
// it says so, and does not die.
func TestAStoreThatIsDestroyedUnderTheClient(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana, ben := w.app("ana"), w.app("ben")
		ana.online()
		for _, text := range numbered("m", 20) {
			ben.send(ab, text)
		}
		ana.wants(ab, numbered("m", 20)...)
		for _, side := range []string{"", "-wal"} {
			must(t, os.Truncate(ana.cfg.Store+side, 100))
		}
		ben.send(ab, "more")
		ben.through()
		_, _ = ana.Send(t.Context(), client.Draft{Conv: ab, Body: "x"})
		_, _ = ana.Events(t.Context(), ab, 0, 1000)
		_, _ = ana.Conversations(t.Context())
	})
}
