package blackbox

// The cases of dead links and load, with gateways and logic nodes apart and a Redis.

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/impart"
	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// Disconnected with 50 unacknowledged, back at once at the other gateway: they come in under a second and not after the
// retry timer.
func TestCase29_BackAtOnceAtAnotherGateway(t *testing.T) {
	w, _ := onApart(t, 2, 2, rarely...)
	backAtOnce(t, w)
}

// A group of 500 at 200 messages a second, with one reader at a gateway that never reads: the memory of the gateway and of
// the logic node is bounded, and nobody else is affected.
func TestCase38_StuckReaderAtAGateway(t *testing.T) {
	w, logic := onApart(t, 2, 1, "IM_SWEEP_MS=500")
	members := []string{"ana", "stuck"}
	for i := range 498 {
		members = append(members, fmt.Sprint("m", i))
	}
	conv := w.conv("group", members...)
	ana := w.onlineAt(0, "ana", "phone")
	readers := []*rawclient.Device{}
	for i, m := range members[2:6] {
		readers = append(readers, w.deviceAt(w.at(i%2), m, "phone"))
		readers[i].Start()
	}
	stuck, err := rawclient.DialSocket(w.nodes[1].Addr(), nil, 2048)
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Close()
	for _, frame := range []F{w.hello("stuck", "phone", nil), {"t": "sub"}} {
		if err := stuck.Text(mustJSON(t, frame)); err != nil {
			t.Fatal(err)
		}
	}
	body := strings.Repeat("x", 60_000)
	n := rounds(300, 800)
	base := []int64{w.nodes[1].RSS(t), logic[0].RSS(t)}
	began := time.Now()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for i := range n {
		<-tick.C
		ana.post(F{"t": "send", "conv": conv, "cmid": fmt.Sprint("k", i), "body": body})
	}
	caughtUp(t, bulk, conv, int64(n), readers...)
	t.Logf("%d messages to %d readers in %v", n, len(readers), time.Since(began))
	for i, p := range []*impart.Server{w.nodes[1], logic[0]} {
		grown := p.PeakRSS(t) - base[i]
		t.Logf("the %s grew by %d MiB", []string{"gateway", "logic node"}[i], grown>>20)
		if grown > []int64{32 << 20, 48 << 20}[i]+int64(n*len(body)/4) {
			t.Errorf("that is too much of the %d MiB that were sent", n*len(body)>>20)
		}
	}
	if dropped, _ := w.nodes[1].Metric(t, "im_push_dropped_total", ""); dropped == 0 {
		t.Error("no push to the stuck reader was dropped: it has read, or all of them are kept")
	}
	w.std(conv, "m99", readers...)
	if events, head := w.loginAt(w.nodes[0].Addr(), "stuck", "phone", nil).log(conv, 0); head != int64(n) || len(events) != n {
		t.Errorf("the stuck one finds %d of %d events when it is back", len(events), n)
	}
}
