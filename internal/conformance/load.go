package conformance

import (
	"fmt"
	"sync"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// atOnce runs f(0) … f(n-1) each in its own goroutine and waits for them.
func (w *world) atOnce(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

var loadStories = []story{
	{"many at once in one conversation", func(w *world) {
		const writers, each = 8, 25
		w.conversation("c", "ana", "ben")
		outcomes := make([][]store.Appended, writers)
		w.atOnce(writers, func(i int) {
			for j := range each {
				got := w.lands(w.msg("ana", "c", impart.CMID(fmt.Sprintf("%d-%d", i, j)), "x"))
				outcomes[i] = append(outcomes[i], got)
			}
		})
		page := w.whole("ben", "c", 0)
		same(w, "head", page.Head, impart.Seq(writers*each))
		for _, mine := range outcomes {
			last := impart.Seq(0)
			for _, o := range mine {
				if ev := page.Events[o.Seq-1]; ev.MID != o.MID || o.Seq <= last {
					w.t.Fatalf("%+v follows seq %d, and the log holds %s there", o, last, ev.MID)
				}
				last = o.Seq
			}
		}
		unique := map[impart.MID]bool{}
		for _, ev := range page.Events {
			unique[ev.MID] = true
		}
		same(w, "different mids", len(unique), writers*each)
	}},
	{"many at once in many conversations", func(w *world) {
		const writers, convs, rounds = 8, 5, 6
		for i := range convs {
			w.conversation(ids(i)[0], "ana")
		}
		w.atOnce(writers, func(i int) {
			for j := range rounds {
				var items []store.Append
				for k := range convs { // each writer in another order, as deadlocks like it
					conv := ids((i + k*(1+i%4)) % convs)[0]
					items = append(items, w.msg("ana", conv, impart.CMID(fmt.Sprintf("%d-%d-%d", i, j, k)), "x"))
				}
				for _, got := range w.Store.Append(w.ctx, items) {
					if got.Err != nil || got.Dup {
						w.t.Errorf("got %+v", got)
					}
				}
			}
		})
		total := 0
		for i := range convs {
			total += len(w.whole("ana", ids(i)[0], 0).Events)
		}
		same(w, "events", total, writers*rounds*convs)
	}},
	{"readers never see a gap under load", func(w *world) {
		w.conversation("c", "ana")
		done := make(chan struct{})
		var readers sync.WaitGroup
		for range 2 {
			readers.Go(func() {
				after, head := impart.Seq(0), impart.Seq(0)
				for {
					page := w.whole("ana", "c", after)
					if page.Head < head {
						w.t.Errorf("head went back from %d to %d", head, page.Head)
					}
					after, head = page.Through, page.Head
					select {
					case <-done:
						return
					default:
					}
				}
			})
		}
		w.atOnce(4, func(i int) {
			for j := range 25 {
				w.lands(w.msg("ana", "c", impart.CMID(fmt.Sprintf("%d-%d", i, j)), "x"))
			}
		})
		close(done)
		readers.Wait()
		same(w, "head", w.whole("ana", "c", 0).Head, impart.Seq(100))
	}},
	{"everything at once", func(w *world) {
		w.conversation("c", "ana", "ben")
		w.hello("ben", "phone", "x")
		var mu sync.Mutex
		sent := map[impart.CMID]store.Appended{}
		w.atOnce(6, func(i int) {
			for j := range 20 {
				switch i {
				case 0, 1: // two senders, who also resend and recall
					cmid := impart.CMID(fmt.Sprintf("%d-%d", i, j))
					a := w.msg("ana", "c", cmid, "x")
					first := w.lands(a)
					if again := w.lands(a); again.Seq != first.Seq || again.MID != first.MID {
						w.t.Errorf("cmid %s: first %+v, again %+v", cmid, first, again)
					}
					if j%5 == 0 {
						w.lands(w.takeBack("ana", "c", "r-"+cmid, first.Seq))
					}
					mu.Lock()
					sent[cmid] = first
					mu.Unlock()
				case 2: // a device that reads and acks
					at := w.devotedReader()
					w.steady(at)
				case 3: // somebody who comes and goes
					if _, _, err := w.Store.PutMember(w.ctx, "c", impart.Member{User: "cy"}, impart.System, w.stamp); err != nil {
						w.t.Error(err)
					}
					if _, _, err := w.Store.RemoveMember(w.ctx, "c", "cy", impart.System, w.stamp); err != nil {
						w.t.Error(err)
					}
				case 4: // the list
					page, err := w.Store.Convs(w.ctx, "ben", "phone", "", 10, impart.MaxPage)
					if err != nil || len(page.Convs) != 1 || page.Convs[0].Delivered > page.Convs[0].Head {
						w.t.Errorf("the list: %+v, %v", page, err)
					}
				default: // the fan-out
					r, err := w.Store.Range(w.ctx, "c", 1, impart.MaxNumber, impart.MaxLimit)
					if err != nil || len(r.Events) != int(r.Head) {
						w.t.Errorf("the range: %d events, head %d, %v", len(r.Events), r.Head, err)
					}
				}
			}
		})
		page := w.whole("ben", "c", 0)
		same(w, "head", page.Head, impart.Seq(2*20+2*4+2*20))
		for cmid, first := range sent {
			if ev := page.Events[first.Seq-1]; ev.CMID != cmid || ev.MID != first.MID {
				w.t.Errorf("cmid %s was stored as %+v, and there is %s", cmid, first, word(&ev))
			}
		}
	}},
}

// devotedReader reads what ben's phone lacks in "c" and acknowledges it.
func (w *world) devotedReader() store.Advanced {
	lags, err := w.Store.Lags(w.ctx, []impart.LagQuery{{Session: impart.Session{User: "ben", Device: "phone", Install: 1}, Conv: "c"}})
	if err != nil {
		w.t.Error(err)
		return store.Advanced{}
	}
	page := w.whole("ben", "c", lags[0].Delivered)
	got := w.Store.Advance(w.ctx, []store.Advance{phone("ben", "c", page.Through)})[0]
	if got.Err != nil || got.Delivered != page.Through {
		w.t.Errorf("ack of %d: %+v", page.Through, got)
	}
	return got
}

// steady acknowledges an older seq again: the cursor must not go back.
func (w *world) steady(at store.Advanced) {
	if got := w.Store.Advance(w.ctx, []store.Advance{phone("ben", "c", at.Delivered/2)})[0]; got.Err != nil || got.Delivered != at.Delivered {
		w.t.Errorf("the cursor was at %d, and a late ack left it at %+v", at.Delivered, got)
	}
}
