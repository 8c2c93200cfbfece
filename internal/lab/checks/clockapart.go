package checks

import (
	"context"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/lab"
	"github.com/impart-im/impart/internal/lab/probe"
	"github.com/impart-im/impart/internal/lab/rows"
)

// The clocks of clock-steps-apart.
const (
	gatewayClock = "clock-gateways"
	logicClock   = "clock-logic"
)

// timesApart is a deployment in which some have a clock of their own, and who is there.
type timesApart struct {
	b       *lab.Bench
	logic   *lab.Server // its clock is logicClock
	home    *lab.Server // a gateway whose clock, as its logic node's, nobody sets
	away    *lab.Server // a gateway by gatewayClock, which asks logic
	sender  *lab.Device // at home
	reader  *lab.Device // away: acknowledges at once
	owes    *lab.Device // away: lets the others wait for its acknowledgements
	sweptTo *lab.Device // at a gateway as away whose pushes are lost
	sent    int
	hints   time.Duration // the slowest
}

func newTimesApart(b *lab.Bench) *timesApart {
	b.SetClockOf(gatewayClock, 0)
	b.SetClockOf(logicClock, 3*time.Hour) // from before it first looks for what is too old
	steady := b.Logic("IM_RETENTION=30m")
	t := &timesApart{b: b, logic: steady.Logic("IM_RETENTION=30m", b.ClockOf(logicClock))}
	t.home = b.Gateway([]*lab.Server{steady}, "IM_SWEEP_MS=2500")
	mine := []string{b.ClockOf(gatewayClock), b.Tokens(), "IM_SWEEP_MS=2500"}
	t.away = b.Gateway([]*lab.Server{t.logic}, append(mine, "IM_RETRY_MS=1500,1500,1500,1500")...)
	lossy := b.Gateway([]*lab.Server{t.logic}, append(mine, "IM_FAULT=gw.push:drop", "IM_RETRY_MS=60000,60000,60000,60000")...)
	t.home.PutConv(ab, ana, ben)
	day := time.Now().Add(24 * time.Hour)
	t.sender = b.Device(t.home.Addr(), ana)
	t.reader, t.owes, t.sweptTo = t.device(day, t.away, "d-1"), t.device(day, t.away, "d-2"), t.device(day, lossy, "d-3")
	return t
}

func (t *timesApart) device(ends time.Time, at *lab.Server, device impart.DeviceID) *lab.Device {
	d, err := t.b.TryDeviceUntil(ends, at.Addr(), ben, device)
	t.b.Must(err)
	return d
}

// step lets a message flow, and sets a clock while its acknowledgement is owed.
func (t *timesApart) step(clock string, by time.Duration) {
	b := t.b
	t.sent++
	sent := t.sender.MustSend(ab, cmid("m", t.sent), "hi")
	off := time.Since(time.UnixMilli(int64(sent.At)))
	b.Wants(off.Abs() < time.Minute, "message %d has a time that is %v off", t.sent, off)
	isIt := probe.IsEvent(ab, sent.Seq)
	_, came := t.owes.Hears(3*time.Second, isIt)
	b.Wants(came, "message %d was not pushed within 3 s", t.sent)
	before := t.owes.Count(again(sent.Seq))
	b.SetClockOf(clock, by)
	began := time.Now()
	tried := b.Eventually(5*time.Second, func() bool { return t.owes.Count(again(sent.Seq)) > before })
	b.Wants(tried, "nobody tried again within 5 s after %s was set by %v", clock, by)
	hinted := b.Eventually(stepBound-time.Since(began), func() bool { return hintedTo(t.sweptTo, sent.Seq) })
	b.Wants(hinted, "nothing was hinted within %v after %s was set by %v", stepBound, clock, by)
	t.hints = max(t.hints, time.Since(began))
	t.settle(sent.Seq)
	// And now by the clock that was set.
	t.sent++
	answer, err := t.reader.Send(ab, cmid("m", t.sent), "hi")
	b.Wants(err == nil, "no answer after %s was set by %v: %v", clock, by, err)
	if err == nil {
		_, came := t.sender.Hears(3*time.Second, probe.IsEvent(ab, answer.Seq))
		b.Wants(came, "message %d was not pushed within 3 s", t.sent)
		t.settle(answer.Seq)
	}
}

// settle acknowledges what is owed: attempts that have come to their end begin anew
// only then.
func (t *timesApart) settle(seq impart.Seq) {
	for _, d := range []*lab.Device{t.sender, t.reader, t.owes, t.sweptTo} {
		_, err := d.Ack(ab, seq)
		t.b.Wants(err == nil, "%s cannot acknowledge %d: %v", d.Name, seq, err)
	}
}

// again matches what is sent to a device that owes an acknowledgement: the event, or a
// hint in its place.
func again(seq impart.Seq) func(frame) bool {
	return func(f frame) bool {
		return probe.IsEvent(ab, seq)(f) || probe.IsHint(ab, "retry")(f) && hintHead(f) >= seq
	}
}

func clockStepsApart(ctx context.Context, b *lab.Bench) {
	t := newTimesApart(b)
	epoch := t.home.Epoch()
	t.step(logicClock, 3*time.Hour)
	// The first look for what is too old comes 10 s after the start.
	const refused = "nothing is removed"
	b.Eventually(15*time.Second, func() bool { return t.logic.Logged(refused) > 0 || int(t.home.Total()) < t.sent })
	ends, turnedAway := time.Now().Add(time.Hour), 0
	for _, s := range []struct {
		clock string
		by    time.Duration
	}{{gatewayClock, 3 * time.Hour}, {gatewayClock, -2 * time.Hour}, {logicClock, -2 * time.Hour}, {gatewayClock, 0}, {logicClock, 0}} {
		t.step(s.clock, s.by)
		if s.clock == gatewayClock {
			d, err := b.TryDeviceUntil(ends, t.away.Addr(), ana, "d-new")
			turnedAway += count(impart.CodeOf(err) == impart.Unauthenticated)
			b.Wants(s.by > time.Hour || err == nil, "a token is refused that ends in an hour, with the clock at %v: %v", s.by, err)
			if err == nil {
				d.Close()
			}
		}
	}
	b.Bit("tokens that had ended by a gateway's clock", turnedAway)
	if b.Sabotage.Honest() {
		b.Bit("times that a logic node removed nothing because of its clock", t.logic.Logged(refused))
	}
	n := int(t.home.Total())
	b.Wants(n == t.sent, "%d row(s) for %d message(s)", n, t.sent)
	var span time.Duration
	t.home.Look(func(db *rows.DB) (err error) { span, err = db.Span(ctx); return err })
	b.Wants(span < time.Hour, "the times of events span %v", span)
	b.Wants(t.home.Epoch() == epoch, "the epoch was %d and is %d", epoch, t.home.Epoch())
	checkLog(ctx, b, t.home)
	b.Saw("6 steps, %d row(s) for %d message(s), the times of events span %v, what was to come is there %d ms after a step at the latest", n, t.sent, span.Round(time.Second), t.hints.Milliseconds())
}
