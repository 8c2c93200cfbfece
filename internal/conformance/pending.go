package conformance

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/pending"
)

// PendingSubject is one set under test.
type PendingSubject struct {
	// Set is empty.
	Set pending.Set
	// Advance moves the clock that the set goes by.
	Advance func(time.Duration)
}

// Pending runs the suite of [pending.Set]. open gives a fresh, empty set for
// each subtest.
func Pending(t *testing.T, open func(t *testing.T) PendingSubject) {
	for _, s := range pendingStories {
		t.Run(s.name, func(t *testing.T) { s.tell(&flows{t: t, ctx: t.Context(), PendingSubject: open(t)}) })
	}
}

// PendingInBubble runs the same suite on a set that goes by the clock of its
// process, which a synctest bubble makes stand still.
func PendingInBubble(t *testing.T, open func(t *testing.T) pending.Set) {
	for _, s := range pendingStories {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s.tell(&flows{t: t, ctx: t.Context(), PendingSubject: PendingSubject{Set: open(t), Advance: time.Sleep}})
			})
		})
	}
}

// flows is one set with the words that its stories are told in.
type flows struct {
	PendingSubject
	t   *testing.T
	ctx context.Context
}

// short is a ladder that is not the default one.
var short = pending.Ladder{2 * time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}

// tick is how much before its time a flow must not be due, and how much after it
// must be: a set may keep milliseconds.
const tick = 5 * time.Millisecond

func flow(conv impart.ConvID, seq impart.Seq, changes ...func(*pending.Entry)) pending.Entry {
	e := pending.Entry{
		Key: pending.Key{User: "ana", Device: "phone", Conv: conv, Conn: 1},
		Seq: seq, Attempts: 1, Ladder: pending.DefaultLadder,
	}
	for _, c := range changes {
		c(&e)
	}
	return e
}

func conn(n uint64) func(*pending.Entry) { return func(e *pending.Entry) { e.Conn = n } }

func (f *flows) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *flows) register(entries ...pending.Entry) {
	f.t.Helper()
	f.must(f.Set.Register(f.ctx, entries...))
}

// due takes what is due and checks it, in any order: "c-1 seq 3 attempt 2".
func (f *flows) due(want ...string) {
	f.t.Helper()
	f.dueUpTo(100, want...)
}

func (f *flows) dueUpTo(limit int, want ...string) {
	f.t.Helper()
	entries, err := f.Set.Due(f.ctx, limit)
	f.must(err)
	got := map[string]int{}
	for _, e := range entries {
		got[fmt.Sprintf("%s seq %d attempt %d", e.Conv, e.Seq, e.Attempts)]++
	}
	for _, w := range want {
		got[w]--
	}
	for what, n := range got {
		if n > 0 {
			f.t.Errorf("due and not wanted: %s", what)
		} else if n < 0 {
			f.t.Errorf("wanted and not due: %s", what)
		}
	}
}

// dueAfter checks that nothing is due until wait has passed, and then want is.
func (f *flows) dueAfter(wait time.Duration, want ...string) {
	f.t.Helper()
	f.Advance(wait - tick)
	f.due()
	f.Advance(2 * tick)
	f.due(want...)
}

func (f *flows) has(want int) {
	f.t.Helper()
	n, err := f.Set.Len(f.ctx)
	f.must(err)
	if n != want {
		f.t.Errorf("the set has %d flows, want %d", n, want)
	}
}

