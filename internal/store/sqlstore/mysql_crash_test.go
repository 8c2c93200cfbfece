package sqlstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/lab/mysql"
	"github.com/impart-im/impart/internal/store"
)

// Every connection of the pools dies while the store is idle. The next write and the
// next read go well all the same.
func TestMySQLConnectionsThatDiedWhileIdle(t *testing.T) {
	w, p := newMyWorld(t, Options{})
	w.group("c", "ana")
	page := store.PageQuery{User: "ana", Conv: "c", Limit: 10, MaxBytes: impart.MaxPage}
	ended := 0
	for i := range 5 {
		ended += p.terminate(t)
		if got := w.sends(w.msg("ana", "c", impart.CMID(fmt.Sprint(i)), "x")); got != impart.Seq(i+1) {
			t.Errorf("seq %d, want %d", got, i+1)
		}
		ended += p.terminate(t)
		if _, err := w.Page(t.Context(), page); err != nil {
			t.Errorf("a read: %v", err)
		}
		ended += p.terminate(t)
		if _, err := w.Hello(t.Context(), store.Hello{User: "ana", Device: "d", Install: "x"}); err != nil {
			t.Errorf("a hello: %v", err)
		}
	}
	if ended < 10 {
		t.Errorf("%d sessions were ended: nothing was tried", ended)
	}
}

// sendUntil has eight senders send until done, and gives what they were answered. One
// message at a time of each is under way.
func sendUntil(t *testing.T, w *world, done *atomic.Bool) (wait func() map[impart.CMID]store.Appended, count func() int) {
	t.Helper()
	return sendAs(t, w, "k", done)
}

// sendAs is sendUntil with cmids of one's own.
func sendAs(t *testing.T, w *world, name string, done *atomic.Bool) (wait func() map[impart.CMID]store.Appended, count func() int) {
	t.Helper()
	var mu sync.Mutex
	answered := map[impart.CMID]store.Appended{}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := 0; !done.Load(); j++ {
				a := w.msg("ana", "c", impart.CMID(fmt.Sprintf("%s-%d-%d", name, i, j)), "x")
				out := w.Append(context.Background(), []store.Append{a})[0]
				if out.Err != nil || out.Dup || out.MID != a.MID {
					t.Errorf("cmid %q: %+v", a.CMID, out)
					continue
				}
				mu.Lock()
				answered[a.CMID] = out
				mu.Unlock()
			}
		})
	}
	count = func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(answered)
	}
	return func() map[impart.CMID]store.Appended { wg.Wait(); return answered }, count
}

// holds checks that the log holds exactly what was answered.
func (w *world) holds(answered map[impart.CMID]store.Appended) {
	w.t.Helper()
	events := w.whole("ana", "c")
	for cmid, out := range answered {
		if int(out.Seq) > len(events) || events[out.Seq-1].CMID != cmid || events[out.Seq-1].MID != out.MID {
			w.t.Fatalf("cmid %q was answered as %+v, and is not there", cmid, out)
		}
	}
	if len(events) != len(answered) {
		w.t.Errorf("%d events, and %d were answered", len(events), len(answered))
	}
}

// Sessions are ended again and again under load. Every message is answered as
// stored, by whatever attempt, and stands once (D2).
func TestMySQLSessionsEndedUnderLoad(t *testing.T) {
	w, p := newMyWorld(t, Options{})
	w.group("c", "ana")
	var done atomic.Bool
	wait, count := sendUntil(t, w, &done)
	ended := 0
	for range 15 {
		before := count()
		waitFor(t, "some more to be answered", func() bool { return count() > before+10 })
		ended += p.terminate(t)
	}
	done.Store(true)
	w.holds(wait())
	if ended < 15 {
		t.Errorf("%d sessions were ended: nothing was tried", ended)
	}
}

// The server is killed, and recovers, under load: what was answered is there, and
// the store goes on without being opened anew.
func TestMySQLCrashKeepsWhatWasAnswered(t *testing.T) {
	needMySQL(t)
	t.Parallel()
	for name, settings := range map[string]map[string]string{"without a binary log": nil, "with one": mysql.Primary()} {
		t.Run(name, func(t *testing.T) {
			ctx, server := t.Context(), startMySQL(t, mysql.Options{Settings: settings})
			w := openPgWorld(t, newMyPlaceOn(t, server).dsn(), Options{Patience: 30 * time.Second})
			w.group("c", "ana")
			var done atomic.Bool
			wait, count := sendUntil(t, w, &done)
			for _, crash := range []func() error{server.Kill, func() error { return server.Stop(ctx) }} {
				before := count()
				waitFor(t, "some more to be answered", func() bool { return count() > before+50 })
				w.must(crash())
				w.must(server.Start(ctx))
			}
			before := count()
			waitFor(t, "some to be answered after the crashes", func() bool { return count() > before+50 })
			done.Store(true)
			w.holds(wait())
		})
	}
}

// A transaction that holds its rows for long is seen by another node that asks for
// what was written, however long it takes.
func TestMySQLGatesTellWhoIsWriting(t *testing.T) {
	needMySQL(t)
	s := newMySubject(t, newMyPlace(t), Options{})
	w := &world{t: t, Store: s.now}
	t.Cleanup(func() { w.must(s.now.Close()) })
	other := openPgWorld(t, s.dsn(), Options{})
	w.group("c", "ana")
	quiet, err := other.Written(t.Context(), 0, 10)
	w.must(err)
	if age := clockOf(other) - quiet.Now; age > 100 {
		t.Errorf("nobody writes, and the window begins %d ms ago", age)
	}
	held, goOn := make(chan bool), make(chan bool)
	block := func() error { held <- true; <-goOn; return nil }
	s.now.opts.around.before.Store(&block)
	answer := make(chan store.Appended, 1)
	a := w.msg("ana", "c", "k", "x")
	go func() { answer <- w.Append(context.Background(), []store.Append{a})[0] }()
	<-held
	began := clockOf(other)
	waitFor(t, "two seconds to pass", func() bool { return clockOf(other) > began+2000 })
	during, err := other.Written(t.Context(), 0, 10)
	w.must(err)
	if during.Now > began || during.Now < began-2000 {
		t.Errorf("the transaction began at about %d, and the window begins at %d", began, during.Now)
	}
	close(goOn)
	if out := <-answer; out.Err != nil {
		t.Error(out.Err)
	}
	after, err := other.Written(t.Context(), during.Now, 10)
	w.must(err)
	if len(after.Heads) != 1 || after.Now < began {
		t.Errorf("afterwards %+v", after)
	}
}

// clockOf is the clock of the store's server.
func clockOf(w *world) (now impart.Millis) {
	w.t.Helper()
	w.must(w.read(w.t.Context(), func(c session) error {
		return c.query("SELECT "+myClock, func(r row) error { now = impart.Millis(r.num(0)); return nil })
	}))
	return now
}

func TestOldestGate(t *testing.T) {
	const clock = 1_700_000_000_500
	for name, c := range map[string]struct {
		held []int64 // seconds ago
		want impart.Millis
	}{
		"nobody writes":            {nil, clock},
		"somebody since just now":  {[]int64{0}, clock - 500},
		"two":                      {[]int64{1, 7}, clock - 7500},
		"as long as can be told":   {[]int64{gateCount - 1}, clock - 500 - (gateCount-1)*1000},
		"around the end of a turn": {[]int64{1000}, clock - 500 - 1_000_000},
	} {
		held := new([gateCount]bool)
		for _, ago := range c.held {
			held[(clock/1000-ago)%gateCount] = true
		}
		if got := oldestGate(clock, held); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
