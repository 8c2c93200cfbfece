package bus_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
)

var oneOfEach = []bus.Message{
	{Kind: bus.Wake, Conv: "c 𝔘:'\"\\", From: 3, Head: impart.MaxNumber, Members: 4},
	{Kind: bus.Wake, Conv: "c", From: 1, Head: 2, Members: 5, Everyone: true},
	{Kind: bus.Receipt, Conv: "c", User: "ana ", Device: "phone", Session: 1 << 40, Delivered: 7, Read: 5, Epoch: 1_700_000_000_000},
	{Kind: bus.Receipt, Conv: "c", User: "ana"},
	{Kind: bus.Typing, Conv: "c", User: "ana"},
	{Kind: bus.Takeover, User: "ana", Device: "phone", Session: 9},
	{Kind: bus.Revoked, User: "ben", At: 1_700_000_000_123},
	{Kind: bus.Revoked, User: "cy"},
	{Kind: bus.EpochRaised, Epoch: 2},
	{Kind: bus.Missed},
}

func TestAPayloadSaysWhatWasPutIn(t *testing.T) {
	payload, rest := bus.AppendPayload(nil, "node-1", oneOfEach...)
	if len(rest) != 0 {
		t.Fatalf("%d messages did not fit", len(rest))
	}
	origin, got, err := bus.ParsePayload(string(payload))
	if origin != "node-1" || err != nil {
		t.Errorf("from %q, %v", origin, err)
	}
	if diff := cmp.Diff(oneOfEach, got); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	if origin, got, err := bus.ParsePayload("1\tnode-2"); origin != "node-2" || got != nil || err != nil {
		t.Errorf("an empty payload is %q, %v, %v", origin, got, err)
	}
}

// The form is shared by nodes of different versions, so it may not change unseen.
func TestThePayloadStaysAsItIs(t *testing.T) {
	const want = "1\tnode\nw\tc\t3\t1i\t2\nw\tc\t3\t1i\t0\t1\nr\tc\tana\tphone\t9\t7\t5\t1\nt\tc\tana\no\tana\tphone\t9\nx\tben\trs\ne\t2\nm"
	payload, _ := bus.AppendPayload(nil, "node",
		bus.Message{Kind: bus.Wake, Conv: "c", From: 3, Head: 54, Members: 2},
		bus.Message{Kind: bus.Wake, Conv: "c", From: 3, Head: 54, Everyone: true},
		bus.Message{Kind: bus.Receipt, Conv: "c", User: "ana", Device: "phone", Session: 9, Delivered: 7, Read: 5, Epoch: 1},
		bus.Message{Kind: bus.Typing, Conv: "c", User: "ana"},
		bus.Message{Kind: bus.Takeover, User: "ana", Device: "phone", Session: 9},
		bus.Message{Kind: bus.Revoked, User: "ben", At: 1000},
		bus.Message{Kind: bus.EpochRaised, Epoch: 2},
		bus.Message{Kind: bus.Missed})
	if string(payload) != want {
		t.Errorf("the payload is %q, it was %q", payload, want)
	}
}

func TestAnOlderNodeUnderstandsWhatItKnows(t *testing.T) {
	_, got, err := bus.ParsePayload("1\tnode\tmore\nz\tnew\t1\nt\tc\tana\tlater addition\n\ne\t2")
	want := []bus.Message{{Kind: bus.Typing, Conv: "c", User: "ana"}, {Kind: bus.EpochRaised, Epoch: 2}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v; read (-want +got):\n%s", err, diff)
	}
	for _, payload := range []string{"", "1", "2\tnode\ne\t2", "1\tnode\ne\t-", "1\tnode\nw\tc\t1", "1\tnode\ne\tzzzzzzzzzzzzzzzz"} {
		if _, _, err := bus.ParsePayload(payload); !errors.Is(err, bus.ErrPayload) {
			t.Errorf("%q is read: %v", payload, err)
		}
	}
}

