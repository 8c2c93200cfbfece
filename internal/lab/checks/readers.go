package checks

import (
	"context"
	"strings"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/lab"
	"github.com/impart-im/impart/internal/lab/link"
	"github.com/impart-im/impart/internal/lab/probe"
	"github.com/impart-im/impart/wire"
)

func readers() []lab.Check {
	return []lab.Check{
		{
			ID: "silent-reader", Invariant: "D10",
			What:   "A device reads and never acknowledges, beside one that does.",
			Expect: "at most 4 attempts, then hints at growing intervals; the other device is not disturbed",
			Twins:  []lab.Sabotage{lab.Planted(fault.RetriesForEver, "retries do not stop")},
			Run:    silentReader,
		},
		{
			ID: "slow-reader", Invariant: "D15",
			What:   "A device reads next to nothing while 24 MB are sent to its group; then its network is good again.",
			Expect: "pushes to it are dropped and replaced by one overflow hint, little memory is taken, the other device is served at once, and the slow one ends complete",
			Twins:  []lab.Sabotage{lab.Planted(fault.QueueUnbounded, "a slow reader's queue grows")},
			Run:    slowReader,
		},
	}
}

func silentReader(ctx context.Context, b *lab.Bench) {
	s := b.Serve("IM_RETRY_MS=100,200,300,400", "IM_SWEEP_MS=200")
	s.PutConv(ab, ana, ben, "u-mute")
	phone, other, mute := b.Device(s.Addr(), ana), b.Device(s.Addr(), ben), b.Device(s.Addr(), "u-mute")
	phone.MustSend(ab, "m-1", "hi")
	for _, d := range []*lab.Device{phone, other} {
		_, err := d.Ack(ab, 1)
		b.Must(err)
	}
	b.Pause(8 * time.Second)
	attempts := mute.Count(probe.IsEvent(ab, 1)) + mute.Count(isWhy(wire.WhyRetry))
	hints := mute.Count(isWhy(wire.WhySweep))
	b.Bit("retries", int(s.Metric("im_retry_total")))
	b.Wants(attempts <= 4, "%d attempt(s) at one flow instead of at most 4", attempts)
	// 200 ms apart they would be 40; the intervals double from 400 ms on.
	b.Wants(hints >= 1 && hints <= 10, "%d hint(s) in 8 s", hints)
	again := other.Count(isPush) + other.Count(probe.IsHint(ab, ""))
	b.Wants(again <= 2, "the device that had acknowledged was told %d time(s)", again)
	b.Saw("%d attempt(s), then %d hint(s) in 8 s; the other device was told %d time(s)", attempts, hints, again)
}

// Bounds of what a slow reader may cost.
const (
	slowRate   = 2_000    // bytes a second
	slowMemory = 12 << 20 // bytes that live in the server
)

func slowReader(ctx context.Context, b *lab.Bench) {
	s := b.Serve("IM_SWEEP_MS=500")
	s.PutConv(ab, ana, ben, "u-slow")
	net := b.Link(s)
	phone, other := b.Device(s.Addr(), ana), b.Device(s.Addr(), ben)
	slow := b.Device(net.Addr(), "u-slow")
	const messages, size = 1200, 20_000
	body := strings.Repeat("x", size)
	for i := range 50 { // the memory that sending takes anyway
		phone.MustSend(ab, cmid("warm", i), body)
	}
	net.Shape(link.Down, func(shape *link.Shape) { shape.Rate = slowRate })
	before := s.Heap()
	began := time.Now()
	for i := range messages {
		phone.MustSend(ab, cmid("m", i), body)
	}
	const head = impart.Seq(messages + 50)
	_, served := other.Hears(10*time.Second, probe.IsEvent(ab, head))
	took := time.Since(began)
	grown := s.Heap() - before
	dropped := int(s.Metric("im_push_dropped_total"))
	b.Bit("waits for bandwidth", net.Counts().Throttled)
	b.Wants(dropped > 0, "no push was dropped although its reader took nothing")
	b.Wants(grown < slowMemory, "the server holds %d KiB more memory", grown>>10)
	b.Wants(served, "the other device was not served")
	net.Heal()
	healed := time.Now()
	_, overflow := slow.Hears(10*time.Second, isWhy(wire.WhyOverflow))
	b.Wants(overflow, "no overflow hint followed")
	n := slow.Count(isWhy(wire.WhyOverflow))
	b.Wants(n <= 2, "%d overflow hint(s)", n)
	have := pullAll(b, slow)
	b.Wants(have == head, "the slow reader has %d of %d", have, head)
	b.Saw("%d push(es) dropped, %d overflow hint(s), %d KiB more memory, others served in %d ms, complete %d ms after the network healed",
		dropped, n, max(0, grown>>10), took.Milliseconds(), time.Since(healed).Milliseconds())
}

// pullAll pulls and acknowledges until nothing is lacking, and gives how far the
// device then is in ab.
func pullAll(b *lab.Bench, d *lab.Device) (have impart.Seq) {
	for {
		pulled := d.Pull()
		for _, page := range pulled.Convs {
			acked, err := d.Ack(page.Conv, page.Through)
			b.Must(err)
			if page.Conv == ab {
				have = acked
			}
		}
		if len(pulled.Convs) == 0 {
			return have
		}
	}
}
