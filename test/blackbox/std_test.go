package blackbox

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// device makes a correct client that connects to the server, wherever it is at the time.
func (w *world) device(name, device string) *rawclient.Device {
	return w.deviceAt(w.addr, name, device)
}

// deviceAt makes a correct client that dials what address gives. It is stopped at the end of the test.
func (w *world) deviceAt(address func() string, name, device string) *rawclient.Device {
	return w.deviceWith(rawclient.DeviceOptions{Device: device, Address: address}, name)
}

// hasty makes a correct client that soon makes a request again that was not answered, also when the connection lives.
func (w *world) hasty(address func() string, name, device string) *rawclient.Device {
	return w.deviceWith(rawclient.DeviceOptions{Device: device, Address: address, ResendAfter: 50 * time.Millisecond}, name)
}

func (w *world) deviceWith(o rawclient.DeviceOptions, name string) *rawclient.Device {
	o.User, o.Install, o.Token = w.user(name), "i1", "dev:"+w.user(name)
	d := rawclient.NewDevice(o)
	w.t.Cleanup(d.Stop)
	return d
}

// settled waits until the devices' outboxes are empty.
func settled(t testing.TB, within time.Duration, devices ...*rawclient.Device) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for _, d := range devices {
		if err := d.AwaitSettled(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// caughtUp waits until the devices have stored and acknowledged everything up to seq.
func caughtUp(t testing.TB, within time.Duration, conv string, seq int64, devices ...*rawclient.Device) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for _, d := range devices {
		if err := d.AwaitCursor(ctx, conv, seq); err != nil {
			t.Fatal(err)
		}
	}
}

// std is the outcome most cases must have: every device syncs to the head; seqs are 1..head with no hole, each mid once,
// the same on all devices, and every `sent` that any of them ever saw is there with the same seq, mid and body. It gives
// the log.
func (w *world) std(conv, reader string, devices ...*rawclient.Device) []rawclient.Event {
	w.t.Helper()
	settled(w.t, bulk, devices...)
	truth, head := w.login(reader, "std", nil).log(conv, 0)
	caughtUp(w.t, bulk, conv, head, devices...)
	check := rawclient.Checker{Conv: conv, Head: head, Truth: truth, Devices: map[string][]rawclient.Event{}}
	for _, d := range devices {
		check.Devices[d.Name()] = d.Log(conv)
		check.Receipts = append(check.Receipts, d.Receipts()...)
		if failed := d.Failed(); len(failed) > 0 {
			w.t.Errorf("%s: messages were refused for good: %v", d.Name(), failed)
		}
	}
	if found := check.Check(); len(found) > 0 {
		w.t.Fatalf("the log, the devices and the senders disagree:\n  %s", strings.Join(found, "\n  "))
	}
	return truth
}

// bodies is the text of the messages of a log, in order.
func bodies(events []rawclient.Event) []string {
	var out []string
	for _, ev := range events {
		if ev.Kind == "msg" {
			out = append(out, ev.Body)
		}
	}
	return out
}

func testContext(t testing.TB, within time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), within)
}

// inOrder wants the posted messages m0, m1, … in a log, each at its place.
func inOrder(t *testing.T, log []rawclient.Event, posted int) {
	t.Helper()
	if len(log) != posted {
		t.Errorf("%d rows for %d messages", len(log), posted)
	}
	for i, ev := range log {
		if ev.Body != fmt.Sprint("m", i) {
			t.Fatalf("seq %d is %q: the order of sending is lost", ev.Seq, ev.Body)
		}
	}
}