var pendingStories = []struct {
	name string
	tell func(f *flows)
}{
	{"a flow is tried four times and then given up", func(f *flows) {
		f.has(0)
		f.register(flow("c", 7))
		f.has(1)
		f.dueAfter(time.Second, "c seq 7 attempt 2")
		f.dueAfter(3*time.Second, "c seq 7 attempt 3")
		f.dueAfter(7*time.Second, "c seq 7 attempt 4")
		f.has(1)
		f.dueAfter(15*time.Second, "c seq 7 attempt 5") // the last wait only expires
		f.has(0)
		f.Advance(time.Hour)
		f.due()
	}},
	{"each flow climbs its own ladder", func(f *flows) {
		f.register(flow("c-1", 1), flow("c-2", 2, func(e *pending.Entry) { e.Ladder = short }))
		at := func(seconds float64, want ...string) {
			f.t.Helper()
			f.Advance(time.Duration(seconds * float64(time.Second)))
			f.due(want...)
		}
		at(1.1, "c-1 seq 1 attempt 2")                        // 1.1: again at 4.1
		at(0.8)                                               // 1.9
		at(0.2, "c-2 seq 2 attempt 2")                        // 2.1: again at 4.1
		at(1.9)                                               // 4.0
		at(0.2, "c-1 seq 1 attempt 3", "c-2 seq 2 attempt 3") // 4.2: again at 11.2 and at 8.2
		at(3.9)                                               // 8.1
		at(0.2, "c-2 seq 2 attempt 4")                        // 8.3: again at 16.3
		at(2.8)                                               // 11.1
		at(0.2, "c-1 seq 1 attempt 4")                        // 11.3
		at(5.1, "c-2 seq 2 attempt 5")                        // 16.4
	}},
	{"new events do not start attempts anew", func(f *flows) {
		f.register(flow("c", 7))
		f.Advance(900 * time.Millisecond)
		f.register(flow("c", 9, func(e *pending.Entry) { e.Ladder = short }))
		f.has(1)
		f.dueAfter(100*time.Millisecond, "c seq 9 attempt 2")
		f.register(flow("c", 10), flow("c", 8))
		f.has(1)
		f.dueAfter(3*time.Second, "c seq 10 attempt 3")
	}},
	{"a moved cursor starts attempts anew", func(f *flows) {
		f.register(flow("c", 7))
		f.dueAfter(time.Second, "c seq 7 attempt 2")
		f.dueAfter(3*time.Second, "c seq 7 attempt 3")
		f.Advance(6 * time.Second)
		f.must(f.Set.Moved(f.ctx, flow("c", 9, func(e *pending.Entry) { e.Ladder = short })))
		f.has(1)
		f.dueAfter(2*time.Second, "c seq 9 attempt 2")
		f.dueAfter(2*time.Second, "c seq 9 attempt 3")
	}},
	{"a flow that moved and was not there is added", func(f *flows) {
		f.must(f.Set.Moved(f.ctx, flow("c", 7)))
		f.has(1)
		f.dueAfter(time.Second, "c seq 7 attempt 2")
	}},
	{"a settled flow is never due", func(f *flows) {
		f.register(flow("c-1", 1), flow("c-2", 2), flow("c-3", 3))
		f.must(f.Set.Settle(f.ctx, flow("c-1", 0).Key, flow("c-3", 0).Key, flow("nowhere", 0).Key))
		f.has(1)
		f.must(f.Set.Settle(f.ctx, flow("c-1", 0).Key))
		f.must(f.Set.Settle(f.ctx))
		f.dueAfter(time.Second, "c-2 seq 2 attempt 2")
	}},
	{"a flow may come back after it was settled or given up", func(f *flows) {
		f.register(flow("c", 1))
		f.dueAfter(time.Second, "c seq 1 attempt 2")
		f.must(f.Set.Settle(f.ctx, flow("c", 0).Key))
		f.register(flow("c", 2))
		f.dueAfter(time.Second, "c seq 2 attempt 2")
		for _, wait := range pending.DefaultLadder[1:] {
			f.Advance(wait + tick)
			_, err := f.Set.Due(f.ctx, 1)
			f.must(err)
		}
		f.has(0)
		f.register(flow("c", 3))
		f.dueAfter(time.Second, "c seq 3 attempt 2")
	}},
	{"a connection takes its flows with it", func(f *flows) {
		f.register(flow("c-1", 1, conn(1)), flow("c-2", 2, conn(2)), flow("c-3", 3, conn(1)), flow("c-4", 4, conn(12)))
		f.must(f.Set.Drop(f.ctx, 1))
		f.must(f.Set.Drop(f.ctx, 1))
		f.must(f.Set.Drop(f.ctx, 99))
		f.has(2)
		f.dueAfter(time.Second, "c-2 seq 2 attempt 2", "c-4 seq 4 attempt 2")
		f.register(flow("c-1", 1, conn(1)))
		f.has(3)
		f.must(f.Set.Settle(f.ctx, flow("c-2", 0, conn(2)).Key))
		f.must(f.Set.Drop(f.ctx, 2))
		f.has(2)
	}},
	{"flows are told apart by every part of their key", func(f *flows) {
		var entries []pending.Entry
		for i, key := range []pending.Key{
			{User: "a", Device: "b", Conv: "c", Conn: 1}, {User: "a", Device: "b", Conv: "c", Conn: 2},
			{User: "a", Device: "b", Conv: "C", Conn: 1}, {User: "a", Device: "b", Conv: "c ", Conn: 1},
			{User: "a:b", Device: "", Conv: "c", Conn: 1}, {User: "a", Device: "b:c", Conv: "", Conn: 1},
			{User: "ab", Device: "", Conv: "c", Conn: 1}, {User: "a", Device: "bc", Conv: "", Conn: 1},
			{User: "a", Device: "b", Conv: "c:1", Conn: 11}, {User: "a", Device: "b", Conv: "c:11", Conn: 1},
		} {
			entries = append(entries, pending.Entry{Key: key, Seq: impart.Seq(i + 1), Attempts: 1, Ladder: pending.DefaultLadder})
		}
		f.register(entries...)
		f.has(len(entries))
		f.Advance(time.Second + tick)
		due, err := f.Set.Due(f.ctx, 100)
		f.must(err)
		seen := map[pending.Key]impart.Seq{}
		for _, e := range due {
			seen[e.Key] = e.Seq
		}
		for _, e := range entries {
			if seen[e.Key] != e.Seq {
				f.t.Errorf("%+v came back with seq %d, want %d", e.Key, seen[e.Key], e.Seq)
			}
		}
		for i, e := range entries {
			f.must(f.Set.Settle(f.ctx, e.Key))
			f.has(len(entries) - i - 1)
		}
	}},
	{"a scan takes at most its limit", func(f *flows) {
		for i := range 10 {
			f.register(flow(impart.ConvID(fmt.Sprint(i)), 1))
		}
		f.Advance(time.Second + tick)
		f.dueUpTo(0)
		seen := map[impart.ConvID]int{}
		for _, want := range []int{3, 3, 3, 1, 0} {
			entries, err := f.Set.Due(f.ctx, 3)
			f.must(err)
			if len(entries) != want {
				f.t.Errorf("took %d flows, want %d", len(entries), want)
			}
			for _, e := range entries {
				seen[e.Conv]++
			}
		}
		if len(seen) != 10 {
			f.t.Errorf("took %d different flows, want 10", len(seen))
		}
	}},
	{"a late scan tries each flow once", func(f *flows) {
		f.register(flow("c", 1))
		f.Advance(time.Minute)
		f.due("c seq 1 attempt 2")
		f.due()
		f.dueAfter(3*time.Second, "c seq 1 attempt 3")
	}},
	{"two scanners never get one flow twice", func(f *flows) {
		const n = 200
		for i := range n {
			f.register(flow(impart.ConvID(fmt.Sprint(i)), 1, conn(uint64(i%5+1))))
		}
		for attempt, wait := range pending.DefaultLadder {
			f.Advance(wait + tick)
			var mu sync.Mutex
			seen := map[pending.Key]int{}
			var scanners sync.WaitGroup
			for range 8 {
				scanners.Go(func() {
					for {
						entries, err := f.Set.Due(f.ctx, 7)
						if err != nil {
							f.t.Error(err)
						}
						if len(entries) == 0 {
							return
						}
						mu.Lock()
						for _, e := range entries {
							seen[e.Key]++
							if e.Attempts != attempt+2 {
								f.t.Errorf("%s has attempt %d, want %d", e.Conv, e.Attempts, attempt+2)
							}
						}
						mu.Unlock()
					}
				})
			}
			scanners.Wait()
			for key, times := range seen {
				if times != 1 {
					f.t.Errorf("%s was taken %d times", key.Conv, times)
				}
			}
			if len(seen) != n {
				f.t.Errorf("%d flows were taken, want %d", len(seen), n)
			}
		}
		f.has(0)
	}},
	{"acks and scans at once leave no ghost", func(f *flows) {
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				for j := range 50 {
					e := flow(impart.ConvID(fmt.Sprintf("%d-%d", i, j)), 1, conn(uint64(i+1)))
					if err := f.Set.Register(f.ctx, e); err != nil {
						f.t.Error(err)
					}
					if j%2 == 0 {
						if err := f.Set.Settle(f.ctx, e.Key); err != nil {
							f.t.Error(err)
						}
					}
					if _, err := f.Set.Due(f.ctx, 10); err != nil {
						f.t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		f.has(100)
		f.must(f.Set.Drop(f.ctx, 1))
		f.must(f.Set.Drop(f.ctx, 3))
		f.has(50)
	}},
}
