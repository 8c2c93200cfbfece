package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/conformance"
	"github.com/impart-im/impart/internal/lab/postgres"
)

// Several nodes open a database that none has seen before: one makes the tables.
func TestPostgresFirstOpenedByManyAtOnce(t *testing.T) {
	needPostgres(t)
	p := newPgPlace(t)
	stores := make([]*Store, 6)
	var wg sync.WaitGroup
	for i := range stores {
		wg.Go(func() {
			s, err := open(t.Context(), p.dsn(), Options{})
			if err != nil {
				t.Error(err)
				return
			}
			stores[i] = s
		})
	}
	wg.Wait()
	incarnations := map[string]bool{}
	for _, s := range stores {
		if s == nil {
			continue
		}
		meta, err := s.Meta(t.Context())
		if err != nil {
			t.Error(err)
		}
		incarnations[meta.Incarnation] = true
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(incarnations) != 1 {
		t.Errorf("incarnations: %v", incarnations)
	}
}

// Ids are compared and ordered byte for byte whatever the locale of the database is.
func TestPostgresInAnotherLocale(t *testing.T) {
	needPostgres(t)
	conformance.Topics(t, []string{"keys", "convs"}, func(t *testing.T) conformance.Subject {
		server, name := freshDatabase(t, "TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C'")
		s, err := open(t.Context(), server.DSN(name), Options{})
		if err != nil {
			t.Fatal(err)
		}
		return conformance.Subject{Store: s}
	})
}

// Behind a pooler no session is one's own: nothing is prepared or set in it.
func TestPostgresPooled(t *testing.T) {
	needPostgres(t)
	conformance.Topics(t, []string{"append", "dedup", "cursors", "commit", "members", "retain"}, func(t *testing.T) conformance.Subject {
		return newPgSubject(t, newPgPlace(t), Options{Notify: true, Pooled: true, Patience: shortPatience}).subject()
	})
}

func TestPostgresPooledLeavesSessionsAsTheyAre(t *testing.T) {
	left := map[bool][]string{}
	for _, pooled := range []bool{true, false} {
		w, _ := newPgWorld(t, Options{Pooled: pooled})
		everything(w)
		w.must(w.read(t.Context(), func(c session) error {
			return c.query("SELECT 'prepared' FROM pg_prepared_statements UNION ALL SELECT name FROM pg_settings WHERE name IN ('lock_timeout', 'enable_seqscan') AND setting <> boot_val",
				func(r row) error {
					left[pooled] = append(left[pooled], r.str(0))
					return nil
				})
		}))
	}
	if len(left[true]) != 0 || len(left[false]) < 3 {
		t.Errorf("left in a session: %v behind a pooler, %v without", left[true], left[false])
	}
}

func TestPostgresRefusesWhatItCannotUse(t *testing.T) {
	needPostgres(t)
	latin, name := freshDatabase(t, "TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
	for dsn, want := range map[string]string{
		latin.DSN(name):       "encoding LATIN1",
		latin.DSN("postgres"): "make the role the owner",
		latin.DSN("postgres") + "&search_path=nobody":                  "no schema that exists",
		latin.DSN("nowhere"):                                           "does not exist",
		strings.Replace(latin.DSN(name), "impart:", "impart:wrong", 1): "password authentication failed",
	} {
		s, err := open(t.Context(), dsn, Options{})
		if err == nil {
			t.Fatalf("opened: %v", s.Close())
		}
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "wrong") {
			t.Errorf("the error is %q; want %q in it, and no password", err, want)
		}
	}
}

func freshDatabase(t *testing.T, clauses ...string) (*postgres.Server, string) {
	t.Helper()
	server, name, drop, err := postgres.FreshDatabase(t.Context(), clauses...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := drop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return server, name
}

// Nodes that clean dedup rows make their indexes at once, beside writers; what one
// of them has left half done is made anew.
func TestPostgresIndexesAreMadeBesideWriters(t *testing.T) {
	w, p := newPgWorld(t, Options{})
	w.group("c", "ana")
	w.sends(w.msg("ana", "c", "1", "x"))
	w.must(w.direct(t.Context(), func(tx *txn) error {
		_, err := tx.exec("CREATE INDEX events_by_cmid ON events (conv_id, sender, cmid) WHERE cmid <> ''")
		return err
	}))
	p.exec(t, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = '"+p.name+".events_by_cmid'::regclass")
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			s, err := open(t.Context(), p.dsn(), Options{DedupRetention: true})
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range 20 {
		w.sends(w.msg("ana", "c", impart.CMID(fmt.Sprint("beside-", i)), "x"))
	}
	wg.Wait()
	valid := 0
	w.must(w.read(t.Context(), func(c session) error {
		return c.query("SELECT count(*) FROM pg_index WHERE indisvalid AND indexrelid IN (to_regclass('events_by_cmid'), to_regclass('msg_dedup_by_time'))", func(r row) error {
			valid = int(r.num(0))
			return nil
		})
	}))
	if valid != 2 {
		t.Errorf("%d of 2 indexes are valid", valid)
	}
}
