package conformance

import (
	"fmt"
	"math"
	"strings"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

var cursorStories = []story{
	{"the highest ack counts", func(w *world) {
		w.withPhone(10)
		same(w, "moved", w.acks(phone("ana", "c", 4), 4).Moved, true)
		same(w, "moved", w.acks(phone("ana", "c", 2), 4).Moved, false)
		same(w, "moved", w.acks(phone("ana", "c", 4), 4).Moved, false)
		same(w, "moved", w.acks(phone("ana", "c", 7), 7).Moved, true)
		same(w, "moved", w.acks(phone("ana", "c", 0), 7).Moved, false)
		same(w, "lag", w.lag("ana", "phone", 1, "c"), impart.Lag{Head: 10, Delivered: 7})
	}},
	{"acks of one call are merged each by itself", func(w *world) {
		w.withPhone(10)
		w.conversation("c-2", "ana")
		w.chatter("ana", "c-2", 3)
		out := w.Store.Advance(w.ctx, []store.Advance{
			phone("ana", "c", 5), phone("ana", "c-2", 4), phone("ana", "c", 3), phone("ana", "nowhere", 1),
			phone("ana", "c-2", 3), phone("ben", "c", 1), phone("ana", "c", 8), {User: "ana", Device: "phone", Install: 2, Conv: "c", Seq: 9},
		})
		var codes []impart.Code
		for _, o := range out {
			codes = append(codes, impart.CodeOf(o.Err))
		}
		same(w, "codes", codes, []impart.Code{"", impart.CursorAhead, "", impart.NotMember, "", impart.StaleInstall, "", impart.StaleInstall})
		same(w, "c", w.lag("ana", "phone", 1, "c").Delivered, impart.Seq(8))
		same(w, "c-2", w.lag("ana", "phone", 1, "c-2").Delivered, impart.Seq(3))
		for _, i := range []int{0, 2, 6} {
			if got := out[i]; got.Delivered < phoneSeqs[i] || got.Delivered > 8 {
				w.t.Errorf("item %d says delivered %d", i, got.Delivered)
			}
		}
	}},
	{"nothing passes head", func(w *world) {
		w.withPhone(3)
		w.acks(phone("ana", "c", 2), 2)
		for _, seq := range []impart.Seq{4, 5, impart.MaxNumber, math.MaxInt64, -1, math.MinInt64} {
			got := w.advance(phone("ana", "c", seq))
			w.wantCode(impart.CursorAhead, got.Err)
			want := fmt.Sprintf("seq=%d head=3", seq)
			if got.Err == nil || !strings.Contains(impart.AsError(got.Err).Message, want) {
				w.t.Errorf("the message of %v lacks %q", got.Err, want)
			}
			read := w.markRead(store.MarkRead{User: "ana", Conv: "c", Seq: seq})
			w.wantCode(impart.CursorAhead, read.Err)
			if read.Err == nil || !strings.Contains(impart.AsError(read.Err).Message, want) {
				w.t.Errorf("the message of %v lacks %q", read.Err, want)
			}
		}
		same(w, "lag", w.lag("ana", "phone", 1, "c"), impart.Lag{Head: 3, Delivered: 2})
		same(w, "read", w.conv("ana", "phone", "c").Read, impart.Seq(0))
	}},
	{"who was never a member acks and reads nothing", func(w *world) {
		w.withPhone(3)
		w.hello("eve", "phone", "x")
		w.wantCode(impart.NotMember, w.advance(phone("eve", "c", 1)).Err)
		w.wantCode(impart.NotMember, w.advance(phone("ana", "nowhere", 0)).Err)
		w.wantCode(impart.NotMember, w.markRead(store.MarkRead{User: "eve", Conv: "c", Seq: 1}).Err)
		same(w, "lag", w.lag("eve", "phone", 1, "c"), impart.Lag{})
	}},
	{"the furthest of a user's devices is told", func(w *world) {
		w.withPhone(10)
		w.hello("ana", "laptop", "y")
		laptop := func(seq impart.Seq) store.Advance {
			a := phone("ana", "c", seq)
			a.Device = "laptop"
			return a
		}
		same(w, "furthest", w.acks(phone("ana", "c", 4), 4).Furthest, impart.Seq(4))
		same(w, "furthest", w.acks(laptop(2), 2).Furthest, impart.Seq(4))
		same(w, "furthest", w.acks(laptop(6), 6).Furthest, impart.Seq(6))
		same(w, "furthest", w.acks(phone("ana", "c", 5), 5).Furthest, impart.Seq(6))
		same(w, "furthest", w.reads("ana", "c", 1, 1).Furthest, impart.Seq(6))
		w.hello("ana", "laptop", "reinstalled")
		same(w, "furthest", w.acks(phone("ana", "c", 5), 5).Furthest, impart.Seq(5))
		w.raiseEpoch()
		same(w, "furthest", w.acks(phone("ana", "c", 1), 1).Furthest, impart.Seq(1))
	}},
	{"the highest read counts, for all devices", func(w *world) {
		w.withPhone(10)
		same(w, "moved", w.reads("ana", "c", 4, 4).Moved, true)
		same(w, "moved", w.reads("ana", "c", 2, 4).Moved, false)
		same(w, "moved", w.reads("ana", "c", 6, 6).Moved, true)
		same(w, "read", w.acks(phone("ana", "c", 1), 1).Read, impart.Seq(6))
		same(w, "delivered", w.lag("ana", "phone", 1, "c").Delivered, impart.Seq(1))
		w.conversation("c-2", "ana", "ben")
		same(w, "read elsewhere", w.conv("ana", "phone", "c-2").Read, impart.Seq(0))
	}},
	{"reads of one call are merged each by itself", func(w *world) {
		w.withPhone(5)
		out := w.Store.MarkRead(w.ctx, []store.MarkRead{
			{User: "ana", Conv: "c", Seq: 3}, {User: "ana", Conv: "c", Seq: 6}, {User: "ben", Conv: "c", Seq: 1},
			{User: "ana", Conv: "c", Seq: 2}, {User: "ana", Conv: "c", Seq: 4, Epoch: 9},
		})
		var codes []impart.Code
		for _, o := range out {
			codes = append(codes, impart.CodeOf(o.Err))
		}
		same(w, "codes", codes, []impart.Code{"", impart.CursorAhead, impart.NotMember, "", impart.EpochChanged})
		same(w, "read", w.conv("ana", "", "c").Read, impart.Seq(3))
	}},
	{"acks at once merge to the highest", func(w *world) {
		w.withPhone(40)
		w.atOnce(8, func(i int) {
			for j := range 5 {
				seq := impart.Seq(i*5 + j + 1)
				if got := w.Store.Advance(w.ctx, []store.Advance{phone("ana", "c", seq)})[0]; got.Err != nil || got.Delivered < seq {
					w.t.Errorf("ack %d got %+v", seq, got)
				}
				if got := w.Store.MarkRead(w.ctx, []store.MarkRead{{User: "ana", Conv: "c", Seq: seq}})[0]; got.Err != nil || got.Read < seq {
					w.t.Errorf("read %d got %+v", seq, got)
				}
			}
		})
		got := w.conv("ana", "phone", "c")
		same(w, "delivered", got.Delivered, impart.Seq(40))
		same(w, "read", got.Read, impart.Seq(40))
	}},
	{"an unknown device acks nothing", func(w *world) {
		w.withPhone(3)
		a := phone("ana", "c", 1)
		a.Device = "tablet"
		w.wantCode(impart.StaleInstall, w.advance(a).Err)
	}},
	{"lags are told in the order asked", func(w *world) {
		w.withPhone(3)
		w.conversation("c-2", "ana")
		w.chatter("ana", "c-2", 5)
		w.acks(phone("ana", "c", 2), 2)
		ana := impart.Session{User: "ana", Device: "phone", Install: 1}
		lags, err := w.Store.Lags(w.ctx, []impart.LagQuery{
			{Session: ana, Conv: "c-2"}, {Session: ana, Conv: "nowhere"}, {Session: ana, Conv: "c"}, {Session: ana, Conv: "c-2"},
			{Session: impart.Session{User: "eve", Device: "phone", Install: 1}, Conv: "c"},
			{Session: impart.Session{User: "ana", Device: "phone", Install: 2}, Conv: "c"},
			{Session: impart.Session{User: "ana", Device: "tablet", Install: 1}, Conv: "c"},
		})
		w.must(err)
		same(w, "lags", lags, []impart.Lag{{Head: 5}, {}, {Head: 3, Delivered: 2}, {Head: 5}, {}, {Head: 3}, {Head: 3}})
		lags, err = w.Store.Lags(w.ctx, nil)
		w.must(err)
		same(w, "no lags", len(lags), 0)
	}},
}

// phoneSeqs are what the items of "acks of one call" ask for.
var phoneSeqs = []impart.Seq{0: 5, 2: 3, 6: 8}

// withPhone is a conversation of ana's with n messages, and her phone.
func (w *world) withPhone(n int) {
	w.t.Helper()
	w.conversation("c", "ana")
	w.chatter("ana", "c", n)
	w.hello("ana", "phone", "x")
}
