package conformance

import (
	"fmt"

	"github.com/impart-im/impart"
)

var reportStories = []story{
	{"who has the event is told device by device", func(w *world) {
		w.conversation("c", "ana", "ben", "cy")
		w.chatter("ana", "c", 3)
		for _, d := range []impart.DeviceID{"phone", "laptop"} {
			w.hello("ben", d, "x")
		}
		w.hello("ana", "phone", "x")
		w.acks(phone("ben", "c", 2), 2)
		w.acks(phone("ana", "c", 3), 3)
		w.reads("ben", "c", 1, 1)
		same(w, "of 1", w.who("ana", 1, "", 10), impart.Report{Users: []impart.UserReport{
			{User: "ana", Delivered: 1, Devices: 1}, {User: "ben", Delivered: 1, Devices: 2, Read: true}, {User: "cy"},
		}})
		same(w, "of 2", w.who("cy", 2, "", 10), impart.Report{Users: []impart.UserReport{
			{User: "ana", Delivered: 1, Devices: 1}, {User: "ben", Delivered: 1, Devices: 2}, {User: "cy"},
		}})
		same(w, "of 3", w.who("ben", 3, "", 10), impart.Report{Users: []impart.UserReport{
			{User: "ana", Delivered: 1, Devices: 1}, {User: "ben", Devices: 2}, {User: "cy"},
		}})
	}},
	{"a device that started after the event does not have it", func(w *world) {
		w.conversation("c", "ana", "ben")
		w.chatter("ana", "c", 3)
		w.hello("ben", "phone", "x", history(1))
		same(w, "of 2", w.who("ana", 2, "", 10), impart.Report{Users: []impart.UserReport{{User: "ana"}, {User: "ben", Devices: 1}}})
		w.acks(phone("ben", "c", 3), 3)
		same(w, "of 2", w.who("ana", 2, "", 10), impart.Report{Users: []impart.UserReport{{User: "ana"}, {User: "ben", Devices: 1}}})
		same(w, "of 3", w.who("ana", 3, "", 10), impart.Report{Users: []impart.UserReport{{User: "ana"}, {User: "ben", Delivered: 1, Devices: 1}}})
	}},
	{"the report pages by user", func(w *world) {
		w.conversation("c", "u-0", "u-1", "u-2", "u-3", "u-4", "U-1", "u-1 ")
		w.says("u-0", "c", "hi")
		want := []impart.UserID{"U-1", "u-0", "u-1", "u-1 ", "u-2", "u-3", "u-4"}
		for _, limit := range []int{1, 3, 7, 8} {
			var got []impart.UserID
			for after := impart.UserID(""); ; {
				r := w.who("u-0", 1, after, limit)
				if len(r.Users) > limit || len(got) > len(want) {
					w.t.Fatalf("%d users on a page of %d after %d others", len(r.Users), limit, len(got))
				}
				for _, u := range r.Users {
					got = append(got, u.User)
				}
				if !r.More {
					break
				}
				after = got[len(got)-1]
			}
			same(w, "users", got, want)
		}
	}},
	{"only those who may see the event are told of", func(w *world) {
		w.conversation("c", "ana", "ben")
		w.says("ana", "c", "with ben") // 1
		w.leaves("c", "ben")           // 2
		w.joins("c", "cy")             // 3
		w.says("ana", "c", "with cy")  // 4
		w.recalls("ana", "c", 1)       // 5: ben's too
		for seq, want := range map[impart.Seq][]impart.UserID{1: {"ana", "ben"}, 2: {"ana", "ben"}, 3: {"ana", "cy"}, 4: {"ana", "cy"}, 5: {"ana", "ben"}} {
			var got []impart.UserID
			for _, u := range w.who("ana", seq, "", 10).Users {
				got = append(got, u.User)
			}
			same(w, fmt.Sprintf("of %d", seq), got, want)
			d, err := w.Store.Delivery(w.ctx, "c", seq)
			w.must(err)
			got = nil
			for _, u := range d.Users {
				got = append(got, u.User)
			}
			same(w, fmt.Sprintf("delivery of %d", seq), got, want)
		}
	}},
	{"who may not see the event may not ask", func(w *world) {
		w.conversation("c", "ana", "ben")
		w.says("ana", "c", "with ben") // 1
		w.leaves("c", "ben")           // 2
		w.joins("c", "cy")             // 3
		w.says("ana", "c", "with cy")  // 4
		w.recalls("ana", "c", 1)       // 5
		w.says("ana", "c", "more")     // 6
		for _, c := range []struct {
			user impart.UserID
			seq  impart.Seq
			code impart.Code
		}{
			{"ana", 7, impart.CursorAhead}, {"ana", 0, impart.CursorAhead}, {"ana", -1, impart.CursorAhead},
			{"ben", 3, impart.CursorAhead}, {"ben", 4, impart.CursorAhead}, {"ben", 5, ""}, {"ben", 6, impart.CursorAhead},
			{"cy", 1, impart.CursorAhead}, {"cy", 2, impart.CursorAhead}, {"cy", 5, impart.CursorAhead}, {"cy", 6, ""},
			{"eve", 1, impart.NotMember},
		} {
			_, err := w.Store.Report(w.ctx, impart.Who{User: c.user, Conv: "c", Seq: c.seq, Limit: 10})
			if impart.CodeOf(err) != c.code {
				w.t.Errorf("%s asks for seq %d: got %v, want %q", c.user, c.seq, err, c.code)
			}
		}
		_, err := w.Store.Report(w.ctx, impart.Who{User: "ana", Conv: "nowhere", Seq: 1, Limit: 10})
		w.wantCode(impart.NotMember, err)
	}},
	{"a device that starts anew does not have the event", func(w *world) {
		w.withPhone(3)
		w.acks(phone("ana", "c", 3), 3)
		w.reads("ana", "c", 3, 3)
		same(w, "before", w.who("ana", 3, "", 10).Users, []impart.UserReport{{User: "ana", Delivered: 1, Devices: 1, Read: true}})
		w.hello("ana", "phone", "y")
		same(w, "reinstalled", w.who("ana", 3, "", 10).Users, []impart.UserReport{{User: "ana", Devices: 1, Read: true}})
		a := phone("ana", "c", 3)
		a.Install = 2
		w.acks(a, 3)
		w.raiseEpoch()
		same(w, "new epoch", w.who("ana", 3, "", 10).Users, []impart.UserReport{{User: "ana", Devices: 1}})
	}},
	{"the operator sees each device's cursor", func(w *world) {
		w.conversation("c", "ana", "ben")
		a := w.msg("ana", "c", "k", "not for operators")
		w.stores(a)
		w.says("ana", "c", "more")
		w.hello("ben", "phone", "x")
		w.hello("ben", "laptop", "x")
		w.acks(phone("ben", "c", 1), 1)
		w.reads("ben", "c", 1, 1)
		d, err := w.Store.Delivery(w.ctx, "c", 1)
		w.must(err)
		same(w, "head", d.Head, impart.Seq(2))
		if d.Event.MID != a.MID || d.Event.Sender != "ana" || d.Event.Seq != 1 || d.Event.Body != "" || len(d.Event.Ext) > 0 {
			w.t.Errorf("the event is %+v; want mid %s and no body", d.Event, a.MID)
		}
		if len(d.Users) != 2 || len(d.Users[0].Devices) != 0 || len(d.Users[1].Devices) != 2 {
			w.t.Fatalf("users: %+v", d.Users)
		}
		ben := d.Users[1]
		laptop, phone := ben.Devices[0], ben.Devices[1]
		if !ben.Read || d.Users[0].Read || laptop.Device != "laptop" || laptop.Delivered != 0 || laptop.Updated != 0 ||
			phone.Delivered != 1 || phone.Updated == 0 || phone.Install != 1 || phone.User != "ben" || phone.Conv != "c" {
			w.t.Errorf("ben: %+v", ben)
		}
		_, err = w.Store.Delivery(w.ctx, "c", 3)
		w.wantCode(impart.NotFound, err)
		_, err = w.Store.Delivery(w.ctx, "c", 0)
		w.wantCode(impart.NotFound, err)
	}},
}

// who asks for the report of an event in "c".
func (w *world) who(user impart.UserID, seq impart.Seq, after impart.UserID, limit int) impart.Report {
	w.t.Helper()
	r, err := w.Store.Report(w.ctx, impart.Who{User: user, Conv: "c", Seq: seq, After: after, Limit: limit})
	w.must(err)
	return r
}
