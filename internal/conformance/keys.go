package conformance

import (
	"slices"
	"strings"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// alike are texts that some collation takes for one another.
var alike = []string{
	"key", "KEY", "Key", "key ", "key  ", " key", "kéy", "ke\u0301y", "ｋｅｙ", "ke\u200by", "k\u00ady",
	"straße", "strasse", "ı", "i", "I", "İ", "ﬁ", "fi", "é", "e\u0301", "ß", "ẞ", "ss", "☃", "☃\ufe0f", "%", "_", "k%", "0", "00", "1", "1.0", "0x1", "null", "NULL", "'", "\"", "\\", "`",
}

var keyStories = []story{
	{"keys are listed by the time at which they were sent", func(w *world) {
		w.conversation("c", "ana", "ben")
		at := func(t impart.Millis) func(*store.Append) { return func(a *store.Append) { a.At = t } }
		w.stores(w.msg("ana", "c", "third", "x", at(300)), w.msg("ben", "c", "first", "x", at(100)), w.msg("ana", "c", "second ", "x", at(200)))
		lists := func(since impart.Millis, limit int, want ...store.DedupKey) {
			w.t.Helper()
			keys, err := w.Store.DedupKeys(w.ctx, since, limit)
			w.must(err)
			if !slices.Equal(keys, want) {
				w.t.Errorf("from %d, at most %d: %+v, want %+v", since, limit, keys, want)
			}
		}
		first, second, third := store.DedupKey{User: "ben", CMID: "first", At: 100}, store.DedupKey{User: "ana", CMID: "second ", At: 200}, store.DedupKey{User: "ana", CMID: "third", At: 300}
		lists(0, 10, first, second, third)
		lists(0, 2, first, second)
		lists(200, 10, second, third)
		lists(201, 10, third)
		lists(301, 10)
		w.repeats(store.Appended{Seq: 1, MID: w.after("ana", "c", 0).Events[0].MID, At: 300}, w.msg("ana", "c", "third", "x"))
		lists(0, 10, first, second, third) // as it was sent first
	}},
	{"cmids are compared byte for byte", func(w *world) {
		w.conversation("c", "ana")
		first := map[string]store.Appended{}
		for _, k := range alike {
			first[k] = w.stores(w.msg("ana", "c", impart.CMID(k), "body of "+k))[0]
		}
		for _, k := range alike {
			w.repeats(first[k], w.msg("ana", "c", impart.CMID(k), "body of "+k))
		}
		for i, ev := range w.after("ana", "c", 0).Events {
			same(w, "cmid", string(ev.CMID), alike[i])
		}
	}},
	{"case alone makes another cmid", func(w *world) {
		w.conversation("c", "ana")
		w.stores(w.msg("ana", "c", "Key", "one"), w.msg("ana", "c", "key", "two"), w.msg("ana", "c", "KEY", "one"))
	}},
	{"a trailing space makes another cmid", func(w *world) {
		w.conversation("c", "ana")
		w.stores(w.msg("ana", "c", "key", "one"), w.msg("ana", "c", "key ", "two"), w.msg("ana", "c", "key  ", "one"))
	}},
	{"senders are compared byte for byte", func(w *world) {
		var users []impart.UserID
		for _, k := range alike {
			users = append(users, impart.UserID(k))
		}
		w.conversation("c", users...)
		for _, u := range users {
			w.stores(w.msg(u, "c", "k", "same words"))
		}
		w.refuses(impart.NotMember, w.msg("kEy", "c", "k", "same words"))
		w.refuses(impart.NotMember, w.msg("i ", "c", "k", "same words"))
		info, err := w.Store.Conversation(w.ctx, "c")
		w.must(err)
		same(w, "members", len(info.Members), len(alike))
		for i := 1; i < len(info.Members); i++ {
			if a, b := info.Members[i-1].User, info.Members[i].User; a >= b {
				w.t.Errorf("members are not ascending byte for byte: %q before %q", a, b)
			}
		}
	}},
	{"sender and cmid cannot run into one another", func(w *world) {
		w.conversation("c", "a", "a:b", "a:b:c", "ab", "a b", "a,b")
		w.stores(
			w.msg("a:b", "c", "c", "x"), w.msg("a", "c", "b:c", "x"), w.msg("a:b:c", "c", "c", "x"),
			w.msg("a", "c", "bc", "x"), w.msg("ab", "c", "c", "x"), w.msg("a b", "c", "c", "x"), w.msg("a", "c", "b c", "x"),
			w.msg("a,b", "c", "c", "x"), w.msg("a", "c", "b,c", "x"),
		)
	}},
	{"conversations are compared byte for byte", func(w *world) {
		for _, k := range alike {
			w.conversation(impart.ConvID(k), "ana")
		}
		for i, k := range alike {
			w.chatter("ana", impart.ConvID(k), i%3)
		}
		for i, k := range alike {
			same(w, "head of "+k, w.after("ana", impart.ConvID(k), 0).Head, impart.Seq(i%3))
		}
		var listed []string
		for after := impart.ConvID(""); ; {
			page, err := w.Store.Convs(w.ctx, "ana", "", after, 7, impart.MaxPage)
			w.must(err)
			for _, c := range page.Convs {
				listed = append(listed, string(c.Conv))
				after = c.Conv
			}
			if !page.More || len(listed) > len(alike) {
				break
			}
		}
		for i := 1; i < len(listed); i++ {
			if listed[i-1] >= listed[i] {
				w.t.Errorf("conversations are not ascending byte for byte: %q before %q", listed[i-1], listed[i])
			}
		}
		same(w, "conversations", len(listed), len(alike))
	}},
	{"devices and installs are compared byte for byte", func(w *world) {
		w.conversation("c", "ana")
		w.chatter("ana", "c", len(alike))
		for i, k := range alike {
			if d := w.hello("ana", impart.DeviceID(k), "install"); !d.Fresh || d.Install != 1 {
				w.t.Errorf("device %q was known already: %+v", k, d)
			}
			a := phone("ana", "c", impart.Seq(i))
			a.Device = impart.DeviceID(k)
			w.acks(a, impart.Seq(i))
		}
		for i, k := range alike {
			same(w, "cursor of "+k, w.lag("ana", impart.DeviceID(k), 1, "c").Delivered, impart.Seq(i))
		}
		for i, k := range alike {
			d := w.hello("ana", "phone", k)
			same(w, "install epoch for "+k, d.Install, impart.InstallEpoch(i+1))
		}
	}},
	{"a device is scoped by its user", func(w *world) {
		w.conversation("c", "ana", "ben")
		w.chatter("ana", "c", 3)
		w.hello("ana", "phone", "x")
		w.hello("ben", "phone", "y")
		w.acks(phone("ana", "c", 3), 3)
		same(w, "ben's cursor", w.lag("ben", "phone", 1, "c").Delivered, impart.Seq(0))
		devices, err := w.Store.Devices(w.ctx, "phone", "")
		w.must(err)
		same(w, "devices", len(devices), 2)
	}},
	{"ids of full length are told apart by their last byte", func(w *world) {
		snow := strings.Repeat("𝔘", impart.MaxCMID/4-1) // 4 bytes each, outside the basic plane
		var items []store.Append
		long := impart.UserID(strings.Repeat("u", impart.MaxID-4))
		w.conversation("c", long+"𝔘", long+"𝔙")
		for _, user := range []impart.UserID{long + "𝔘", long + "𝔙"} {
			items = append(items, w.msg(user, "c", impart.CMID(snow+"𝔘"), "x"), w.msg(user, "c", impart.CMID(snow+"𝔙"), "x"),
				w.msg(user, "c", impart.CMID(strings.Repeat("k", impart.MaxCMID)), "x"),
				w.msg(user, "c", impart.CMID(strings.Repeat("k", impart.MaxCMID-1)), "x"))
		}
		out := w.stores(items...)
		for i, item := range items {
			w.repeats(out[i], item)
		}
		conv := impart.ConvID(strings.Repeat("𝔘", impart.MaxID/4))
		w.conversation(conv, "ana")
		w.says("ana", conv, "hi")
		d := impart.DeviceID(strings.Repeat("𝔘", impart.MaxID/4))
		w.hello("ana", d, "x")
		w.acks(store.Advance{User: "ana", Device: d, Install: 1, Conv: conv, Seq: 1}, 1)
	}},
}