func TestManyMessagesFillSeveralPayloads(t *testing.T) {
	long := strings.Repeat("x", impart.MaxID)
	var all []bus.Message
	for n := range 300 {
		all = append(all, bus.Message{
			Kind: bus.Receipt, Conv: impart.ConvID(long), User: impart.UserID(long), Device: impart.DeviceID(long),
			Session: impart.MaxNumber, Delivered: impart.MaxNumber, Read: impart.Seq(n), Epoch: impart.MaxNumber,
		})
	}
	var got []bus.Message
	payloads := 0
	for rest := all; len(rest) > 0; payloads++ {
		var payload []byte
		payload, rest = bus.AppendPayload(payload, long, rest...)
		if len(payload) > bus.MaxPayload {
			t.Fatalf("a payload of %d bytes", len(payload))
		}
		_, messages, err := bus.ParsePayload(string(payload))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, messages...)
	}
	if diff := cmp.Diff(all, got); diff != "" || payloads < 10 || payloads > 30 {
		t.Errorf("%d payloads (-want +got):\n%s", payloads, diff)
	}
}

func TestWhatNoIdHoldsIsLeftOut(t *testing.T) {
	for _, text := range []string{"a\tb", "a\nb", "a\x00", "\xff", strings.Repeat("x", impart.MaxID+1)} {
		payload, rest := bus.AppendPayload(nil, "n", bus.Message{Kind: bus.Typing, Conv: impart.ConvID(text), User: "ana"}, bus.Message{Kind: bus.Missed})
		if want := "1\tn\nm"; string(payload) != want || len(rest) != 0 {
			t.Errorf("%q makes %q", text, payload)
		}
	}
}

func FuzzPayload(f *testing.F) {
	payload, _ := bus.AppendPayload(nil, "node", oneOfEach...)
	f.Add(string(payload))
	for _, seed := range []string{"", "1\t", "1\tn\nw\tc\t1\t2\t3", "1\tn\nq\t\t\n\nm", "1\tn\nx\tben\t-1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		origin, messages, err := bus.ParsePayload(payload)
		if err != nil {
			if origin != "" || messages != nil {
				t.Fatalf("an error with %q, %v", origin, messages)
			}
			return
		}
		var again []bus.Message
		for rest := messages; len(rest) > 0; {
			var part []byte
			part, rest = bus.AppendPayload(nil, "node", rest...)
			if len(part) > bus.MaxPayload || !utf8.Valid(part) {
				t.Fatalf("a payload that no database takes: %d bytes, %q", len(part), part)
			}
			_, read, err := bus.ParsePayload(string(part))
			if err != nil {
				t.Fatalf("what was written cannot be read: %v", err)
			}
			again = append(again, read...)
		}
		// Only what no id can hold may be lost on the way.
		k := 0
		for _, m := range messages {
			if k < len(again) && m == again[k] {
				k++
			} else if fits(m) {
				t.Fatalf("%s was lost", fmt.Sprint(m))
			}
		}
	})
}

func fits(m bus.Message) bool {
	for _, text := range []string{string(m.Conv), string(m.User), string(m.Device)} {
		if len(text) > impart.MaxID || !utf8.ValidString(text) || strings.ContainsAny(text, "\x00") {
			return false
		}
	}
	return true
}

func BenchmarkPayload(b *testing.B) {
	var messages []bus.Message
	for n := range 100 {
		messages = append(messages, bus.Message{Kind: bus.Wake, Conv: impart.ConvID(fmt.Sprint("conversation-", n)), From: 1000, Head: 1001, Members: 3})
	}
	var payload []byte
	b.ReportAllocs()
	for b.Loop() {
		payload, _ = bus.AppendPayload(payload[:0], "0123456789ab", messages...)
		if _, got, err := bus.ParsePayload(string(payload)); err != nil || len(got) == 0 {
			b.Fatal(err)
		}
	}
}
