package sqlstore

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/conformance"
	"github.com/impart-im/impart/internal/store"
)

// newMyWorld is a world in a place of its own.
func newMyWorld(t *testing.T, opts Options) (*world, myPlace) {
	t.Helper()
	needMySQL(t)
	p := newMyPlace(t)
	return openPgWorld(t, p.dsn(), opts), p
}

// Several nodes open a database that none has seen before: one makes the tables.
func TestMySQLFirstOpenedByManyAtOnce(t *testing.T) {
	needMySQL(t)
	p := newMyPlace(t)
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
	if len(incarnations) != 1 || !incarnations["mariadb-1/0"] {
		t.Errorf("incarnations: %v", incarnations)
	}
}

// Whatever the database takes text for, ids and bodies are bytes.
func TestMySQLWithOtherCharacterSets(t *testing.T) {
	needMySQL(t)
	t.Parallel()
	for _, clauses := range []string{"CHARACTER SET latin1 COLLATE latin1_swedish_ci", "CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"} {
		t.Run(clauses, func(t *testing.T) {
			conformance.Topics(t, []string{"keys", "convs"}, func(t *testing.T) conformance.Subject {
				s, err := open(t.Context(), newMyPlace(t, clauses).dsn(), Options{})
				if err != nil {
					t.Fatal(err)
				}
				return conformance.Subject{Store: s}
			})
		})
	}
}

// What a server's sessions start with is not what the store's go by.
func TestMySQLWithLaxSettings(t *testing.T) {
	needMySQL(t)
	t.Parallel()
	server := startMySQL(t, lax)
	conformance.Topics(t, []string{"keys", "values"}, func(t *testing.T) conformance.Subject {
		s, err := open(t.Context(), newMyPlaceOn(t, server).dsn(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		return conformance.Subject{Store: s}
	})
	w := openPgWorld(t, newMyPlaceOn(t, server).dsn(), Options{})
	w.group("c", "ana")
	long := w.msg("ana", "c", impart.CMID(strings.Repeat("k", 300)), "x")
	out := w.Append(t.Context(), []store.Append{w.msg("ana", "c", "before", "x"), long, w.msg("ana", "c", "after", "x")})
	if out[0].Err != nil || out[2].Err != nil || impart.CodeOf(out[1].Err) != impart.BadFrame {
		t.Errorf("a value that does not fit is not refused alone: %+v", out)
	}
	if events := w.whole("ana", "c"); len(events) != 2 {
		t.Errorf("%d events", len(events))
	}
}

func TestMySQLRefusesWhatItCannotUse(t *testing.T) {
	needMySQL(t)
	p := newMyPlace(t)
	small := startMySQL(t, packets("1M"))
	few := newMyPlaceOn(t, small)
	for dsn, want := range map[string]string{
		few.dsn():                      "max_allowed_packet is 1048576",
		p.server.DSN("nowhere"):        "Access denied",
		p.dsn() + "?ssl-mode=REQUIRED": "TLS",
		strings.Replace(p.dsn(), "impart:", "impart:wrong", 1): "Access denied",
	} {
		s, err := open(t.Context(), dsn, Options{})
		if err == nil {
			t.Fatalf("opened: %v", s.Close())
		}
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "wrong") {
			t.Errorf("the error is %q; want %q in it, and no password", err, want)
		}
	}
	if err := p.server.Set(t.Context(), map[string]string{"read_only": "ON"}); err != nil {
		t.Fatal(err)
	}
	s, err := open(t.Context(), p.dsn(), Options{})
	if err == nil {
		t.Fatalf("a replica was opened: %v", s.Close())
	}
	if !strings.Contains(err.Error(), "read only") {
		t.Errorf("of a replica it says %v", err)
	}
	if err := p.server.Set(t.Context(), map[string]string{"read_only": "OFF"}); err != nil {
		t.Fatal(err)
	}
}

// A batch that is larger than a packet may be goes in several.
func TestMySQLBatchesOfMoreThanAPacket(t *testing.T) {
	needMySQL(t)
	t.Parallel()
	w := openPgWorld(t, newMyPlaceOn(t, startMySQL(t, packets("4M"))).dsn(), Options{})
	w.group("c", "ana")
	var items []store.Append
	for i := range 60 {
		items = append(items, w.msg("ana", "c", impart.CMID(fmt.Sprint("k-", i)), strings.Repeat(fmt.Sprint(i%10), 64<<10)))
	}
	items = append(items, w.msg("ana", "c", "large", strings.Repeat("x", 1<<20)))
	for i, out := range w.Append(t.Context(), items) {
		if out.Err != nil || out.Seq != impart.Seq(i+1) {
			t.Fatalf("message %d: %+v", i, out)
		}
	}
	for i, ev := range w.whole("ana", "c") {
		if ev.Body != items[i].Body {
			t.Errorf("message %d came back changed", i)
		}
	}
}

// Nodes that clean dedup rows make their indexes at once, beside writers.
func TestMySQLIndexesAreMadeBesideWriters(t *testing.T) {
	w, p := newMyWorld(t, Options{})
	w.group("c", "ana")
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
	made := map[string]bool{}
	w.must(w.read(t.Context(), func(c session) error {
		return c.query("SELECT INDEX_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE()", func(r row) error {
			made[r.str(0)] = true
			return nil
		})
	}))
	for name := range myIndexes {
		if !made[name] {
			t.Errorf("%s is not there", name)
		}
	}
}
