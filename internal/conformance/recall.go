package conformance

import (
	"strings"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

var recallStories = []story{
	{"a recalled body is gone", func(w *world) {
		w.conversation("c", "ana", "ben")
		secret := w.msg("ana", "c", "k", "my password is 1234", func(a *store.Append) { a.Ext, a.Type = []byte(`{"secret":1}`), "card" })
		first := w.stores(secret)[0]
		w.says("ben", "c", "oh no")
		recall := w.stores(w.takeBack("ana", "c", "r", 1))[0]
		same(w, "seq of the recall", recall.Seq, 3)
		w.sees("ben", "c", "1 recalled", "2 oh no", "3 recall 1")
		w.bodyless("c", secret)

		ev := w.after("ben", "c", 0).Events[0]
		want := impart.Event{
			Conv: "c", Seq: 1, Kind: impart.KindMsg, MID: secret.MID, Sender: "ana", Device: ev.Device,
			CMID: "k", Type: ev.Type, At: secret.At, Recalled: true,
		}
		same(w, "the recalled message", ev, want)
		w.repeats(first, secret)
		w.bodyless("c", secret)
	}},
	{"the recall event names its target", func(w *world) {
		w.conversation("c", "ana")
		first := w.stores(w.msg("ana", "c", "k", "oops"))[0]
		a := w.takeBack("ana", "c", "r", 1)
		w.stores(a)
		got := w.after("ana", "c", 1).Events[0]
		want := impart.Event{
			Conv: "c", Seq: 2, Kind: impart.KindRecall, MID: a.MID, Sender: "ana", Device: got.Device, CMID: "r",
			At: a.At, Target: 1, TargetMID: first.MID,
		}
		same(w, "recall", got, want)
	}},
	{"a recall is idempotent by its cmid", func(w *world) {
		w.conversation("c", "ana")
		w.says("ana", "c", "oops")
		first := w.stores(w.takeBack("ana", "c", "r", 1))[0]
		w.repeats(first, w.takeBack("ana", "c", "r", 1))
		w.refuses(impart.RecallRefused, w.takeBack("ana", "c", "r2", 1))
		w.sees("ana", "c", "1 recalled", "2 recall 1")
	}},
	{"the mid of the target must match", func(w *world) {
		w.conversation("c", "ana")
		first := w.stores(w.msg("ana", "c", "k", "oops"))[0]
		mid := func(m impart.MID) change { return func(a *store.Append) { a.TargetMID = m } }
		w.refuses(impart.RecallRefused, w.takeBack("ana", "c", "r", 1, mid(first.MID+"x")))
		w.refuses(impart.RecallRefused, w.takeBack("ana", "c", "r", 1, mid(impart.MID(strings.ToUpper(string(first.MID))))))
		w.stores(w.takeBack("ana", "c", "r", 1, mid(first.MID)))
	}},
	{"only the sender or an admin may recall", func(w *world) {
		w.conversation("c", "ana", "ben")
		w.says("ana", "c", "one")
		w.says("ana", "c", "two")
		w.refuses(impart.RecallRefused, w.takeBack("ben", "c", "r", 1))
		w.role("c", "ben", impart.RoleAdmin)
		w.recalls("ben", "c", 1)
		w.role("c", "ben", impart.RoleMember)
		w.refuses(impart.RecallRefused, w.takeBack("ben", "c", "r", 2))
		w.sees("ana", "c", "1 recalled", "2 two", "3 recall 1")
	}},
	{"only messages can be recalled", func(w *world) {
		w.conversation("c", "ana", "ben")
		w.role("c", "ana", impart.RoleAdmin)
		w.leaves("c", "ben")
		w.joins("c", "ben")
		w.says("ana", "c", "msg")
		w.recalls("ana", "c", 3)
		for _, target := range []impart.Seq{0, 1, 2, 3, 4} {
			w.refuses(impart.RecallRefused, w.takeBack("ana", "c", "r", target))
		}
		w.sees("ana", "c", "1 leave ben", "2 join ben", "3 recalled", "4 recall 3")
	}},
	{"nothing beyond head can be recalled", func(w *world) {
		w.conversation("c", "ana")
		w.says("ana", "c", "one")
		w.refuses(impart.CursorAhead, w.takeBack("ana", "c", "r", 2))
		w.refuses(impart.CursorAhead, w.takeBack("ana", "c", "r", impart.MaxNumber))
	}},
	{"the window is up to a millisecond", func(w *world) {
		w.conversation("c", "ana")
		a := w.stores(w.msg("ana", "c", "k", "oops"))[0]
		since := func(at impart.Millis) change { return func(a *store.Append) { a.NotBefore = at } }
		w.refuses(impart.RecallRefused, w.takeBack("ana", "c", "r", 1, since(a.At+1)))
		w.stores(w.takeBack("ana", "c", "r", 1, since(a.At)))
	}},
	{"who cannot see a message cannot recall it", func(w *world) {
		w.conversation("c", "ana")
		w.says("ana", "c", "before ben")
		w.joins("c", "ben")
		w.role("c", "ben", impart.RoleAdmin)
		w.refuses(impart.RecallRefused, w.takeBack("ben", "c", "r", 1))
		w.says("ana", "c", "with ben")
		w.recalls("ben", "c", 3)
		w.refuses(impart.NotMember, w.takeBack("eve", "c", "r", 2))
		w.leaves("c", "ana")
		w.refuses(impart.NotMember, w.takeBack("ana", "c", "r", 1))
	}},
	{"a refused recall keeps the body", func(w *world) {
		w.conversation("c", "ana", "ben")
		w.says("ana", "c", "mine")
		w.refuses(impart.RecallRefused, w.takeBack("ben", "c", "r", 1))
		w.refuses(impart.EpochChanged, w.takeBack("ana", "c", "r", 1, epoch(99)))
		w.refuses(impart.OutOfOrder, w.takeBack("ana", "c", "r", 1, prev("never")))
		w.sees("ana", "c", "1 mine")
	}},
	{"a message and its recall may share a call", func(w *world) {
		w.conversation("c", "ana")
		secret := w.msg("ana", "c", "k", "too fast")
		out := w.append(secret, w.takeBack("ana", "c", "r", 1, prev("k")), w.takeBack("ana", "c", "r2", 1))
		w.wantCode("", out[1].Err)
		w.wantCode(impart.RecallRefused, out[2].Err)
		w.sees("ana", "c", "1 recalled", "2 recall 1")
		w.bodyless("c", secret)
	}},
	{"a recall is seen by whoever saw its target", func(w *world) {
		w.conversation("c", "ana", "ben")
		w.says("ana", "c", "secret")    // 1
		w.leaves("c", "ben")            // 2
		w.says("ana", "c", "without")   // 3
		w.joins("c", "cy")              // 4
		w.recalls("ana", "c", 1)        // 5
		w.says("ana", "c", "afterward") // 6
		w.recalls("ana", "c", 3)        // 7
		w.sees("ana", "c", "1 recalled", "2 leave ben", "3 recalled", "4 join cy", "5 recall 1", "6 afterward", "7 recall 3")
		w.sees("ben", "c", "1 recalled", "2 leave ben", "5 recall 1")
		w.sees("cy", "c", "4 join cy", "6 afterward")
		same(w, "ben's head", w.after("ben", "c", 0).Head, impart.Seq(5))
		same(w, "cy's head", w.after("cy", "c", 0).Head, impart.Seq(6))
		w.hello("ben", "phone", "x")
		w.hello("cy", "phone", "x")
		same(w, "ben's lag", w.lag("ben", "phone", 1, "c"), impart.Lag{Head: 5})
		same(w, "cy's lag", w.lag("cy", "phone", 1, "c"), impart.Lag{Head: 6, Delivered: 3})
		w.acks(phone("ben", "c", 5), 5)
		w.wantCode(impart.CursorAhead, w.advance(phone("ben", "c", 6)).Err)
		w.wantCode(impart.CursorAhead, w.advance(phone("cy", "c", 7)).Err)
	}},
}

func (w *world) role(conv impart.ConvID, user impart.UserID, role impart.Role) {
	w.t.Helper()
	_, joined, err := w.Store.PutMember(w.ctx, conv, impart.Member{User: user, Role: role}, impart.System, w.stamp)
	w.must(err)
	if joined {
		w.t.Fatalf("%s joined by a change of role", user)
	}
}

// bodyless looks on every road for the body of a recalled message.
func (w *world) bodyless(conv impart.ConvID, secret store.Append) {
	w.t.Helper()
	clean := func(road string, events ...impart.Event) {
		for _, ev := range events {
			if ev.MID == secret.MID && (ev.Body != "" || len(ev.Ext) > 0 || !ev.Recalled) {
				w.t.Errorf("%s tells the recalled message: body %q, ext %q, recalled %t", road, ev.Body, ev.Ext, ev.Recalled)
			}
		}
	}
	info, err := w.Store.Conversation(w.ctx, conv)
	w.must(err)
	clean("the page", w.after(secret.Sender, conv, 0).Events...)
	back := ask(secret.Sender, conv)
	back.Back, back.Before = true, info.Head+1
	clean("the page back", w.page(back).Events...)
	r, err := w.Store.Range(w.ctx, conv, 1, info.Head, impart.MaxLimit)
	w.must(err)
	clean("the range", r.Events...)
	if last := w.conv(secret.Sender, "", conv).Last; last != nil {
		clean("the list", *last)
	}
	for _, ev := range r.Events {
		if ev.MID == secret.MID {
			d, err := w.Store.Delivery(w.ctx, conv, ev.Seq)
			w.must(err)
			clean("the delivery", d.Event)
		}
	}
}
