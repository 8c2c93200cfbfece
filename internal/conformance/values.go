package conformance

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// awkward are bodies that a careless column type, driver or escape changes.
var awkward = []string{
	"", " ", "\n", "trailing newline\n", "trailing spaces  ", "  leading", "\ttab", "a\r\nb", "\ufeffbom",
	`"quotes" and 'quotes' and \back\slashes\n`, "line\u2028and paragraph\u2029separators", "👩‍👩‍👧‍👦 and 🏳️‍🌈",
	"e\u0301 is not é", "</script><!--", "%s %d %!", "$1 ?1 :a @b", "'; DROP TABLE events; --", "\u0001\u001f\u007f control",
	"\U0010FFFF\uFFFD\uFFFE", "𝔘𝔫𝔦", "1e400", "NaN", "true", "{}", "[]", "0123", "\\u0000",
}

var valueStories = []story{
	{"text comes back byte for byte", func(w *world) {
		w.conversation("c", "ana", "ben")
		for i, body := range awkward {
			a := w.msg("ana", "c", impart.CMID(fmt.Sprint(i)), body, func(a *store.Append) {
				a.Type = "t" + fmt.Sprint(i)
				a.Ext = fmt.Appendf(nil, `{"of":%q , "raw" : "\u2028%d"}`+"\n", "𝔘", i)
			})
			w.stores(a)
			page := w.after("ben", "c", impart.Seq(i))
			w.sameText(a, page.Events[0])
			r, err := w.Store.Range(w.ctx, "c", impart.Seq(i+1), impart.Seq(i+1), 1)
			w.must(err)
			w.sameText(a, r.Events[0])
		}
	}},
	{"large values come back whole", func(w *world) {
		w.conversation("c", "ana")
		random := rand.New(rand.NewPCG(1, 2))
		ext := []byte(`{"x":"` + strings.Repeat("é", (impart.MaxExt-8)/2) + `"}`)
		for i, size := range []int{64<<10 - 1, 64 << 10, 64<<10 + 1, 1<<20 - 1, 1 << 20} {
			body := make([]byte, size)
			for j := range body {
				body[j] = byte(32 + random.IntN(95))
			}
			a := w.msg("ana", "c", impart.CMID(fmt.Sprint(i)), string(body), func(a *store.Append) { a.Ext = ext })
			w.stores(a)
			w.sameText(a, w.after("ana", "c", impart.Seq(i)).Events[0])
		}
	}},
	{"a text that the store cannot keep fails alone", func(w *world) {
		w.conversation("c", "ana")
		for i, body := range []string{"a\x00b", "\x00", "\xff\xfe", "half \xf0\x9d\x94", "\xed\xa0\x80"} {
			key := func(what string) impart.CMID { return impart.CMID(fmt.Sprintf("%s-%d", what, i)) }
			items := []store.Append{
				w.msg("ana", "c", key("before"), "before"), w.msg("ana", "c", key("odd"), body), w.msg("ana", "c", key("after"), "after"),
			}
			head := w.after("ana", "c", 0).Head
			out := w.append(items...)
			if out[0].Err != nil || out[2].Err != nil {
				w.t.Fatalf("the neighbours of %q got %v and %v", body, out[0].Err, out[2].Err)
			}
			kept := []string{"before", body, "after"}
			if out[1].Err != nil {
				w.wantCode(impart.BadFrame, out[1].Err)
				kept = []string{"before", "after"}
			}
			var got []string
			for _, ev := range w.after("ana", "c", head).Events {
				got = append(got, ev.Body)
			}
			same(w, fmt.Sprintf("bodies around %q", body), got, kept)
		}
	}},
	{"milliseconds are kept", func(w *world) {
		w.conversation("c", "ana")
		for i, at := range []impart.Millis{
			1, 999, 1000, 1_700_000_000_001, 1_700_000_000_999, 4_102_444_800_007, 253_402_300_799_999, impart.MaxNumber,
		} {
			a := w.msg("ana", "c", impart.CMID(fmt.Sprint(i)), "x", func(a *store.Append) { a.At = at })
			first := w.stores(a)[0]
			same(w, "at on the page", w.after("ana", "c", impart.Seq(i)).Events[0].At, at)
			w.repeats(first, a)
		}
	}},
	{"a join keeps the id and time of its stamp", func(w *world) {
		w.conversation("c", "ana")
		_, _, err := w.Store.PutMember(w.ctx, "c", impart.Member{User: "ben"}, impart.System,
			func() (impart.MID, impart.Millis) { return "mid-of-join", 1_700_000_000_007 })
		w.must(err)
		got := w.after("ana", "c", 0).Events[0]
		want := impart.Event{
			Conv: "c", Seq: 1, Kind: impart.KindJoin, MID: "mid-of-join", Sender: impart.System,
			User: "ben", By: impart.System, At: 1_700_000_000_007, Type: got.Type,
		}
		same(w, "join", got, want)
	}},
	{"counters are kept up to the highest number", func(w *world) {
		w.hello("ana", "phone", "x", counter(impart.MaxNumber))
		d := w.hello("ana", "phone", "x", counter(impart.MaxNumber))
		if d.Fresh || d.N != impart.MaxNumber {
			w.t.Errorf("got %+v, want n %d and nothing fresh", d, int64(impart.MaxNumber))
		}
		if d = w.hello("ana", "phone", "x", counter(impart.MaxNumber-1)); !d.Fresh {
			w.t.Errorf("n went back by one and nobody noticed: %+v", d)
		}
	}},
	{"results belong to the caller", func(w *world) {
		w.conversation("c", "ana")
		a := w.msg("ana", "c", "k", "hi", func(a *store.Append) { a.Ext = []byte(`{"n":1}`) })
		ext := string(a.Ext)
		w.stores(a)
		a.Ext[1] = '!' // what was handed in is the caller's again
		events := w.after("ana", "c", 0).Events
		same(w, "ext", string(events[0].Ext), ext)
		events[0].Ext[1] = '?' // and so is what was handed out
		same(w, "ext", string(w.after("ana", "c", 0).Events[0].Ext), ext)
	}},
}

// sameText compares what was sent with what came back, without printing a
// megabyte when they differ.
func (w *world) sameText(a store.Append, ev impart.Event) {
	w.t.Helper()
	if a.Body != ev.Body {
		if len(a.Body) > 1000 {
			w.t.Errorf("a body of %d bytes came back changed, with %d bytes", len(a.Body), len(ev.Body))
		} else {
			w.t.Errorf("body (-sent +got):\n%s", cmp.Diff(a.Body, ev.Body))
		}
	}
	if string(a.Ext) != string(ev.Ext) || a.Type != ev.Type {
		w.t.Errorf("type %q, ext %q came back as %q, %q", a.Type, a.Ext, ev.Type, ev.Ext)
	}
}
