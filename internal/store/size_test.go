package store_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
	"github.com/impart-im/impart/wire"
)

// A page is bounded by Size, so an event that turned out larger than its Size
// could make a reply frame that no client accepts.
func TestSizeIsNeverBelowTheEncodedEvent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ev := drawEvent(t)
		checkSize(t, &ev)
	})
}

// The hardest events are full of characters that escape to six bytes, with every
// field at its limit.
func TestSizeOfTheHardestEvents(t *testing.T) {
	hard := func(n int) string { return strings.Repeat("\x01", n) }
	quotes := func(n int) string { return strings.Repeat(`"`, n) }
	mid := impart.MID("0197f3c2-7b1e-7cc1-9d3e-5a4b3c2d1e0f")
	ev := impart.Event{
		Conv: impart.ConvID(quotes(impart.MaxID)), Seq: impart.MaxNumber, Kind: impart.KindMsg, MID: mid,
		Sender: impart.UserID(quotes(impart.MaxID)), CMID: impart.CMID(quotes(impart.MaxCMID)), At: impart.MaxNumber,
		Type: hard(impart.MaxType), Body: hard(65_536), Ext: []byte(`{"k":"` + strings.Repeat("x", impart.MaxExt-8) + `"}`),
	}
	checkSize(t, &ev)
	ev.Body, ev.Ext, ev.Recalled = "", nil, true
	checkSize(t, &ev)
	ev.Kind, ev.Target, ev.TargetMID, ev.Recalled = impart.KindRecall, impart.MaxNumber, mid, false
	checkSize(t, &ev)
	ev.Kind, ev.User, ev.By = impart.KindLeave, ev.Sender, ev.Sender
	checkSize(t, &ev)
	checkSize(t, &impart.Event{Kind: impart.KindMsg})
}

type failer interface {
	Fatalf(format string, args ...any)
}

// checkSize counts the comma between two events too.
func checkSize(t failer, ev *impart.Event) {
	if size, encoded := store.Size(ev), len(wire.AppendEventObject(nil, ev))+len(","); size < encoded {
		t.Fatalf("Size is %d, but a %s event takes %d bytes", size, ev.Kind, encoded)
	}
}

func drawEvent(t *rapid.T) impart.Event {
	kinds := []impart.Kind{impart.KindMsg, impart.KindRecall, impart.KindJoin, impart.KindLeave, impart.KindMeta}
	seq := rapid.Int64Range(0, impart.MaxNumber)
	mid := rapid.StringMatching(`[0-9a-f-]{36}`)
	runes := rapid.OneOf(rapid.Rune(), rapid.RuneFrom([]rune("\x01\x1f\n\"\\\u2028é消😀a")))
	text := func(maxLen int) string { return rapid.StringOfN(runes, 0, -1, maxLen).Draw(t, "text") }
	id := func(maxLen int) string {
		return rapid.StringOfN(rapid.RuneFrom([]rune("\"\\é消😀a/")), 1, -1, maxLen).Draw(t, "id")
	}
	return impart.Event{
		Conv: impart.ConvID(id(impart.MaxID)), Seq: impart.Seq(seq.Draw(t, "seq")), Kind: rapid.SampledFrom(kinds).Draw(t, "kind"),
		MID: impart.MID(mid.Draw(t, "mid")), Sender: impart.UserID(id(impart.MaxID)), CMID: impart.CMID(id(impart.MaxCMID)),
		Type: text(impart.MaxType), Body: text(1000), Ext: rapid.SampledFrom([][]byte{nil, []byte(`{}`), []byte(`{"a": "\n"}`)}).Draw(t, "ext"),
		At: impart.Millis(seq.Draw(t, "at")), Target: impart.Seq(seq.Draw(t, "target")), TargetMID: impart.MID(mid.Draw(t, "target_mid")),
		User: impart.UserID(id(impart.MaxID)), By: impart.UserID(id(impart.MaxID)), Recalled: rapid.Bool().Draw(t, "recalled"),
	}
}
