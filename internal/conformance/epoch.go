package conformance

import (
	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

var epochStories = []story{
	{"an epoch is raised to the time, and always by one at least", func(w *world) {
		meta, err := w.Store.Meta(w.ctx)
		w.must(err)
		same(w, "epoch", meta.Epoch, impart.Epoch(1))
		if meta.Incarnation == "" {
			w.t.Error("the store does not tell its incarnation")
		}
		for _, c := range []struct {
			now  impart.Millis
			want impart.Epoch
		}{{0, 2}, {1_700_000_000_000, 1_700_000_000_000}, {1_700_000_000_000, 1_700_000_000_001}, {5, 1_700_000_000_002}} {
			got, err := w.Store.RaiseEpoch(w.ctx, c.now)
			w.must(err)
			same(w, "epoch", got, c.want)
		}
		after, err := w.Store.Meta(w.ctx)
		w.must(err)
		same(w, "meta", after, store.Meta{Epoch: 1_700_000_000_002, Incarnation: meta.Incarnation})
	}},
	{"requests of an older epoch are refused", func(w *world) {
		w.withPhone(5)
		now := w.raiseEpoch()
		ack := phone("ana", "c", 1)
		ack.Epoch = 1
		page := ask("ana", "c")
		page.Epoch = 1
		_, pageErr := w.Store.Page(w.ctx, page)
		for what, err := range map[string]error{
			"send":   w.append(w.msg("ana", "c", "k", "x", epoch(1)))[0].Err,
			"recall": w.append(w.takeBack("ana", "c", "r", 1, epoch(1)))[0].Err,
			"ack":    w.advance(ack).Err,
			"read":   w.markRead(store.MarkRead{User: "ana", Conv: "c", Seq: 1, Epoch: 1}).Err,
			"sync":   pageErr,
		} {
			if got := impart.AsError(err); got == nil || got.Code != impart.EpochChanged || got.Epoch != now {
				w.t.Errorf("%s of epoch 1: got %v, want EPOCH_CHANGED with epoch %d", what, err, now)
			}
		}
		same(w, "lag", w.lag("ana", "phone", 1, "c"), impart.Lag{Head: 5})
		ack.Epoch, page.Epoch = now, now
		w.acks(ack, 1)
		same(w, "epoch of the page", w.page(page).Epoch, now)
		w.stores(w.msg("ana", "c", "k", "x", epoch(now)))
	}},
	{"a future epoch is refused too", func(w *world) {
		w.withPhone(1)
		w.refuses(impart.EpochChanged, w.msg("ana", "c", "k", "x", epoch(2)))
	}},
	{"cursors of an older epoch count as their start", func(w *world) {
		w.conversation("c", "ana")
		w.chatter("ana", "c", 10)
		w.hello("ana", "phone", "x")
		w.hello("ana", "near", "x", history(4))
		near := phone("ana", "c", 9)
		near.Device = "near"
		w.acks(phone("ana", "c", 8), 8)
		w.acks(near, 9)
		w.reads("ana", "c", 7, 7)

		w.raiseEpoch()
		same(w, "phone", w.lag("ana", "phone", 1, "c"), impart.Lag{Head: 10})
		same(w, "near", w.lag("ana", "near", 1, "c"), impart.Lag{Head: 10, Delivered: 6})
		same(w, "in the list", w.conv("ana", "near", "c").Delivered, impart.Seq(6))
		same(w, "read", w.conv("ana", "phone", "c").Read, impart.Seq(0))
		same(w, "unread", w.conv("ana", "phone", "c").Unread, 0)

		same(w, "moved", w.acks(phone("ana", "c", 2), 2).Moved, true) // and not 8
		near.Seq = 3
		w.acks(near, 6)
		near.Seq = 7
		w.acks(near, 7)
		w.reads("ana", "c", 1, 1)
		got := w.acks(phone("ana", "c", 3), 3)
		same(w, "read", got.Read, impart.Seq(1))
		same(w, "furthest", got.Furthest, impart.Seq(7))
		same(w, "phone", w.lag("ana", "phone", 1, "c").Delivered, impart.Seq(3))
	}},
	{"a start outlives several epochs", func(w *world) {
		w.conversation("c", "ana")
		w.chatter("ana", "c", 10)
		w.hello("ana", "phone", "x", history(4))
		for range 3 {
			w.raiseEpoch()
			same(w, "start", w.lag("ana", "phone", 1, "c").Delivered, impart.Seq(6))
			w.acks(phone("ana", "c", 8), 8)
		}
	}},
	{"a reinstall in a new epoch forgets both", func(w *world) {
		w.withPhone(10)
		w.acks(phone("ana", "c", 8), 8)
		w.raiseEpoch()
		w.hello("ana", "phone", "y")
		same(w, "lag", w.lag("ana", "phone", 2, "c"), impart.Lag{Head: 10})
		a := phone("ana", "c", 3)
		a.Install = 2
		w.acks(a, 3)
	}},
	{"answers carry the epoch", func(w *world) {
		w.withPhone(3)
		now := w.raiseEpoch()
		same(w, "append", w.stores(w.msg("ana", "c", "k", "x"))[0].Epoch, now)
		same(w, "refusal", w.append(w.msg("eve", "c", "k", "x"))[0].Epoch, now)
		same(w, "hello", w.hello("ana", "phone", "x").Epoch, now)
		r, err := w.Store.Range(w.ctx, "c", 1, 1, 1)
		w.must(err)
		same(w, "range", r.Epoch, now)
		lagging, err := w.Store.Lagging(w.ctx, store.LaggingQuery{User: "ana", Device: "phone", Install: 1, Limit: 10})
		w.must(err)
		same(w, "lagging", lagging.Epoch, now)
		convs, err := w.Store.Convs(w.ctx, "ana", "phone", "", 10, impart.MaxPage)
		w.must(err)
		same(w, "convs", convs.Epoch, now)
		written, err := w.Store.Written(w.ctx, 0, 10)
		w.must(err)
		same(w, "written", written.Epoch, now)
	}},
}
