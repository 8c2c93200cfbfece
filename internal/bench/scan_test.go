package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

// TestScanReadsWhatTheWireWrites holds the short cut against the codec.
func TestScanReadsWhatTheWireWrites(t *testing.T) {
	for _, seq := range []impart.Seq{1, 9, 10, 1<<53 - 1} {
		for _, stamp := range []time.Duration{0, 1, 90 * time.Minute} {
			ev := &impart.Event{Conv: "bench-x-c-0001", Seq: seq, Kind: impart.KindMsg, MID: "m", Sender: "u", CMID: "x-1-1", Type: impart.DefaultType, Body: stamped(stamp, 150), At: 5}
			if len(ev.Body) != 150 {
				t.Fatalf("a body of %d bytes", len(ev.Body))
			}
			gotSeq, gotStamp, ok := scanEvent(wire.Event{Event: ev, Epoch: 1}.Append(nil))
			if !ok || gotSeq != seq || gotStamp != stamp {
				t.Errorf("%d, %v comes back as %d, %v, %v", seq, stamp, gotSeq, gotStamp, ok)
			}
		}
	}
}

func TestScanLeavesOthersToTheCodec(t *testing.T) {
	event := string(wire.Event{Event: &impart.Event{Conv: "c", Seq: 1, Kind: impart.KindMsg, MID: "m", Body: stamped(1, 20)}, Epoch: 1}.Append(nil))
	for _, text := range []string{
		"", "{}", `{"t":"pong"}`, event[:40], strings.Replace(event, stamped(1, 20), "hello", 1),
		strings.Replace(event, `"body":"0`, `"body":"g`, 1), strings.Replace(event, `"seq":1`, `"seq":x`, 1),
	} {
		if seq, _, ok := scanEvent([]byte(text)); ok {
			t.Errorf("%.60s is read as seq %d", text, seq)
		}
	}
}
