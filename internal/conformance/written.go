package conformance

import (
	"math"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

var writtenStories = []story{
	{"since 0 lists nothing and tells the clock", func(w *world) {
		w.withPhone(3)
		got := w.written(0, 10)
		same(w, "heads", len(got.Heads), 0)
		same(w, "more", got.More, false)
		if later := w.nextMilli(); got.Now <= 0 || later <= got.Now {
			w.t.Errorf("the clock said %d, then %d", got.Now, later)
		}
	}},
	{"what was written since is listed with its head", func(w *world) {
		w.conversation("c-old", "ana")
		w.says("ana", "c-old", "x")
		since := w.nextMilli()
		w.conversation("c-empty", "ana")
		w.conversation("c-1", "ana")
		w.chatter("ana", "c-1", 3)
		w.nextMilli()
		w.conversation("c-0", "ana")
		w.says("ana", "c-0", "x")
		got := w.written(since, 10)
		var convs []impart.ConvID
		for _, h := range got.Heads {
			convs = append(convs, h.Conv)
			if h.At < since || h.At > got.Now {
				w.t.Errorf("%s was written at %d, outside %d..%d", h.Conv, h.At, since, got.Now)
			}
			a, err := w.Store.Audience(w.ctx, h.Conv)
			w.must(err)
			same(w, "members", h.Members, a.Version)
		}
		same(w, "conversations", convs, []impart.ConvID{"c-1", "c-0"})
		same(w, "head", got.Heads[0].Head, impart.Seq(3))
	}},
	{"since is included", func(w *world) {
		w.withPhone(1)
		head := w.written(1, 10).Heads[0]
		same(w, "at", len(w.written(head.At, 10).Heads), 1)
		same(w, "after", len(w.written(head.At+1, 10).Heads), 0)
		same(w, "far ahead", len(w.written(math.MaxInt64, 10).Heads), 0)
	}},
	{"every new event counts as written", func(w *world) {
		w.conversation("c", "ana", "ben")
		steps := map[string]func(){
			"a message": func() { w.says("ana", "c", "x") },
			"a join":    func() { w.joins("c", "cy") },
			"a leave":   func() { w.leaves("c", "ben") },
		}
		for what, step := range steps {
			since := w.nextMilli()
			same(w, "before "+what, len(w.written(since, 10).Heads), 0)
			step()
			same(w, "after "+what, len(w.written(since, 10).Heads), 1)
		}
		last := w.says("ana", "c", "x")
		since := w.nextMilli()
		w.recalls("ana", "c", last)
		same(w, "after a recall", w.written(since, 10).Heads[0].Head, last+1)
	}},
	{"what stores nothing counts as nothing", func(w *world) {
		w.withPhone(2)
		since := w.nextMilli()
		w.acks(phone("ana", "c", 1), 1)
		w.reads("ana", "c", 1, 1)
		w.refuses(impart.NotMember, w.msg("ben", "c", "k", "x"))
		w.role("c", "ana", impart.RoleAdmin)
		same(w, "heads", len(w.written(since, 10).Heads), 0)
	}},
	{"a long list is read on from its last time", func(w *world) {
		since := w.nextMilli()
		for _, id := range ids(3, 1, 4, 0, 2, 5) {
			w.conversation(id, "ana")
			w.says("ana", id, "x")
			w.nextMilli()
		}
		var got []impart.ConvID
		for pages := 0; ; pages++ {
			page := w.written(since, 3)
			for _, h := range page.Heads {
				if len(got) == 0 || got[len(got)-1] != h.Conv { // the last one comes again
					got = append(got, h.Conv)
				}
			}
			if !page.More {
				break
			}
			if len(page.Heads) != 3 || pages > 5 {
				w.t.Fatalf("page %d has %d heads and says more", pages, len(page.Heads))
			}
			since = page.Heads[2].At
		}
		same(w, "conversations", got, ids(3, 1, 4, 0, 2, 5))
	}},
	{"the newest write decides the place", func(w *world) {
		since := w.nextMilli()
		for _, id := range ids(0, 1, 0) {
			if w.says0(id) {
				w.nextMilli()
			}
		}
		got := w.written(since, 10).Heads
		if len(got) != 2 || got[0].Conv != "c-1" || got[1].Conv != "c-0" || got[1].Head != 2 || got[1].At <= got[0].At {
			w.t.Errorf("heads: %+v; want c-1, then c-0 at head 2", got)
		}
	}},
	{"a window that overlaps the commit misses nothing", func(w *world) {
		w.need(w.OnCommit != nil, "OnCommit")
		w.conversation("c", "ana")
		h := w.hold()
		held := w.sends(w.msg("ana", "c", "k", "held"))
		h.wait()
		first := w.written(0, 10).Now
		for began := time.Now(); time.Since(began) < 5*time.Millisecond; {
			w.spin("some milliseconds pass")
		}
		same(w, "while held", len(w.written(first, 10).Heads), 0)
		h.release(nil)
		held.answer()
		slowest := w.Store.Stats().Slowest
		if slowest < 3 {
			w.t.Errorf("the slowest commit took 3 ms or more, and the store says %d", slowest)
		}
		same(w, "afterwards", len(w.written(first-slowest-1, 10).Heads), 1)
	}},
}

func (w *world) written(since impart.Millis, limit int) store.Written {
	w.t.Helper()
	got, err := w.Store.Written(w.ctx, since, limit)
	w.must(err)
	return got
}

// says0 makes ana's conversation if need be and says something in it.
func (w *world) says0(conv impart.ConvID) bool {
	w.t.Helper()
	if _, err := w.Store.Conversation(w.ctx, conv); impart.CodeOf(err) == impart.NotFound {
		w.conversation(conv, "ana")
	}
	return w.says("ana", conv, "x") > 0
}
