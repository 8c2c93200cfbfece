package sqlstore

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/conformance"
	"github.com/impart-im/impart/internal/store"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Store(t, func(t *testing.T) conformance.Subject {
		return newSubject(t).subject()
	})
}

// subject is a store in a folder of its own, as the suite wants to handle it.
type subject struct {
	dir           string
	now           *Store
	before, after atomic.Pointer[func() error]
}

func newSubject(t *testing.T) *subject {
	t.Helper()
	s := &subject{dir: t.TempDir()}
	s.now = s.open(t, s.dir)
	return s
}

func (s *subject) open(t *testing.T, dir string) *Store {
	t.Helper()
	opened, err := open(t.Context(), dsnIn(dir), Options{
		hook: func(query string, _ []any) error {
			if query != sqliteStatements.commit {
				return nil
			}
			return call(&s.before)
		},
		after: func() error { return call(&s.after) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

func dsnIn(dir string) string { return "sqlite:" + filepath.Join(dir, "impart.db") }

func call(p *atomic.Pointer[func() error]) error {
	if f := p.Load(); f != nil {
		return (*f)()
	}
	return nil
}

func set(p *atomic.Pointer[func() error], f func() error) {
	if f == nil {
		p.Store(nil)
		return
	}
	p.Store(&f)
}

func (s *subject) subject() conformance.Subject {
	return conformance.Subject{
		Store: s.now,
		Reopen: func(t *testing.T) store.Store {
			if err := s.now.Close(); err != nil {
				t.Fatal(err)
			}
			s.now = s.open(t, s.dir)
			return s.now
		},
		Crash: func(t *testing.T) store.Store {
			s.dir = crashCopy(t, s.dir)
			s.before.Store(nil)
			s.after.Store(nil)
			s.now = s.open(t, s.dir)
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
		OnCommit: func(before, after func() error) {
			set(&s.before, before)
			set(&s.after, after)
		},
	}
}

// crashCopy copies the files of a store as they are on the disk, open or not: the
// database first, then the log that was appended to since.
func crashCopy(t testing.TB, dir string) string {
	t.Helper()
	to := t.TempDir()
	for _, name := range []string{"impart.db", "impart.db-wal"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}
