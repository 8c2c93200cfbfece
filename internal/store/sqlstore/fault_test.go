package sqlstore

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

var errDisk = errors.New("database or disk is full")

// breaker fails statements of the writer once it is armed: those from the nth
// on, counted from 1, as many as times says.
type breaker struct {
	armed    atomic.Bool
	n, times int64
	count    atomic.Int64
	failed   atomic.Int64
}

func (b *breaker) hook(string, []any) error {
	if !b.armed.Load() {
		return nil
	}
	if at := b.count.Add(1); at >= b.n && at < b.n+b.times {
		b.failed.Add(1)
		return errDisk
	}
	return nil
}

// step is a write that leaves its mark on a world.
type step struct {
	name string
	do   func(w *world) error
}

// steps is every kind of write, in an order in which each builds on the last.
func steps(w *world) []step {
	first, followed := w.msg("ana", "c", "1", "first"), w.msg("ana", "c", "2", "second")
	followed.Prev = "1"
	taken := w.recall("ana", "c", "r", 1)
	joined, left := stampOf(w), stampOf(w)
	n := int64(5)
	two := int64(2)
	return []step{
		{"append", func(w *world) error { return w.stored(first, followed) }},
		{"recall", func(w *world) error { return w.stored(taken) }},
		{"hello", func(w *world) error {
			_, err := w.Hello(w.t.Context(), store.Hello{User: "ana", Device: "d", Install: "x", N: &n, History: &two})
			return err
		}},
		{"ack", func(w *world) error {
			return w.Advance(w.t.Context(), []store.Advance{{User: "ana", Device: "d", Install: 1, Conv: "c", Seq: 3, N: &n}})[0].Err
		}},
		{"read", func(w *world) error {
			return w.MarkRead(w.t.Context(), []store.MarkRead{{User: "ana", Conv: "c", Seq: 2}})[0].Err
		}},
		{"join", func(w *world) error {
			_, _, err := w.PutMember(w.t.Context(), "c", impart.Member{User: "cy", Role: impart.RoleAdmin}, impart.System, joined)
			return err
		}},
		{"leave", func(w *world) error {
			_, _, err := w.RemoveMember(w.t.Context(), "c", "ben", impart.System, left)
			return err
		}},
		{"user", func(w *world) error {
			_, err := w.PutUser(w.t.Context(), "dan", nil, nil)
			return err
		}},
		{"retain", func(w *world) error {
			_, _, err := w.Retain(w.t.Context(), first.At+1, 10)
			return err
		}},
		{"clean", func(w *world) error {
			_, _, err := w.CleanDedup(w.t.Context(), impart.MaxNumber, 10)
			return err
		}},
	}
}

// stampOf gives the same mark each time: a repeat has to find the same world.
func stampOf(w *world) store.Stamp {
	mid, at := w.stamp()
	return func() (impart.MID, impart.Millis) { return mid, at }
}

func (w *world) stored(items ...store.Append) error {
	for _, out := range w.Append(w.t.Context(), items) {
		if out.Err != nil {
			return out.Err
		}
	}
	return nil
}

