package conformance

import (
	"fmt"
	"strings"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

var convStories = []story{
	{"a conversation is listed with what its user needs", func(w *world) {
		w.create(impart.ConvSpec{Conv: "c", Kind: impart.Direct}, "ana", "ben")
		w.says("ben", "c", "one")
		w.says("ana", "c", "two")
		w.says("ben", "c", "three")
		w.hello("ana", "phone", "x")
		w.acks(phone("ana", "c", 2), 2)
		w.reads("ana", "c", 1, 1)
		got := w.conv("ana", "phone", "c")
		same(w, "last", word(got.Last), "3 three")
		got.Last = nil
		same(w, "state", got, impart.ConvState{Conv: "c", Kind: impart.Direct, Head: 3, Delivered: 2, Read: 1, Unread: 1})
		same(w, "without a device", w.conv("ana", "", "c").Delivered, impart.Seq(0))
	}},
	{"unread counts messages of others above read", func(w *world) {
		w.conversation("c", "ana", "ben")
		unread := func(want int) {
			w.t.Helper()
			same(w, "unread", w.conv("ana", "", "c").Unread, want)
		}
		unread(0)
		w.says("ben", "c", "1")
		unread(1)
		w.says("ana", "c", "2: one's own")
		unread(1)
		w.says("ben", "c", "3")
		w.stores(w.msg(impart.System, "c", "k", "4"))
		unread(3)
		w.joins("c", "cy")
		unread(3)
		w.recalls("ben", "c", 1)
		unread(2)
		w.reads("ana", "c", 3, 3)
		unread(1)
		w.reads("ana", "c", 1, 3)
		unread(1)
		w.reads("ana", "c", 6, 6)
		unread(0)
		w.recalls("ben", "c", 3)
		unread(0)
		same(w, "ben's unread", w.conv("ben", "", "c").Unread, 2)
	}},
	{"unread counts what one may see", func(w *world) {
		w.conversation("c", "ana", "ben")
		w.says("ben", "c", "1")
		w.leaves("c", "ana")
		w.says("ben", "c", "3")
		w.joins("c", "ana")
		w.says("ben", "c", "5")
		same(w, "unread", w.conv("ana", "", "c").Unread, 2)
	}},
	{"unread stops at a thousand", func(w *world) {
		w.conversation("c", "ana", "ben")
		w.chatter("ben", "c", 999)
		same(w, "unread", w.conv("ana", "", "c").Unread, 999)
		w.chatter("ben", "c", 2)
		same(w, "unread", w.conv("ana", "", "c").Unread, 1000)
		same(w, "of her own", w.conv("ben", "", "c").Unread, 0)
	}},
	{"last is the newest event that one may see", func(w *world) {
		w.conversation("c", "ana", "ben")
		if last := w.conv("ana", "", "c").Last; last != nil {
			w.t.Errorf("an empty conversation has a last event: %s", word(last))
		}
		w.says("ben", "c", "old")    // 1
		w.joins("c", "cy")           // 2
		w.recalls("ben", "c", 1)     // 3
		w.leaves("c", "ana")         // 4
		w.says("ben", "c", "secret") // 5
		same(w, "ana's", word(w.conv("ana", "", "c").Last), "4 leave ana")
		same(w, "ben's", word(w.conv("ben", "", "c").Last), "5 secret")
		w.recalls("ben", "c", 5) // 6
		same(w, "ana's", word(w.conv("ana", "", "c").Last), "4 leave ana")
		same(w, "ben's", word(w.conv("ben", "", "c").Last), "6 recall 5")
	}},
	{"last is told without its recalled body", func(w *world) {
		w.conversation("c", "ana")
		w.says("ana", "c", "old")    // 1
		w.says("ana", "c", "secret") // 2
		w.joins("c", "ben")          // 3
		w.recalls("ana", "c", 2)     // 4: not ben's
		same(w, "ben's", word(w.conv("ben", "", "c").Last), "3 join ben")
		same(w, "ana's", word(w.conv("ana", "", "c").Last), "4 recall 2")
	}},
	{"the list is paged by id", func(w *world) {
		var want []impart.ConvID
		for i := range 25 {
			id := impart.ConvID(fmt.Sprintf("c-%02d", i))
			w.conversation(id, "ana")
			want = append(want, id)
		}
		w.conversation("c-000", "ben")
		for _, limit := range []int{1, 7, 25, 26} {
			var got []impart.ConvID
			for after := impart.ConvID(""); ; {
				page, err := w.Store.Convs(w.ctx, "ana", "", after, limit, impart.MaxPage)
				w.must(err)
				if len(page.Convs) > limit || len(got) > len(want) {
					w.t.Fatalf("%d conversations on a page of %d after %d others", len(page.Convs), limit, len(got))
				}
				for _, c := range page.Convs {
					got = append(got, c.Conv)
				}
				if !page.More {
					break
				}
				after = got[len(got)-1]
			}
			same(w, "conversations", got, want)
		}
		page, err := w.Store.Convs(w.ctx, "eve", "", "", 10, impart.MaxPage)
		w.must(err)
		same(w, "eve's", len(page.Convs), 0)
	}},
	{"a page of the list is bounded in bytes", func(w *world) {
		for _, id := range ids(0, 1, 2, 3, 4, 5) {
			w.conversation(id, "ana")
			w.says("ana", id, strings.Repeat("x", 100_000))
		}
		var got []impart.ConvID
		for after := impart.ConvID(""); ; {
			page, err := w.Store.Convs(w.ctx, "ana", "", after, 100, 250_000)
			w.must(err)
			size := 0
			for _, c := range page.Convs {
				size += store.Size(c.Last)
				got = append(got, c.Conv)
			}
			if size > 250_000 || len(page.Convs) == 0 || len(got) > 6 {
				w.t.Fatalf("%d conversations with %d bytes", len(page.Convs), size)
			}
			if !page.More {
				break
			}
			after = got[len(got)-1]
		}
		same(w, "conversations", got, ids(0, 1, 2, 3, 4, 5))
		page, err := w.Store.Convs(w.ctx, "ana", "", "", 100, 10)
		w.must(err)
		same(w, "conversations on a page that is too small for one", len(page.Convs), 1)
	}},
	{"past conversations are listed too", func(w *world) {
		w.conversation("c", "ana", "ben")
		w.says("ben", "c", "1")
		w.leaves("c", "ana")
		w.says("ben", "c", "3")
		got := w.conv("ana", "", "c")
		same(w, "head", got.Head, impart.Seq(2))
		same(w, "unread", got.Unread, 1)
	}},
}
