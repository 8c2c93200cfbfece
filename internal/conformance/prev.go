package conformance

import (
	"fmt"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

var prevStories = []story{
	{"a message is not stored before the one it follows", func(w *world) {
		w.conversation("c", "ana")
		second := w.msg("ana", "c", "2", "b", prev("1"))
		w.refuses(impart.OutOfOrder, second)
		w.refuses(impart.OutOfOrder, w.msg("ana", "c", "3", "c", prev("2")))
		w.stores(w.msg("ana", "c", "1", "a"))
		w.refuses(impart.OutOfOrder, w.msg("ana", "c", "3", "c", prev("2")))
		w.stores(second)
		w.stores(w.msg("ana", "c", "3", "c", prev("2")))
		w.sees("ana", "c", "1 a", "2 b", "3 c")
	}},
	{"a chain may come in one call", func(w *world) {
		w.conversation("c", "ana")
		var items []store.Append
		for i := range 20 {
			p := impart.CMID("")
			if i > 0 {
				p = impart.CMID(fmt.Sprint(i - 1))
			}
			items = append(items, w.msg("ana", "c", impart.CMID(fmt.Sprint(i)), "x", prev(p)))
		}
		w.stores(items...)
		for i, ev := range w.after("ana", "c", 0).Events {
			same(w, "cmid", ev.CMID, impart.CMID(fmt.Sprint(i)))
		}
	}},
	{"a chain in the wrong order is stored as far as it holds", func(w *world) {
		w.conversation("c", "ana")
		out := w.append(w.msg("ana", "c", "2", "b", prev("1")), w.msg("ana", "c", "1", "a"), w.msg("ana", "c", "3", "c", prev("2")))
		w.wantCode(impart.OutOfOrder, out[0].Err)
		w.wantCode("", out[1].Err)
		w.wantCode(impart.OutOfOrder, out[2].Err)
		w.sees("ana", "c", "1 a")
	}},
	{"what follows a refused message waits for it", func(w *world) {
		w.conversation("c", "ana")
		w.stores(w.msg("ana", "c", "used", "a"))
		out := w.append(w.msg("ana", "c", "1", "of the past", epoch(99)), w.msg("ana", "c", "2", "b", prev("1")), w.msg("ana", "c", "3", "c", prev("used")))
		w.wantCode(impart.EpochChanged, out[0].Err)
		w.wantCode(impart.OutOfOrder, out[1].Err)
		w.wantCode("", out[2].Err)
		// After a final refusal the client links the next to the last stored one.
		w.stores(w.msg("ana", "c", "2", "b", prev("3")))
		w.sees("ana", "c", "1 a", "2 c", "3 b")
	}},
	{"only the sender's own message in this conversation counts", func(w *world) {
		w.conversation("c", "ana", "ben")
		w.conversation("c-2", "ana")
		w.stores(w.msg("ben", "c", "bens", "x"), w.msg("ana", "c-2", "elsewhere", "x"), w.msg("ana", "c", "Mine", "x"))
		w.refuses(impart.OutOfOrder, w.msg("ana", "c", "k", "x", prev("bens")))
		w.refuses(impart.OutOfOrder, w.msg("ana", "c", "k", "x", prev("elsewhere")))
		w.refuses(impart.OutOfOrder, w.msg("ana", "c", "k", "x", prev("mine")))
		w.refuses(impart.OutOfOrder, w.msg("ana", "c", "k", "x", prev("Mine ")))
		w.refuses(impart.OutOfOrder, w.msg("ana", "c", "k", "x", prev("k")))
		w.stores(w.msg("ana", "c", "k", "x", prev("Mine")))
	}},
	{"membership is checked before prev", func(w *world) {
		w.conversation("c", "ana")
		w.refuses(impart.NotMember, w.msg("ben", "c", "k", "x", prev("never")))
	}},
	{"a recalled message and a recall can be followed", func(w *world) {
		w.conversation("c", "ana")
		w.stores(w.msg("ana", "c", "1", "a"))
		w.stores(w.takeBack("ana", "c", "2", 1, prev("1")))
		w.stores(w.msg("ana", "c", "3", "c", prev("1")), w.msg("ana", "c", "4", "d", prev("2")))
		w.sees("ana", "c", "1 recalled", "2 recall 1", "3 c", "4 d")
	}},
	{"a recall waits for the message it follows", func(w *world) {
		w.conversation("c", "ana")
		w.stores(w.msg("ana", "c", "1", "a"))
		w.refuses(impart.OutOfOrder, w.takeBack("ana", "c", "r", 1, prev("2")))
		w.sees("ana", "c", "1 a")
	}},
}