// dump is everything in the database but the store's own clock and counters.
func (w *world) dump() string {
	w.t.Helper()
	var out strings.Builder
	err := w.read(w.t.Context(), func(c session) error {
		for _, q := range []string{
			"SELECT epoch, cleaned FROM meta", "SELECT * FROM users ORDER BY 1",
			"SELECT user_id, device_id, install, install_epoch, n FROM devices ORDER BY 1, 2",
			"SELECT conv_id, next_seq, floor, members_version FROM conversations ORDER BY 1",
			"SELECT * FROM members ORDER BY 1, 2, 4", "SELECT * FROM events ORDER BY 1, 2",
			"SELECT user_id, cmid, mid, conv_id, seq, created_at, recalled FROM msg_dedup ORDER BY 1, 2",
			"SELECT user_id, device_id, conv_id, install_epoch, epoch, start_seq, delivered_seq, n FROM device_cursors ORDER BY 1, 2, 3",
			"SELECT user_id, conv_id, epoch, read_seq FROM read_cursors ORDER BY 1, 2",
		} {
			fmt.Fprintln(&out, q)
			err := c.query(q, func(r row) error {
				fmt.Fprintln(&out, []any{r}...)
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	w.must(err)
	return out.String()
}

// The nth statement of every kind of write fails, for every n: the write fails as
// a whole, and a repeat does it as if nothing had been.
func TestEveryStatementMayFail(t *testing.T) {
	t.Parallel()
	ideal := newWorld(t, Options{})
	want := map[string]string{}
	ideal.group("c", "ana", "ben")
	for _, s := range steps(ideal) {
		ideal.must(s.do(ideal))
		want[s.name] = ideal.dump()
	}
	for i, s := range steps(ideal) {
		t.Run(s.name, func(t *testing.T) {
			n := int64(1)
			for ; failNth(t, i, n, want); n++ {
			}
			if n < 4 {
				t.Errorf("the sweep ended after %d statements: nothing was tried", n-1)
			}
		})
	}
}

// failNth lets the nth statement of the ith step fail and reports whether there
// was one.
func failNth(t *testing.T, i int, n int64, want map[string]string) bool {
	t.Helper()
	b := &breaker{n: n, times: 1}
	w := newWorld(t, Options{hook: b.hook})
	w.group("c", "ana", "ben")
	all := steps(w)
	for _, s := range all[:i] {
		w.must(s.do(w))
	}
	s, before := all[i], w.dump()
	b.armed.Store(true)
	err := s.do(w)
	b.armed.Store(false)
	if b.failed.Load() == 0 {
		w.must(err)
		return false
	}
	switch after := w.dump(); {
	case err == nil && after != want[s.name]:
		t.Fatalf("statement %d failed, the write went well all the same, and left\n%s\nwant\n%s", n, after, want[s.name])
	case err != nil && refused(err):
		t.Fatalf("statement %d failed, and the caller was told of a refusal: %v", n, err)
	case err != nil && after != before:
		t.Fatalf("statement %d failed (%v) and left\n%s\nbefore it was\n%s", n, err, after, before)
	}
	w.must(s.do(w))
	if got := w.dump(); got != want[s.name] {
		t.Fatalf("after statement %d failed, the repeat left\n%s\nwant\n%s", n, got, want[s.name])
	}
	return true
}

// A message that the database refuses fails alone; its neighbours of the same
// transaction are stored without a hole (D13).
func TestABadItemFailsAlone(t *testing.T) {
	for what, query := range map[string]string{"probe": "SELECT 1 FROM msg_dedup", "insert": "INSERT INTO events", "key": "INSERT INTO msg_dedup"} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, Options{hook: func(q string, args []any) error {
				for _, arg := range args {
					if cmid, ok := arg.(impart.CMID); ok && strings.HasPrefix(string(cmid), "bad") && strings.HasPrefix(q, query) {
						return errDisk
					}
				}
				return nil
			}})
			w.group("c", "ana")
			w.group("c-2", "ana", "ben")
			var wg sync.WaitGroup
			for i := range 20 {
				name := "good"
				if i%7 == 3 {
					name = "bad"
				}
				a := w.msg("ana", "c", impart.CMID(fmt.Sprint(name, i)), "x")
				b := w.msg("ana", "c-2", impart.CMID(fmt.Sprint(i)), "a neighbour")
				wg.Go(func() {
					out := w.Append(t.Context(), []store.Append{a, b})
					if (out[0].Err != nil) != (name == "bad") || refused(out[0].Err) {
						t.Errorf("cmid %q: %+v", a.CMID, out[0])
					}
					if out[1].Err != nil {
						t.Errorf("the neighbour of %q: %v", a.CMID, out[1].Err)
					}
				})
				wg.Go(func() {
					if out := w.MarkRead(t.Context(), []store.MarkRead{{User: "ana", Conv: "c", Seq: 0}})[0]; out.Err != nil {
						t.Errorf("a read beside %q: %v", a.CMID, out.Err)
					}
				})
			}
			wg.Wait()
			if got := len(w.whole("ana", "c")); got != 17 {
				t.Errorf("%d events, want the 17 good ones", got)
			}
			if got := len(w.whole("ana", "c-2")); got != 20 {
				t.Errorf("%d neighbours, want 20", got)
			}
		})
	}
}

// When the disk is gone for good, a full transaction does not try it a thousand
// times over.
func TestADeadDiskIsNotTriedForEachItem(t *testing.T) {
	b := &breaker{n: 1, times: 1 << 30}
	w := newWorld(t, Options{hook: func(query string, _ []any) error {
		if !strings.HasPrefix(query, "INSERT INTO events") {
			return nil
		}
		return b.hook(query, nil)
	}})
	w.group("c", "ana")
	b.armed.Store(true)
	var items []store.Append
	for i := range 500 {
		items = append(items, w.msg("ana", "c", impart.CMID(fmt.Sprint(i)), "x"))
	}
	for i, out := range w.Append(t.Context(), items) {
		if !errors.Is(out.Err, errDisk) || refused(out.Err) {
			t.Fatalf("%d: %+v", i, out)
		}
	}
	if tried := b.count.Load(); tried > 1+maxFailures {
		t.Errorf("%d inserts were tried", tried)
	}
	if !w.Stats().Failing {
		t.Error("nobody can see that writes fail")
	}
	b.armed.Store(false)
	if _, _, err := w.RemoveMember(t.Context(), "nowhere", "ana", impart.System, w.stamp); !refused(err) {
		t.Errorf("leaving a conversation that is not there: %v", err)
	}
	if w.Stats().Failing {
		t.Error("writes fail, it says, though the disk is back and one was only refused")
	}
	b.armed.Store(false)
	for i, out := range w.Append(t.Context(), items) {
		if out.Err != nil || out.Seq != impart.Seq(i+1) {
			t.Fatalf("after the disk came back, %d: %+v", i, out)
		}
	}
}

// A transaction that cannot begin or end fails everybody in it, once.
func TestBeginAndCommitFailEverybody(t *testing.T) {
	for _, query := range []string{sqliteStatements.begin, sqliteStatements.commit} {
		t.Run(query, func(t *testing.T) {
			b := &breaker{n: 1, times: 1}
			w := newWorld(t, Options{hook: func(q string, _ []any) error {
				if q != query {
					return nil
				}
				return b.hook(q, nil)
			}})
			w.group("c", "ana")
			b.armed.Store(true)
			items := []store.Append{w.msg("ana", "c", "1", "x"), w.msg("ana", "c", "2", "x")}
			for _, out := range w.Append(t.Context(), items) {
				if !errors.Is(out.Err, errDisk) || impart.CodeOf(out.Err) != impart.Unavailable || refused(out.Err) {
					t.Errorf("%+v", out)
				}
			}
			if b.count.Load() != 1 {
				t.Errorf("%s was tried %d times", query, b.count.Load())
			}
			w.must(w.stored(items...))
			if got := len(w.whole("ana", "c")); got != 2 {
				t.Errorf("%d events", got)
			}
		})
	}
}

// SQLite itself says that the disk is full, in the middle of a transaction, and
// rolls back by its own: nothing is half there, and what fits is stored.
func TestAFullDisk(t *testing.T) {
	var log strings.Builder
	w := newWorld(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	w.group("c", "ana")
	w.sends(w.msg("ana", "c", "before", "x"))
	err := w.direct(t.Context(), func(tx *txn) error {
		return tx.query("PRAGMA max_page_count(1)", func(row) error { return nil }) // no page more than there are
	})
	w.must(err)
	items := make([]store.Append, 50)
	for i := range items {
		items[i] = w.msg("ana", "c", impart.CMID(fmt.Sprint(i)), strings.Repeat("x", 10_000))
	}
	full := 0
	for _, out := range w.Append(t.Context(), items) {
		switch {
		case refused(out.Err):
			t.Errorf("a full disk is no refusal: %v", out.Err)
		case out.Err != nil:
			full++
		}
	}
	if events := w.whole("ana", "c"); len(events) != 1+len(items)-full {
		t.Errorf("%d events, and %d were refused", len(events), full)
	}
	w.must(w.Close())
	if !strings.Contains(log.String(), "full") {
		t.Errorf("SQLite never said that the disk is full; the log is %q", log.String())
	}
	// The limit was the connection's; there is room again on a new one.
	w.open(Options{})
	w.must(w.stored(items...))
	if events := w.whole("ana", "c"); len(events) != 1+len(items) {
		t.Errorf("%d events", len(events))
	}
	t.Logf("%d of %d did not fit", full, len(items))
}

// Case 7: the connections of the pool died while the store was idle. What meets
// the first dead one may fail and be retried; the next write and the next read are
// done on new ones.
func TestConnectionsThatDiedWhileIdleAreReplaced(t *testing.T) {
	var dead atomic.Bool
	var met atomic.Int64
	hook := func(string, []any) error {
		if dead.CompareAndSwap(true, false) {
			met.Add(1)
			return driver.ErrBadConn
		}
		return nil
	}
	w := newWorld(t, Options{hook: hook, look: hook})
	w.group("c", "ana")
	w.sends(w.msg("ana", "c", "1", "x"))
	for i := range 5 {
		item := w.msg("ana", "c", impart.CMID(fmt.Sprint("later-", i)), "x")
		dead.Store(true)
		out := w.Append(t.Context(), []store.Append{item})[0]
		if out.Err != nil && (refused(out.Err) || impart.CodeOf(out.Err) != impart.Unavailable) {
			t.Errorf("a write on a dead connection: %v", out.Err)
		}
		if out = w.Append(t.Context(), []store.Append{item})[0]; out.Err != nil || out.Seq != impart.Seq(i+2) {
			t.Errorf("the write after it: %+v", out)
		}
		dead.Store(true)
		page := store.PageQuery{User: "ana", Conv: "c", Limit: 10, MaxBytes: impart.MaxPage}
		if _, err := w.Page(t.Context(), page); err != nil && refused(err) {
			t.Errorf("a read on a dead connection: %v", err)
		}
		if _, err := w.Page(t.Context(), page); err != nil {
			t.Errorf("the read after it: %v", err)
		}
	}
	if met.Load() != 10 {
		t.Errorf("%d dead connections were met", met.Load())
	}
}
