package conformance

import (
	"fmt"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

var appendStories = []story{
	{"seqs are 1, 2, 3 in each conversation", func(w *world) {
		w.conversation("c-1", "ana", "ben")
		w.conversation("c-2", "ana")
		for i := range impart.Seq(3) {
			same(w, "seq in c-1", w.says("ana", "c-1", "one"), i*2+1)
			same(w, "seq in c-2", w.says("ana", "c-2", "two"), i+1)
			same(w, "seq in c-1", w.says("ben", "c-1", "three"), i*2+2)
		}
		w.sees("ben", "c-1", "1 one", "2 three", "3 one", "4 three", "5 one", "6 three")
		w.sees("ana", "c-2", "1 two", "2 two", "3 two")
	}},
	{"an event is kept as it was sent", func(w *world) {
		w.conversation("c", "ana", "ben")
		a := w.msg("ana", "c", "k", "hi", func(a *store.Append) { a.Type, a.Ext = "card", []byte(`{"to": [1, 2]}`) })
		w.stores(a)
		want := impart.Event{
			Conv: "c", Seq: 1, Kind: impart.KindMsg, MID: a.MID, Sender: "ana", Device: "d-ana", CMID: "k",
			Type: "card", Body: "hi", Ext: []byte(`{"to": [1, 2]}`), At: a.At,
		}
		r, err := w.Store.Range(w.ctx, "c", 1, 1, 10)
		w.must(err)
		same(w, "range", r.Events, []impart.Event{want})
		got := w.after("ben", "c", 0).Events
		for i := range got {
			got[i].Device = want.Device // a page need not tell it
		}
		same(w, "page", got, []impart.Event{want})
	}},
	{"without ext there is none", func(w *world) {
		w.conversation("c", "ana")
		w.says("ana", "c", "")
		ev := w.after("ana", "c", 0).Events[0]
		if len(ev.Ext) != 0 || ev.Body != "" {
			w.t.Errorf("an empty message came back as body %q, ext %q", ev.Body, ev.Ext)
		}
	}},
	{"items of one call are stored in order", func(w *world) {
		w.conversation("c-1", "ana", "ben")
		w.conversation("c-2", "ana", "ben")
		out := w.stores(
			w.msg("ana", "c-2", "1", "a"), w.msg("ben", "c-1", "1", "b"), w.msg("ana", "c-2", "2", "c"),
			w.msg("ana", "c-1", "3", "d"), w.msg("ben", "c-2", "2", "e"),
		)
		var got []impart.Seq
		for _, o := range out {
			got = append(got, o.Seq)
		}
		same(w, "seqs", got, []impart.Seq{1, 1, 2, 2, 3})
		w.sees("ana", "c-1", "1 b", "2 d")
		w.sees("ana", "c-2", "1 a", "2 c", "3 e")
	}},
	{"an empty call stores nothing", func(w *world) {
		same(w, "outcomes", len(w.append()), 0)
	}},
	{"one bad item fails alone", func(w *world) {
		w.conversation("c", "ana", "ben")
		w.conversation("c-ben", "ben")
		known := w.msg("ana", "c", "known", "old")
		w.stores(known)
		out := w.append(
			w.msg("ana", "c", "1", "first"),
			w.msg("eve", "c", "1", "not a member"),
			w.msg("ana", "c", "known", "new"),
			w.msg("ana", "c-ben", "2", "not mine"),
			w.msg("ana", "nowhere", "3", "no such conversation"),
			w.msg("ana", "c", "4", "too early", prev("never")),
			w.msg("ana", "c", "5", "old epoch", epoch(9)),
			w.takeBack("ben", "c", "r", 1),
			w.takeBack("ben", "c", "r2", 99),
			known,
			w.msg("ben", "c", "1", "last"),
		)
		want := []impart.Code{
			"", impart.NotMember, impart.CMIDReused, impart.NotMember, impart.NotMember, impart.OutOfOrder,
			impart.EpochChanged, impart.RecallRefused, impart.CursorAhead, "", "",
		}
		var got []impart.Code
		for _, o := range out {
			got = append(got, impart.CodeOf(o.Err))
		}
		same(w, "codes", got, want)
		w.isDup(store.Appended{Seq: 1, MID: known.MID, At: known.At}, out[9])
		w.sees("ana", "c", "1 old", "2 first", "3 last")
	}},
	{"a refused item leaves no trace", func(w *world) {
		w.conversation("c", "ana")
		w.says("ana", "c", "first")
		early := w.msg("ana", "c", "late", "third", prev("second"))
		w.refuses(impart.OutOfOrder, early)
		w.refuses(impart.NotMember, w.msg("ben", "c", "k", "let me in"))
		w.refuses(impart.EpochChanged, w.msg("ana", "c", "k", "of the past", epoch(7)))
		w.refuses(impart.RecallRefused, w.takeBack("ana", "c", "r", 1, func(a *store.Append) { a.NotBefore = a.At }))
		w.stores(w.msg("ana", "c", "second", "second"))
		w.stores(early)
		w.joins("c", "ben")
		w.stores(w.msg("ben", "c", "k", "in"), w.msg("ana", "c", "r", "the key is free"))
		w.sees("ana", "c", "1 first", "2 second", "3 third", "4 join ben", "5 in", "6 the key is free")
	}},
	{"only members may send", func(w *world) {
		w.conversation("c", "ana", "ben")
		w.refuses(impart.NotMember, w.msg("eve", "c", "k", "psst"))
		w.refuses(impart.NotMember, w.msg("ana", "c-2", "k", "nobody home"))
		w.leaves("c", "ben")
		w.refuses(impart.NotMember, w.msg("ben", "c", "k", "one more thing"))
		w.joins("c", "ben")
		same(w, "seq", w.says("ben", "c", "back"), 3)
	}},
	{"the system is a member of everything that exists", func(w *world) {
		w.conversation("c", "ana")
		w.stores(w.msg(impart.System, "c", "k", "maintenance at noon"))
		w.refuses(impart.NotMember, w.msg(impart.System, "nowhere", "k2", "hello?"))
		w.sees("ana", "c", "1 maintenance at noon")
	}},
	{"a large call is stored whole and in order", func(w *world) {
		w.conversation("c", "ana")
		w.chatter("ana", "c", 1000)
		page := w.after("ana", "c", 0)
		same(w, "seqs", seqs(page.Events), count(1, 1000))
		for i, ev := range page.Events {
			if ev.Body != fmt.Sprintf("chat %d", i) {
				w.t.Fatalf("seq %d holds %q", ev.Seq, ev.Body)
			}
		}
	}},
}
