package conformance

import (
	"slices"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

var retainStories = []story{
	{"old events go and floor rises", func(w *world) {
		w.withPhone(10)
		w.says("ana", "c", "kept")
		before := w.after("ana", "c", 10).Events[0].At
		w.retains(before, 100, 10, false)
		w.retains(before, 100, 0, false)
		page := w.after("ana", "c", 0)
		same(w, "page", words(page.Events), []string{"11 kept"})
		same(w, "floor", page.Floor, impart.Seq(10))
		same(w, "head", page.Head, impart.Seq(11))
		same(w, "seq", w.says("ana", "c", "next"), 12)
		info, err := w.Store.Conversation(w.ctx, "c")
		w.must(err)
		same(w, "floor", info.Floor, impart.Seq(10))
		same(w, "floor in the list", w.conv("ana", "phone", "c").Floor, impart.Seq(10))
		r, err := w.Store.Range(w.ctx, "c", 1, 99, 99)
		w.must(err)
		same(w, "range", seqs(r.Events), count(11, 12))
		_, err = w.Store.Delivery(w.ctx, "c", 10)
		w.wantCode(impart.NotFound, err)
		back := ask("ana", "c")
		back.Back, back.Before = true, 13
		same(w, "back", seqs(w.page(back).Events), []impart.Seq{12, 11})
		back.Before = 8
		same(w, "back below floor", len(w.page(back).Events), 0)
	}},
	{"retention is bounded", func(w *world) {
		for _, id := range ids(0, 1, 2) {
			w.conversation(id, "ana")
			w.chatter("ana", id, 10)
		}
		w.retains(impart.MaxNumber, 7, 7, true)
		w.retains(impart.MaxNumber, 7, 7, true)
		floors := impart.Seq(0)
		for _, id := range ids(0, 1, 2) {
			page := w.after("ana", id, 0)
			same(w, "seqs", seqs(page.Events), count(page.Floor+1, 10))
			floors += page.Floor
		}
		same(w, "removed in all", floors, impart.Seq(14))
		w.retains(impart.MaxNumber, 15, 15, true)
		w.retains(impart.MaxNumber, 15, 1, false)
	}},
	{"only the old end goes", func(w *world) {
		w.conversation("c", "ana")
		at := func(m impart.Millis) change { return func(a *store.Append) { a.At = m } }
		w.stores(
			w.msg("ana", "c", "1", "old", at(1000)), w.msg("ana", "c", "2", "new", at(3000)),
			w.msg("ana", "c", "3", "old, after a clock went back", at(1500)), w.msg("ana", "c", "4", "new", at(3001)),
		)
		w.retains(1000, 10, 0, false)
		w.retains(3000, 10, 1, false)
		same(w, "seqs", seqs(w.after("ana", "c", 0).Events), count(2, 4))
		w.retains(3001, 10, 2, false)
		same(w, "seqs", seqs(w.after("ana", "c", 0).Events), count(4, 4))
	}},
	{"cursors below floor count as being at it", func(w *world) {
		w.withPhone(10)
		w.acks(phone("ana", "c", 3), 3)
		w.hello("ana", "laptop", "y")
		w.says("ana", "c", "kept")
		w.retains(w.after("ana", "c", 10).Events[0].At, 100, 10, false)
		same(w, "phone", w.lag("ana", "phone", 1, "c"), impart.Lag{Head: 11, Delivered: 10})
		same(w, "laptop", w.lag("ana", "laptop", 1, "c"), impart.Lag{Head: 11, Delivered: 10})
		same(w, "lagging", w.lagging(false, 10).Convs, []impart.ConvState{
			{Conv: "c", Kind: impart.Group, Head: 11, Delivered: 10, Floor: 10},
		})
		same(w, "moved", w.acks(phone("ana", "c", 7), 10).Moved, false)
		same(w, "moved", w.acks(phone("ana", "c", 11), 11).Moved, true)
		w.retains(impart.MaxNumber, 100, 1, false)
		page := w.after("ana", "c", 0)
		same(w, "page", page, impart.Page{Conv: "c", Events: page.Events, Through: 11, Head: 11, Floor: 11, Epoch: 1})
		same(w, "events", len(page.Events), 0)
		same(w, "lagging", len(w.lagging(false, 10).Convs), 0)
	}},
	{"floor tells no more than head", func(w *world) {
		w.conversation("c", "ana", "ben")
		w.chatter("ana", "c", 2)
		w.leaves("c", "ben") // 3
		w.chatter("ana", "c", 7)
		w.retains(impart.MaxNumber, 100, 10, false)
		page := w.after("ben", "c", 0)
		same(w, "page", page, impart.Page{Conv: "c", Events: page.Events, Through: 3, Head: 3, Floor: 3, Epoch: 1})
		w.hello("ben", "phone", "x")
		same(w, "lag", w.lag("ben", "phone", 1, "c"), impart.Lag{Head: 3, Delivered: 3})
		// Nor does a refusal: whatever is above ben's head is ahead of him, gone or not.
		for _, seq := range []impart.Seq{4, 10, 11} {
			q := ask("ben", "c")
			q.After = seq
			_, err := w.Store.Page(w.ctx, q)
			w.wantCode(impart.CursorAhead, err)
			q.Back, q.Before = true, seq+1
			_, err = w.Store.Page(w.ctx, q)
			w.wantCode(impart.CursorAhead, err)
			w.wantCode(impart.CursorAhead, w.advance(phone("ben", "c", seq)).Err)
			w.wantCode(impart.CursorAhead, w.markRead(store.MarkRead{User: "ben", Conv: "c", Seq: seq}).Err)
		}
		got := w.conv("ben", "phone", "c")
		got.Last = nil
		same(w, "listed", got, impart.ConvState{Conv: "c", Kind: impart.Group, Head: 3, Delivered: 3, Floor: 3})
	}},
	{"after_mid below floor cannot be compared", func(w *world) {
		w.conversation("c", "ana")
		w.chatter("ana", "c", 5)
		w.retains(w.after("ana", "c", 3).Events[0].At, 100, 3, false)
		q := ask("ana", "c")
		q.AfterMID = "gone"
		for _, q.After = range []impart.Seq{1, 3} {
			same(w, "seqs", seqs(w.page(q).Events), count(4, 5))
		}
		q.After = 4
		_, err := w.Store.Page(w.ctx, q)
		w.wantCode(impart.EpochChanged, err)
	}},
	{"what is gone is still known by its key", func(w *world) {
		w.conversation("c", "ana")
		a := w.msg("ana", "c", "k", "hi")
		first := w.stores(a)[0]
		w.retains(impart.MaxNumber, 100, 1, false)
		w.repeats(first, a)
		w.refuses(impart.CMIDReused, w.msg("ana", "c", "k", "ho"))
		w.refuses(impart.RecallRefused, w.takeBack("ana", "c", "r", 1))
		same(w, "seq", w.stores(w.msg("ana", "c", "k2", "more", prev("k")))[0].Seq, 2)
	}},
	{"a start near the head counts what is left", func(w *world) {
		w.conversation("c", "ana")
		w.chatter("ana", "c", 10)
		w.retains(w.after("ana", "c", 7).Events[0].At, 100, 7, false)
		w.hello("ana", "phone", "x", history(2))
		same(w, "start", w.lag("ana", "phone", 1, "c").Delivered, impart.Seq(8))
		w.hello("ana", "laptop", "x", history(5))
		same(w, "start", w.lag("ana", "laptop", 1, "c").Delivered, impart.Seq(7))
	}},
	{"dedup rows are cleaned in bounds", func(w *world) {
		w.conversation("c", "ana")
		w.chatter("ana", "c", 10)
		old := w.after("ana", "c", 0).Events[0].At
		w.cleans(old, 100, 0, false)
		w.cleans(impart.MaxNumber, 4, 4, true)
		w.cleans(impart.MaxNumber, 4, 4, true)
		w.cleans(impart.MaxNumber, 4, 2, false)
		w.cleans(impart.MaxNumber, 4, 0, false)
	}},
	{"where the row is gone the events decide", func(w *world) {
		w.conversation("c", "ana", "ben")
		a := w.msg("ana", "c", "k", "hi", func(a *store.Append) { a.Ext = []byte(`{"n":1}`) })
		first := w.stores(a)[0]
		w.cleans(impart.MaxNumber, 100, 1, false)
		w.refuses(impart.CMIDReused, w.msg("ana", "c", "k", "ho", func(a *store.Append) { a.Ext = []byte(`{"n":1}`) }))
		w.refuses(impart.CMIDReused, w.msg("ana", "c", "k", "hi"))
		w.refuses(impart.CMIDReused, w.takeBack("ana", "c", "k", 1))
		w.repeats(first, a)
		w.repeats(first, a)
		w.cleans(impart.MaxNumber, 100, -1, false)
		same(w, "seq", w.stores(w.msg("ana", "c", "k2", "more", prev("k")))[0].Seq, 2)
		w.refuses(impart.OutOfOrder, w.msg("ana", "c", "k3", "x", prev("never")))
		w.refuses(impart.OutOfOrder, w.msg("ben", "c", "k3", "x", prev("k")))
		w.cleans(impart.MaxNumber, 100, -1, false)
		w.stores(w.msg("ben", "c", "k", "hi")) // another sender's key is another key
		w.leaves("c", "ana")
		w.cleans(impart.MaxNumber, 100, -1, false)
		w.repeats(first, a)
		w.sees("ben", "c", "1 hi", "2 more", "3 hi", "4 leave ana")
	}},
	{"the row of a recalled message is never cleaned", func(w *world) {
		w.conversation("c", "ana")
		secret := w.msg("ana", "c", "k", "secret")
		first := w.stores(secret)[0]
		w.says("ana", "c", "other")
		w.recalls("ana", "c", 1)
		w.cleans(impart.MaxNumber, 100, -1, false)
		w.repeats(first, secret)
		w.sees("ana", "c", "1 recalled", "2 other", "3 recall 1")
		// Not even when retention has taken the event.
		w.retains(impart.MaxNumber, 100, 3, false)
		w.cleans(impart.MaxNumber, 100, -1, false)
		w.repeats(first, secret)
		w.sees("ana", "c")
	}},
	{"a message recalled after its row was cleaned does not come back", func(w *world) {
		w.conversation("c", "ana")
		secret := w.msg("ana", "c", "k", "secret")
		first := w.stores(secret)[0]
		w.cleans(impart.MaxNumber, 100, 1, false)
		w.recalls("ana", "c", 1)
		for _, events := range []int{2, 0} { // with its event, and without
			w.cleans(impart.MaxNumber, 100, -1, false)
			w.repeats(first, secret)
			w.refuses(impart.CMIDReused, w.msg("ana", "c", "k", "another"))
			w.refuses(impart.CMIDReused, w.msg("ana", "c", "k", ""))
			w.bodyless("c", secret)
			w.retains(impart.MaxNumber, 100, events, false)
		}
		w.sees("ana", "c")
	}},
	{"a key is free once row and event are gone", func(w *world) {
		w.conversation("c", "ana")
		a := w.msg("ana", "c", "k", "hi")
		w.stores(a)
		w.retains(impart.MaxNumber, 100, 1, false)
		w.cleans(impart.MaxNumber, 100, 1, false)
		w.refuses(impart.OutOfOrder, w.msg("ana", "c", "k2", "x", prev("k")))
		again := w.msg("ana", "c", "k", "hi")
		same(w, "seq", w.stores(again)[0].Seq, 2)
	}},
	{"retention under load leaves pages whole", func(w *world) {
		w.conversation("c", "ana")
		w.atOnce(3, func(i int) {
			for j := range 20 {
				switch i {
				case 0:
					w.lands(w.msg("ana", "c", impart.CMID("k"+string(rune('a'+j))), "x"))
				case 1:
					if _, _, err := w.Store.Retain(w.ctx, impart.MaxNumber, 2); err != nil {
						w.t.Error(err)
					}
				default:
					page, err := w.Store.Page(w.ctx, ask("ana", "c"))
					if err != nil || !slices.Equal(seqs(page.Events), count(page.Floor+1, page.Head)) || page.Through != page.Head {
						w.t.Errorf("floor %d, head %d, through %d, seqs %v, %v", page.Floor, page.Head, page.Through, seqs(page.Events), err)
					}
				}
			}
		})
		same(w, "head", w.after("ana", "c", 0).Head, impart.Seq(20))
	}},
}

// retains removes events and checks how many went and whether more could.
func (w *world) retains(before impart.Millis, limit, want int, wantMore bool) {
	w.t.Helper()
	removed, more, err := w.Store.Retain(w.ctx, before, limit)
	w.must(err)
	if removed != want || more != wantMore {
		w.t.Errorf("retention removed %d, more %t; want %d, %t", removed, more, want, wantMore)
	}
}

// cleans removes dedup rows and checks how many went (-1: any number) and
// whether more could.
func (w *world) cleans(before impart.Millis, limit, want int, wantMore bool) {
	w.t.Helper()
	removed, more, err := w.Store.CleanDedup(w.ctx, before, limit)
	w.must(err)
	if (want >= 0 && removed != want) || more != wantMore {
		w.t.Errorf("cleaning removed %d, more %t; want %d, %t", removed, more, want, wantMore)
	}
}
