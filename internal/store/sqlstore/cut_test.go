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
			began := make(chan struct{}, 1000) // gets one for each try that has a connection
			together := func(string, []any) error {
				began <- struct{}{}
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
			for len(began) > 0 {
				<-began
			}

			proxy.Shape(link.Both, func(s *link.Shape) { s.BlackHole = true })
			caller, end := context.WithTimeout(t.Context(), time.Minute)
			var hanging sync.WaitGroup
			for range 3 * pgConns {
				hanging.Go(func() { _ = read(caller) })
			}
			for range pgConns / 2 {
				<-began // and the others wait for a connection
			}
			const leastQuery = 40 // bytes
			for tick := time.NewTicker(10 * time.Millisecond); proxy.Counts().Swallowed < pgConns/2*leastQuery; {
				<-tick.C
			}
			proxy.Heal()
			healed := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := read(ctx); err != nil {
				t.Errorf("a read after the cut: %v, after %v", err, time.Since(healed))
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
