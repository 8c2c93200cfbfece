package conformance

import (
	"time"

	"fmt"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

var installStories = []story{
	{"a device is registered once", func(w *world) {
		d := w.hello("ana", "phone", "x")
		same(w, "first hello", d, store.Device{Install: 1, Session: d.Session, Fresh: true, Epoch: 1})
		again := w.hello("ana", "phone", "x")
		same(w, "second hello", again, store.Device{Install: 1, Session: again.Session, Epoch: 1})
		if d.Session < 1 || again.Session <= d.Session {
			w.t.Errorf("sessions %d and %d do not rise", d.Session, again.Session)
		}
	}},
	{"a hello that was held up does not outdo one that was said later", func(w *world) {
		of := func(ago time.Duration, install string) store.Hello {
			return store.Hello{User: "ana", Device: "phone", Install: install, Said: time.Now().Add(-ago)}
		}
		first := w.hello("ana", "phone", "x", func(h *store.Hello) { h.Said = time.Now().Add(-20 * time.Second) })
		now := w.hello("ana", "phone", "x", func(h *store.Hello) { h.Said = time.Now().Add(-5 * time.Second) })
		same(w, "session", now.Session, first.Session+1)
		for _, late := range []store.Hello{of(10*time.Second, "x"), of(10*time.Second, "y"), of(time.Hour, "x")} {
			_, err := w.Store.Hello(w.ctx, late)
			w.wantCode(impart.StaleInstall, err)
		}
		// Nothing has changed, and whoever comes after it is welcome.
		again := w.hello("ana", "phone", "x", func(h *store.Hello) { h.Said = time.Now().Add(-time.Second) })
		same(w, "device", again, store.Device{Install: 1, N: 0, Session: now.Session + 1, Epoch: again.Epoch})
		w.hello("ana", "phone", "x")
		w.hello("ana", "tablet", "x", func(h *store.Hello) { h.Said = time.Now().Add(-time.Hour) })
		// A device that has only been seen over HTTP has said nothing yet.
		_, err := w.Store.Visit(w.ctx, "ana", "web", "x")
		w.must(err)
		w.hello("ana", "web", "x", func(h *store.Hello) { h.Said = time.Now().Add(-time.Minute) })
	}},
	{"sessions rise over reinstalls and at once", func(w *world) {
		first := w.hello("ana", "phone", "x").Session
		if second := w.hello("ana", "phone", "y").Session; second <= first {
			w.t.Errorf("the session went from %d to %d with a reinstall", first, second)
		}
		seen := make(chan int64, 20)
		w.atOnce(4, func(int) {
			for range 5 {
				d, err := w.Store.Hello(w.ctx, store.Hello{User: "ana", Device: "phone", Install: "y"})
				if err != nil {
					w.t.Error(err)
				}
				seen <- d.Session
			}
		})
		close(seen)
		unique := map[int64]bool{}
		for s := range seen {
			unique[s] = true
		}
		same(w, "different sessions", len(unique), 20)
	}},
	{"a reinstalled device starts anew", func(w *world) {
		w.withPhone(5)
		w.acks(phone("ana", "c", 4), 4)
		d := w.hello("ana", "phone", "y")
		same(w, "install epoch", d.Install, impart.InstallEpoch(2))
		same(w, "fresh", d.Fresh, true)
		same(w, "lag", w.lag("ana", "phone", 2, "c"), impart.Lag{Head: 5})
		same(w, "delivered in the list", w.conv("ana", "phone", "c").Delivered, impart.Seq(0))

		w.wantCode(impart.StaleInstall, w.advance(phone("ana", "c", 5)).Err)
		same(w, "lag", w.lag("ana", "phone", 2, "c"), impart.Lag{Head: 5})
		second := phone("ana", "c", 1)
		second.Install = 2
		w.acks(second, 1) // and not 4, which the first install had
		same(w, "lag", w.lag("ana", "phone", 2, "c"), impart.Lag{Head: 5, Delivered: 1})
		d = w.hello("ana", "phone", "y")
		same(w, "install epoch", d.Install, impart.InstallEpoch(2))
		same(w, "fresh", d.Fresh, false)
	}},
	{"an install that comes back is new as well", func(w *world) {
		w.withPhone(5)
		w.acks(phone("ana", "c", 4), 4)
		w.hello("ana", "phone", "y")
		d := w.hello("ana", "phone", "x")
		same(w, "install epoch", d.Install, impart.InstallEpoch(3))
		same(w, "lag", w.lag("ana", "phone", 3, "c"), impart.Lag{Head: 5})
	}},
	{"a store that was rolled back is a new install", func(w *world) {
		w.withPhone(5)
		n := int64(8)
		a := phone("ana", "c", 4)
		a.N = &n
		w.acks(a, 4)
		if d := w.hello("ana", "phone", "x", counter(8)); d.Fresh || d.Install != 1 || d.N != 8 {
			w.t.Errorf("with the same n: %+v, want nothing new", d)
		}
		if d := w.hello("ana", "phone", "x"); d.Fresh || d.N != 8 {
			w.t.Errorf("without n: %+v, want no comparison", d)
		}
		if d := w.hello("ana", "phone", "x", counter(12)); d.Fresh || d.N != 12 {
			w.t.Errorf("with a higher n: %+v, want it kept", d)
		}
		if d := w.hello("ana", "phone", "x", counter(11)); !d.Fresh || d.Install != 2 || d.N != 11 {
			w.t.Errorf("with a lower n: %+v, want install epoch 2 and its n", d)
		}
		same(w, "lag", w.lag("ana", "phone", 2, "c"), impart.Lag{Head: 5})
		if d := w.hello("ana", "phone", "x", counter(11)); d.Fresh || d.Install != 2 {
			w.t.Errorf("once more: %+v, want it known", d)
		}
	}},
	{"n belongs to the install and only rises", func(w *world) {
		w.withPhone(5)
		for _, n := range []int64{3, 9, 5} {
			a := phone("ana", "c", 1)
			a.N = &n
			w.acks(a, 1)
		}
		w.acks(phone("ana", "c", 2), 2) // without n: leaves it
		same(w, "n", w.hello("ana", "phone", "x").N, int64(9))
		same(w, "n of a new install", w.hello("ana", "phone", "y").N, int64(0))
		same(w, "n of another", w.hello("ana", "phone", "z", counter(2)).N, int64(2))
	}},
	{"an ack of an older connection moves nothing", func(w *world) {
		w.withPhone(5)
		older := w.hello("ana", "phone", "x", counter(3)).Session
		w.acks(on(older, 2, 3), 2)
		// A write is made, n is 8, and its ack lies unread while the phone is put back
		// to before the write. Its hello shows nothing of that.
		newer := w.hello("ana", "phone", "x", counter(3))
		same(w, "install epoch", newer.Install, impart.InstallEpoch(1))
		w.wantCode(impart.StaleInstall, w.advance(on(older, 4, 8)).Err)
		same(w, "lag", w.lag("ana", "phone", 1, "c"), impart.Lag{Head: 5, Delivered: 2})
		w.acks(on(newer.Session, 3, 4), 3)
		w.wantCode(impart.StaleInstall, w.advance(on(older, 3, 8)).Err)
		if d := w.hello("ana", "phone", "x", counter(4)); d.Fresh || d.N != 4 {
			w.t.Errorf("after the acks: %+v, want n 4 and no other install", d)
		}
	}},
	{"the sessions of devices are told in the order asked", func(w *world) {
		first := w.hello("ana", "phone", "x").Session
		second := w.hello("ana", "phone", "x").Session
		fresh := w.hello("ana", "phone", "another install").Session
		tablet := w.hello("ana", "tablet", "x").Session
		of := w.hello("ben", "phone", "x").Session
		if !(first < second && second < fresh) {
			w.t.Errorf("the sessions are %d, %d, %d: each should be above the one before", first, second, fresh)
		}
		asked := []impart.Session{
			{User: "ben", Device: "phone"}, {User: "ana", Device: "phone", Install: 1, Number: first}, {User: "cy", Device: "phone"},
			{User: "ana", Device: "tablet"}, {User: "ana", Device: "phone", Number: fresh}, {User: "phone", Device: "ana"},
		}
		got, err := w.Store.Standings(w.ctx, asked)
		w.must(err)
		same(w, "sessions", got, []store.Standing{{Session: of}, {Session: fresh}, {}, {Session: tablet}, {Session: fresh}, {}})
		none, err := w.Store.Standings(w.ctx, nil)
		w.must(err)
		same(w, "sessions of nobody", len(none), 0)
		many := make([]impart.Session, 2500)
		for i := range many {
			many[i] = impart.Session{User: "ana", Device: impart.DeviceID(fmt.Sprint("d-", i))}
		}
		many[2400].Device = "tablet"
		got, err = w.Store.Standings(w.ctx, many)
		w.must(err)
		want := make([]store.Standing, len(many))
		want[2400].Session = tablet
		same(w, "sessions of many", got, want)
	}},
	{"an ack before the hello is noticed by it", func(w *world) {
		w.withPhone(5)
		older := w.hello("ana", "phone", "x", counter(3)).Session
		w.acks(on(older, 4, 8), 4)
		if d := w.hello("ana", "phone", "x", counter(3)); !d.Fresh || d.Install != 2 {
			w.t.Errorf("the hello of a store that lacks what was acknowledged: %+v, want another install", d)
		}
		same(w, "lag", w.lag("ana", "phone", 2, "c"), impart.Lag{Head: 5})
	}},
	{"an ack and a hello at once come one after the other", func(w *world) {
		w.withPhone(5)
		n := int64(100)
		w.hello("ana", "phone", "x", counter(n))
		for range 20 {
			before := w.hello("ana", "phone", "x", counter(n))
			session := before.Session
			n++
			acked, greeted := make(chan store.Advanced, 1), make(chan store.Device, 1)
			a, back := on(session, 4, n), n-1
			a.Install = before.Install
			w.atOnce(2, func(i int) {
				if i == 0 {
					acked <- w.Store.Advance(w.ctx, []store.Advance{a})[0]
					return
				}
				d, err := w.Store.Hello(w.ctx, store.Hello{User: "ana", Device: "phone", Install: "x", N: &back})
				if err != nil {
					w.t.Error(err)
				}
				greeted <- d
			})
			got, d := <-acked, <-greeted
			if d.Fresh != (got.Err == nil) {
				w.t.Errorf("the ack got %+v and the hello %+v, want an ack that the hello notices, or one that is refused", got, d)
			}
			if got.Err != nil {
				w.wantCode(impart.StaleInstall, got.Err)
			}
		}
	}},
	{"of many acks those of older connections fail alone", func(w *world) {
		w.withPhone(5)
		w.conversation("c-2", "ana")
		w.chatter("ana", "c-2", 5)
		oldest, older := w.hello("ana", "phone", "x").Session, w.hello("ana", "phone", "x").Session
		newest := w.hello("ana", "phone", "x").Session
		elsewhere := on(newest, 2, 3)
		elsewhere.Conv = "c-2"
		out := w.Store.Advance(w.ctx, []store.Advance{
			on(older, 5, 9), on(newest, 2, 3), on(oldest, 4, 8), elsewhere, on(newest, 6, 9), on(0, 3, 3),
		})
		var codes []impart.Code
		for _, o := range out {
			codes = append(codes, impart.CodeOf(o.Err))
		}
		same(w, "codes", codes, []impart.Code{impart.StaleInstall, "", impart.StaleInstall, "", impart.CursorAhead, ""})
		same(w, "c", w.lag("ana", "phone", 1, "c").Delivered, impart.Seq(3))
		same(w, "c-2", w.lag("ana", "phone", 1, "c-2").Delivered, impart.Seq(2))
		same(w, "n", w.hello("ana", "phone", "x").N, int64(3))
	}},
	{"an ack that came on no connection counts for the install", func(w *world) {
		w.withPhone(5)
		w.hello("ana", "phone", "x")
		w.acks(on(0, 2, 3), 2)
		w.hello("ana", "phone", "y")
		w.wantCode(impart.StaleInstall, w.advance(on(0, 3, 4)).Err)
		_, err := w.Store.Visit(w.ctx, "ana", "script", "s") // and never says hello
		w.must(err)
		w.acks(store.Advance{User: "ana", Device: "script", Install: 1, Conv: "c", Seq: 4}, 4)
	}},
	{"the session of one device is not another's", func(w *world) {
		w.withPhone(5)
		session := w.hello("ana", "phone", "x").Session
		for range 3 {
			w.hello("ana", "tablet", "x")
			w.hello("ben", "phone", "x")
		}
		w.acks(on(session, 2, 1), 2)
	}},
	{"an ack that is refused raises no n", func(w *world) {
		w.withPhone(5)
		session := w.hello("ana", "phone", "x", counter(3)).Session
		w.wantCode(impart.CursorAhead, w.advance(on(session, 6, 9)).Err)
		elsewhere := on(session, 1, 9)
		elsewhere.Conv = "nowhere"
		w.wantCode(impart.NotMember, w.advance(elsewhere).Err)
		same(w, "n", w.hello("ana", "phone", "x").N, int64(3))
	}},
	{"a new install may start near the head", func(w *world) {
		w.conversation("c", "ana")
		w.chatter("ana", "c", 10)
		for want := range impart.Seq(13) {
			device := impart.DeviceID(fmt.Sprintf("phone-%d", want))
			w.hello("ana", device, "x", history(int64(want)))
			same(w, "events after the start", len(w.after("ana", "c", w.lag("ana", device, 1, "c").Delivered).Events), int(min(want, 10)))
		}
	}},
	{"the start counts what one may see", func(w *world) {
		w.conversation("c", "ana")
		w.chatter("ana", "c", 3) // 1..3
		w.joins("c", "ben")      // 4
		w.chatter("ana", "c", 2) // 5..6
		w.leaves("c", "ben")     // 7
		w.chatter("ana", "c", 5) // 8..12
		w.joins("c", "ben")      // 13
		w.recalls("ana", "c", 1) // 14, not ben's
		w.recalls("ana", "c", 5) // 15
		w.chatter("ana", "c", 1) // 16
		w.recalls("ana", "c", 2) // 17, not ben's
		visible := w.after("ben", "c", 0).Events
		same(w, "ben's seqs", seqs(visible), []impart.Seq{4, 5, 6, 7, 13, 15, 16})
		for want := range len(visible) + 2 {
			device := impart.DeviceID(fmt.Sprintf("phone-%d", want))
			w.hello("ben", device, "x", history(int64(want)))
			start := w.lag("ben", device, 1, "c").Delivered
			same(w, fmt.Sprintf("events after start %d", start), len(w.after("ben", "c", start).Events), min(want, len(visible)))
		}
	}},
	{"the start is for new installs alone", func(w *world) {
		w.withPhone(10)
		w.acks(phone("ana", "c", 2), 2)
		w.hello("ana", "phone", "x", history(1))
		same(w, "known", w.lag("ana", "phone", 1, "c").Delivered, impart.Seq(2))
		w.hello("ana", "phone", "y", history(1))
		same(w, "reinstalled", w.lag("ana", "phone", 2, "c").Delivered, impart.Seq(9))
		w.hello("ana", "phone", "z")
		same(w, "reinstalled, with all", w.lag("ana", "phone", 3, "c").Delivered, impart.Seq(0))
	}},
	{"an ack below the start stays at the start", func(w *world) {
		w.conversation("c", "ana")
		w.chatter("ana", "c", 10)
		w.hello("ana", "phone", "x", history(3))
		same(w, "moved", w.acks(phone("ana", "c", 5), 7).Moved, false)
		same(w, "moved", w.acks(phone("ana", "c", 8), 8).Moved, true)
	}},
	{"a conversation joined later starts before its first event", func(w *world) {
		w.conversation("c", "ana")
		w.chatter("ana", "c", 10)
		w.hello("ben", "phone", "x", history(0))
		w.joins("c", "ben")
		same(w, "lag", w.lag("ben", "phone", 1, "c"), impart.Lag{Head: 11, Delivered: 10})
	}},
	{"a visit registers and never raises", func(w *world) {
		w.withPhone(3)
		d, err := w.Store.Visit(w.ctx, "ana", "script", "s")
		w.must(err)
		same(w, "install epoch", d.Install, impart.InstallEpoch(1))
		same(w, "fresh", d.Fresh, true)
		w.acks(store.Advance{User: "ana", Device: "script", Install: 1, Conv: "c", Seq: 2}, 2)

		d, err = w.Store.Visit(w.ctx, "ana", "phone", "x")
		w.must(err)
		same(w, "install epoch", d.Install, impart.InstallEpoch(1))
		same(w, "fresh", d.Fresh, false)
		_, err = w.Store.Visit(w.ctx, "ana", "phone", "another")
		w.wantCode(impart.StaleInstall, err)
		before := w.hello("ana", "phone", "x")
		same(w, "install epoch", before.Install, impart.InstallEpoch(1))
		_, err = w.Store.Visit(w.ctx, "ana", "phone", "x")
		w.must(err)
		same(w, "the session after a visit", w.hello("ana", "phone", "x").Session, before.Session+1)
		same(w, "a hello finds the visitor", w.hello("ana", "script", "s").Fresh, false)
	}},
	{"devices are listed with their cursors", func(w *world) {
		w.withPhone(5)
		n := int64(7)
		a := phone("ana", "c", 3)
		a.N = &n
		w.acks(a, 3)
		w.hello("ben", "phone", "y")
		w.hello("ana", "laptop", "z")
		list, err := w.Store.Devices(w.ctx, "phone", "ana")
		w.must(err)
		if len(list) != 1 || len(list[0].Cursors) != 1 {
			w.t.Fatalf("ana's phone: %+v", list)
		}
		got := list[0]
		if got.Cursors[0].Updated <= 0 || got.LastSeen <= epochStart {
			w.t.Errorf("times are missing: %+v", got)
		}
		want := impart.DeviceInfo{
			User: "ana", Device: "phone", Install: 1, N: 7, Session: got.Session, LastSeen: got.LastSeen,
			Cursors: []impart.DeviceCursor{{
				User: "ana", Device: "phone", Conv: "c", Install: 1, Epoch: 1, Delivered: 3, Updated: got.Cursors[0].Updated,
			}},
		}
		same(w, "device", got, want)
		all, err := w.Store.Devices(w.ctx, "phone", "")
		w.must(err)
		same(w, "phones", len(all), 2)
		none, err := w.Store.Devices(w.ctx, "tablet", "")
		if len(none) != 0 || (err != nil && impart.CodeOf(err) != impart.NotFound) {
			w.t.Errorf("an unknown device: %+v, %v", none, err)
		}
	}},
}
