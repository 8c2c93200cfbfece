package sqlstore

import (
	"context"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/impart-im/impart/internal/lab/link"
	"github.com/impart-im/impart/internal/store"
)

// A node is cut from its database while reads are under way, and the way back is open
// again: reads that begin then need not wait for those that the cut has left hanging.
func TestReadsGoOnAfterACut(t *testing.T) {
	for _, c := range []struct {
		engine string
		need   func(testing.TB)
		place  func(testing.TB) (dsn string, addr func() string)
	}{
		{"postgres", needPostgres, func(t testing.TB) (string, func() string) { p := newPgPlace(t); return p.dsn(), p.server.Addr }},
		{"mysql", needMySQL, func(t testing.TB) (string, func() string) { p := newMyPlace(t); return p.dsn(), p.server.Addr }},
	} {
		t.Run(c.engine, func(t *testing.T) {
			t.Parallel()
			c.need(t)
			dsn, addr := c.place(t)
			proxy, err := link.New(1, addr)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(proxy.Close)
			var meeting atomic.Pointer[sync.WaitGroup]
			together := func(string, []any) error {
				if all := meeting.Load(); all != nil {
					all.Done()
					all.Wait()
				}
				return nil
			}
			w := openPgWorld(t, through(t, dsn, proxy.Addr()), Options{Patience: shortPatience, look: together})
			w.group("c", "ana")
			w.must(w.stored(w.msg("ana", "c", "1", "x")))
			read := func(ctx context.Context) error {
				_, err := w.Page(ctx, store.PageQuery{User: "ana", Conv: "c", Limit: 10, MaxBytes: 1 << 20})
				return err
			}
			var all, reads sync.WaitGroup // a read on each connection that there may be
			all.Add(pgConns / 2)
			meeting.Store(&all)
			for range pgConns / 2 {
				reads.Go(func() {
					if err := read(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			reads.Wait()
			meeting.Store(nil)

			proxy.Shape(link.Both, func(s *link.Shape) { s.BlackHole = true })
			caller, end := context.WithTimeout(t.Context(), time.Minute)
			var hanging sync.WaitGroup
			for range 3 * pgConns {
				hanging.Go(func() { _ = read(caller) })
			}
			time.Sleep(500 * time.Millisecond) // some have a connection by now, and the others wait for one
			if proxy.Counts().Swallowed == 0 {
				t.Error("the cut met no read")
			}
			proxy.Heal()
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := read(ctx); err != nil {
				t.Errorf("a read after the cut: %v, after %v", err, time.Since(began))
			}
			hanging.Wait()
			if caller.Err() != nil {
				t.Error("a read that the cut met hung until its caller gave up")
			}
			end()
		})
	}
}

// through is a DSN with another address.
func through(t *testing.T, dsn, addr string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = addr
	return u.String()
}
