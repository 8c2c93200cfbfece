package conformance

import (
	"fmt"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

var laggingStories = []story{
	{"what lags is listed, and what does not is not", func(w *world) {
		w.conversation("c-empty", "ana")
		w.conversation("c-behind", "ana", "ben")
		w.conversation("c-done", "ana")
		w.conversation("c-other", "ben")
		w.chatter("ana", "c-behind", 3)
		w.chatter("ana", "c-done", 3)
		w.chatter("ben", "c-other", 3)
		w.hello("ana", "phone", "x")
		w.acks(phone("ana", "c-behind", 2), 2)
		w.acks(phone("ana", "c-done", 3), 3)
		w.reads("ana", "c-behind", 1, 1)
		same(w, "lagging", w.lagging(false, 10).Convs, []impart.ConvState{
			{Conv: "c-behind", Kind: impart.Group, Head: 3, Delivered: 2, Read: 1},
		})
		var all []impart.ConvID
		for _, c := range w.lagging(true, 10).Convs {
			all = append(all, c.Conv)
		}
		same(w, "number of all", len(all), 3)
		w.says("ben", "c-behind", "more")
		same(w, "head", w.lagging(false, 10).Convs[0].Head, impart.Seq(4))
	}},
	{"whoever has waited longest comes first", func(w *world) {
		w.hello("ana", "phone", "x")
		for i := range 6 {
			conv := impart.ConvID(fmt.Sprintf("c-%d", i))
			w.conversation(conv, "ana")
			w.chatter("ana", conv, 3)
		}
		same(w, "order", w.laggingIDs(10), ids(0, 1, 2, 3, 4, 5)) // no rows: by id
		for _, i := range []int{4, 1, 5} {
			w.nextMilli()
			w.acks(phone("ana", ids(i)[0], 1), 1)
		}
		same(w, "order", w.laggingIDs(10), ids(0, 2, 3, 4, 1, 5))
		w.nextMilli()
		w.acks(phone("ana", "c-4", 2), 2)
		same(w, "order", w.laggingIDs(10), ids(0, 2, 3, 1, 5, 4))
		page := w.lagging(false, 4)
		same(w, "page", len(page.Convs), 4)
		same(w, "more", page.More, true)
		same(w, "order", w.laggingIDs(4), ids(0, 2, 3, 1))
		same(w, "more", w.lagging(false, 6).More, false)
		w.nextMilli()
		w.acks(phone("ana", "c-0", 3), 3) // done
		same(w, "order", w.laggingIDs(10), ids(2, 3, 1, 5, 4))
	}},
	{"a device that is served in turns starves no conversation", func(w *world) {
		w.hello("ana", "phone", "x")
		for i := range 5 {
			conv := impart.ConvID(fmt.Sprintf("c-%d", i))
			w.conversation(conv, "ana")
			w.chatter("ana", conv, 4)
		}
		served := map[impart.ConvID]int{}
		for range 10 {
			state := w.lagging(false, 1).Convs[0]
			served[state.Conv]++
			w.nextMilli()
			w.acks(phone("ana", state.Conv, state.Delivered+1), state.Delivered+1)
		}
		for _, id := range ids(0, 1, 2, 3, 4) {
			same(w, "turns of "+string(id), served[id], 2)
		}
	}},
	{"another install lags behind in everything", func(w *world) {
		w.withPhone(3)
		w.acks(phone("ana", "c", 3), 3)
		same(w, "lagging", len(w.lagging(false, 10).Convs), 0)
		w.hello("ana", "phone", "y")
		_, err := w.Store.Lagging(w.ctx, store.LaggingQuery{User: "ana", Device: "phone", Install: 1, Limit: 10})
		w.wantCode(impart.StaleInstall, err)
		_, err = w.Store.Lagging(w.ctx, store.LaggingQuery{User: "ana", Device: "tablet", Install: 1, Limit: 10})
		w.wantCode(impart.StaleInstall, err)
		page, err := w.Store.Lagging(w.ctx, store.LaggingQuery{User: "ana", Device: "phone", Install: 2, Limit: 10})
		w.must(err)
		same(w, "lagging", page.Convs, []impart.ConvState{{Conv: "c", Kind: impart.Group, Head: 3}})
	}},
	{"a former member lags up to what they may see", func(w *world) {
		w.conversation("c", "ana", "ben")
		w.chatter("ana", "c", 2)
		w.leaves("c", "ana")
		w.chatter("ben", "c", 3)
		w.hello("ana", "phone", "x")
		same(w, "lagging", w.lagging(false, 10).Convs, []impart.ConvState{{Conv: "c", Kind: impart.Group, Head: 3}})
		w.acks(phone("ana", "c", 3), 3)
		same(w, "lagging", len(w.lagging(false, 10).Convs), 0)
	}},
	{"an event that one may not see makes nobody lag", func(w *world) {
		w.conversation("c", "ben")
		w.says("ben", "c", "old") // 1
		w.joins("c", "ana")       // 2
		w.hello("ana", "phone", "x")
		w.acks(phone("ana", "c", 2), 2)
		w.recalls("ben", "c", 1) // 3: not ana's
		same(w, "lagging", len(w.lagging(false, 10).Convs), 0)
		w.says("ben", "c", "new") // 4
		same(w, "lagging", w.lagging(false, 10).Convs, []impart.ConvState{{Conv: "c", Kind: impart.Group, Head: 4, Delivered: 2}})
	}},
	{"the first message of a new conversation is listed at once", func(w *world) {
		w.hello("ana", "phone", "x")
		w.conversation("c", "ana", "ben")
		w.says("ben", "c", "hello")
		same(w, "lagging", w.laggingIDs(10), []impart.ConvID{"c"})
	}},
}

// lagging asks for ana's phone, in its first install.
func (w *world) lagging(all bool, limit int) impart.LaggingPage {
	w.t.Helper()
	page, err := w.Store.Lagging(w.ctx, store.LaggingQuery{User: "ana", Device: "phone", Install: 1, All: all, Limit: limit})
	w.must(err)
	return page
}

func (w *world) laggingIDs(limit int) []impart.ConvID {
	w.t.Helper()
	var out []impart.ConvID
	for _, c := range w.lagging(false, limit).Convs {
		out = append(out, c.Conv)
	}
	return out
}

func ids(numbers ...int) []impart.ConvID {
	var out []impart.ConvID
	for _, i := range numbers {
		out = append(out, impart.ConvID(fmt.Sprintf("c-%d", i)))
	}
	return out
}
