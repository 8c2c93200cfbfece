package conformance

import (
	"slices"
	"strings"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

var pageStories = []story{
	{"pages follow one another without gap or overlap", func(w *world) {
		w.conversation("c", "ana")
		w.chatter("ana", "c", 25)
		for _, limit := range []int{1, 7, 24, 25, 26} {
			var got []impart.Seq
			for q := ask("ana", "c"); ; {
				q.Limit = limit
				page := w.page(q)
				want := min(limit, 25-int(q.After))
				if len(page.Events) != want || page.Through != q.After+impart.Seq(want) || page.More != (page.Through < 25) {
					w.t.Fatalf("after %d with limit %d: %d events, through %d, more %t", q.After, limit, len(page.Events), page.Through, page.More)
				}
				got = append(got, seqs(page.Events)...)
				if q.After = page.Through; !page.More {
					break
				}
			}
			same(w, "seqs", got, count(1, 25))
		}
	}},
	{"pages back are newest first", func(w *world) {
		w.conversation("c", "ana")
		w.chatter("ana", "c", 25)
		q := ask("ana", "c")
		q.Back, q.Before, q.Limit = true, 26, 10
		var got []impart.Seq
		for {
			page := w.page(q)
			if page.Through != 0 || page.Head != 25 || page.More != (q.Before > 11) {
				w.t.Errorf("before %d: through %d, head %d, more %t", q.Before, page.Through, page.Head, page.More)
			}
			got = append(got, seqs(page.Events)...)
			if !page.More {
				break
			}
			q.Before = page.Events[len(page.Events)-1].Seq
		}
		want := count(1, 25)
		slices.Reverse(want)
		same(w, "seqs", got, want)
		q.Before = 0
		same(w, "before 0", len(w.page(q).Events), 0)
	}},
	{"through passes over what one may not see", func(w *world) {
		w.conversation("c", "ana", "ben")
		w.chatter("ana", "c", 2) // 1..2
		w.leaves("c", "ben")     // 3
		w.chatter("ana", "c", 4) // 4..7
		w.joins("c", "ben")      // 8
		w.says("ana", "c", "x")  // 9
		q := ask("ben", "c")
		q.Limit = 3
		page := w.page(q)
		same(w, "seqs", seqs(page.Events), count(1, 3))
		if page.Through < 3 || page.Through > 7 || !page.More {
			w.t.Errorf("through %d, more %t: want 3..7, and more", page.Through, page.More)
		}
		q.After = 5 // in the middle of what ben may not see
		page = w.page(q)
		same(w, "seqs", seqs(page.Events), count(8, 9))
		same(w, "through", page.Through, impart.Seq(9))
	}},
	{"through is head at the end, whatever lies before it", func(w *world) {
		w.conversation("c", "ana")
		w.says("ana", "c", "old") // 1
		w.joins("c", "ben")       // 2
		w.recalls("ana", "c", 1)  // 3: not ben's
		w.says("ana", "c", "new") // 4
		page := w.after("ben", "c", 2)
		same(w, "events", words(page.Events), []string{"4 new"})
		same(w, "through", page.Through, impart.Seq(4))
		page = w.after("ben", "c", 4)
		same(w, "events", len(page.Events), 0)
		same(w, "through", page.Through, impart.Seq(4))
		same(w, "more", page.More, false)
	}},
	{"an empty conversation has an empty page", func(w *world) {
		w.conversation("c", "ana")
		page := w.after("ana", "c", 0)
		same(w, "page", page, impart.Page{Conv: "c", Epoch: 1, Events: page.Events})
		same(w, "events", len(page.Events), 0)
		back := ask("ana", "c")
		back.Back, back.Before = true, 1
		same(w, "events back", len(w.page(back).Events), 0)
	}},
	{"a page ends before it is too large", func(w *world) {
		w.conversation("c", "ana")
		for range 8 {
			w.says("ana", "c", strings.Repeat("\n", 20_000)) // escaped, six bytes each
		}
		q := ask("ana", "c")
		q.MaxBytes = 300_000
		for _, back := range []bool{false, true} {
			q.Back, q.After, q.Before = back, 0, 9
			pages, events := 0, 0
			for more := true; more; pages++ {
				page := w.page(q)
				size := 0
				for i := range page.Events {
					size += store.Size(&page.Events[i])
				}
				if size > q.MaxBytes || len(page.Events) != 2 {
					w.t.Fatalf("%d events of %d bytes on one page, back %t", len(page.Events), size, back)
				}
				events += len(page.Events)
				last := page.Events[len(page.Events)-1].Seq
				if !back && page.Through != last {
					w.t.Errorf("through %d after an early end at %d", page.Through, last)
				}
				q.After, q.Before, more = last, last, page.More
			}
			same(w, "pages", pages, 4)
			same(w, "events", events, 8)
		}
		q.Back, q.After, q.MaxBytes = false, 0, 10
		page := w.page(q)
		same(w, "events on a page that is too small for one", len(page.Events), 1)
		same(w, "more", page.More, true)
	}},
	{"a recalled body takes no room", func(w *world) {
		w.conversation("c", "ana")
		for range 5 {
			w.says("ana", "c", strings.Repeat("x", 1000))
		}
		for i := range impart.Seq(4) {
			w.recalls("ana", "c", i+1)
		}
		q := ask("ana", "c")
		q.MaxBytes = 4000
		same(w, "seqs", len(w.page(q).Events) >= 5, true)
	}},
	{"nothing is read beyond head", func(w *world) {
		w.conversation("c", "ana", "ben")
		w.chatter("ana", "c", 3)
		w.leaves("c", "ben")
		w.chatter("ana", "c", 3)
		for user, head := range map[impart.UserID]impart.Seq{"ana": 7, "ben": 4} {
			q := ask(user, "c")
			for _, q.After = range []impart.Seq{head + 1, impart.MaxNumber, -1} {
				_, err := w.Store.Page(w.ctx, q)
				w.wantCode(impart.CursorAhead, err)
			}
			q.After = head
			same(w, "events after head", len(w.page(q).Events), 0)
			q.Back = true
			for _, q.Before = range []impart.Seq{head + 2, impart.MaxNumber, -1} {
				_, err := w.Store.Page(w.ctx, q)
				w.wantCode(impart.CursorAhead, err)
			}
			q.Before = head + 1
			same(w, "first event back", w.page(q).Events[0].Seq, head)
		}
	}},
	{"who was never a member reads nothing", func(w *world) {
		w.conversation("c", "ana")
		for _, q := range []store.PageQuery{ask("ben", "c"), ask("ana", "nowhere"), ask("ana ", "c"), ask("Ana", "c")} {
			page, err := w.Store.Page(w.ctx, q)
			w.wantCode(impart.NotMember, err)
			same(w, "events", len(page.Events), 0)
		}
	}},
	{"another mid at the client's place is another history", func(w *world) {
		w.conversation("c", "ana")
		w.chatter("ana", "c", 3)
		mid := w.after("ana", "c", 1).Events[0].MID
		q := ask("ana", "c")
		q.After, q.AfterMID = 2, mid
		same(w, "seqs", seqs(w.page(q).Events), count(3, 3))
		q.AfterMID = mid + "x"
		_, err := w.Store.Page(w.ctx, q)
		w.wantCode(impart.EpochChanged, err)
		same(w, "epoch told", impart.AsError(err).Epoch, impart.Epoch(1))
		q.After = 0 // before the first event there is nothing to compare
		same(w, "seqs", seqs(w.page(q).Events), count(1, 3))
	}},
	{"a range is what is there, whoever may see it", func(w *world) {
		w.conversation("c", "ana")
		w.chatter("ana", "c", 5)
		w.joins("c", "ben")
		w.recalls("ana", "c", 2)
		for _, c := range []struct {
			from, through impart.Seq
			limit         int
			want          []impart.Seq
			more          bool
		}{
			{1, 7, 10, count(1, 7), false},
			{3, 5, 10, count(3, 5), false},
			{3, 5, 3, count(3, 5), false},
			{3, 5, 2, count(3, 4), true},
			{6, 99, 10, count(6, 7), false},
			{8, 99, 10, nil, false},
			{5, 4, 10, nil, false},
		} {
			r, err := w.Store.Range(w.ctx, "c", c.from, c.through, c.limit)
			w.must(err)
			same(w, "seqs", seqs(r.Events), c.want)
			if r.More != c.more || r.Head != 7 || r.Epoch != 1 {
				w.t.Errorf("%d..%d by %d: more %t, head %d, epoch %d", c.from, c.through, c.limit, r.More, r.Head, r.Epoch)
			}
		}
	}},
	{"what was written is read at once", func(w *world) {
		w.conversation("c", "ana")
		for i := range impart.Seq(20) {
			seq := w.says("ana", "c", "x")
			page := w.after("ana", "c", i)
			if page.Head != seq || len(page.Events) != 1 {
				w.t.Fatalf("seq %d was stored, and a page read afterwards has head %d and %d events", seq, page.Head, len(page.Events))
			}
		}
	}},
}
