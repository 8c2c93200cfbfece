package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/conformance"
	"github.com/impart-im/impart/internal/lab/postgres"
	"github.com/impart-im/impart/internal/store"
)

// TestPostgresConformance runs the suite on PostgreSQL. With -short it is left out;
// else a machine without PostgreSQL fails it.
func TestPostgresConformance(t *testing.T) {
	needPostgres(t)
	t.Parallel()
	// The suite never crashes the server, so that it need not wait for the disk.
	server, err := postgres.Start(t.Context(), postgres.Options{Settings: map[string]string{"fsync": "off"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	opts := Options{Notify: true, Patience: shortPatience}
	var model *pgSubject // the comparison with the model wants a hundred stores, one after the other
	conformance.SharedStore(t, func(t *testing.T) conformance.Subject {
		if !strings.HasSuffix(t.Name(), "/model") {
			return newPgSubject(t, newPgPlaceOn(t, server), opts).subject()
		}
		if model == nil {
			model = newPgSubject(t, newPgPlaceOn(t, server), opts)
			return model.subject()
		}
		model.empty(t)
		model.now = model.open(t)
		return model.subject()
	})
}

// empty makes the tables as they are in a new database.
func (p pgPlace) empty(t testing.TB) {
	t.Helper()
	p.exec(t, fmt.Sprintf(`SET search_path = %s; TRUNCATE users, devices, conversations, members, events, msg_dedup, device_cursors, read_cursors;
		UPDATE meta SET epoch = 1, judged = 0, cleaned = 0`, p.name))
}

// shortPatience is enough for whatever passes by itself.
const shortPatience = 2 * time.Second

func needPostgres(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs PostgreSQL")
	}
}

var stories atomic.Int64

// pgPlace is a schema of its own on the shared server, with a role of its own: what
// one story has under way is no business of another's.
type pgPlace struct {
	server *postgres.Server
	name   string
}

func newPgPlace(t testing.TB) pgPlace {
	t.Helper()
	server, err := postgres.Shared(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return newPgPlaceOn(t, server)
}

func newPgPlaceOn(t testing.TB, server *postgres.Server) pgPlace {
	t.Helper()
	p := pgPlace{server, fmt.Sprintf("story_%d", stories.Add(1))}
	p.exec(t, fmt.Sprintf("CREATE ROLE %[1]s LOGIN PASSWORD 'secret'; CREATE SCHEMA %[1]s AUTHORIZATION %[1]s", p.name))
	t.Cleanup(func() {
		p.exec(t, fmt.Sprintf("DROP SCHEMA %[1]s CASCADE; DROP OWNED BY %[1]s; DROP ROLE %[1]s", p.name))
	})
	return p
}

func (p pgPlace) exec(t testing.TB, sql string) {
	t.Helper()
	if err := p.server.Exec(context.Background(), "postgres", sql); err != nil {
		t.Fatal(err)
	}
}

func (p pgPlace) dsn() string { return p.dsnIn(p.name) }

// dsnIn is a DSN with a search path.
func (p pgPlace) dsnIn(path string) string {
	u, err := url.Parse(p.server.DSN("postgres"))
	if err != nil {
		panic(err)
	}
	u.User = url.UserPassword(p.name, "secret")
	q := u.Query()
	q.Set("search_path", path)
	u.RawQuery = q.Encode()
	return u.String()
}

// terminate ends all sessions of the story's role.
func (p pgPlace) terminate(t testing.TB) {
	p.exec(t, fmt.Sprintf("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = '%s'", p.name))
}

// pgSubject is a store in a place of its own, as the suite wants to handle it.
type pgSubject struct {
	pgPlace
	opts Options
	now  *Store

	replaced int
}

func newPgSubject(t *testing.T, p pgPlace, opts Options) *pgSubject {
	t.Helper()
	s := &pgSubject{pgPlace: p, opts: opts}
	s.now = s.open(t)
	return s
}

func (s *pgSubject) open(t *testing.T) *Store {
	t.Helper()
	opts := s.opts
	opts.around = new(around)
	opened, err := open(t.Context(), s.dsn(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

func (s *pgSubject) subject() conformance.Subject {
	return conformance.Subject{
		Store: s.now,
		Reopen: func(t *testing.T) store.Store {
			if err := s.now.Close(); err != nil {
				t.Fatal(err)
			}
			s.now = s.open(t)
			return s.now
		},
		// Every session of the store ends at once, as in a crash of the server, which
		// rolls back what has not committed; and nothing of the old store can commit any
		// more. That a commit outlives the server's crash is for
		// TestPostgresCrashKeepsWhatWasAnswered, which crashes one.
		Crash: func(t *testing.T) store.Store {
			off := func() error { return errors.New("the machine is off") }
			s.now.opts.around.before.Store(&off)
			s.terminate(t)
			s.now = s.open(t)
			return s.now
		},
		DedupWrites: func(user impart.UserID, cmid impart.CMID) (n int64, err error) {
			err = s.now.read(context.Background(), func(c session) error {
				return c.query("SELECT seen FROM msg_dedup WHERE user_id = ? AND cmid = ?", func(r row) error {
					n = r.num(0)
					return nil
				}, user, cmid)
			})
			return n, err
		},
		// The server stays, and the row of meta names another: that is what a store
		// sees of a promoted standby. A real one is promoted in postgres_failover_test.go.
		Replace: func(t *testing.T) {
			s.replaced++
			s.exec(t, fmt.Sprintf("UPDATE %s.meta SET incarnation = '%d/00000001', judged = judged - 1", s.name, s.replaced))
			s.terminate(t)
		},
		Second: func(t *testing.T) store.Store { return s.open(t) },
		OnCommit: func(before, after func() error) {
			set(&s.now.opts.around.before, before)
			set(&s.now.opts.around.after, after)
		},
	}
}
