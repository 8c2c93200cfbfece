package checks

import (
	"context"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/lab"
	"github.com/impart-im/impart/internal/lab/probe"
	"github.com/impart-im/impart/internal/lab/rows"
)

func clocks() []lab.Check {
	return []lab.Check{
		{
			ID: "clock-steps", Invariant: "D5", Only: onSQLite,
			What:   "The server's clock is set forward and back by hours; each time a message is stored whose wake-up and reply are lost, so that only the sweep can find it.",
			Expect: "a hint within 6 s, two sweeps, after each step",
			Twins:  []lab.Sabotage{lab.Planted(fault.ClockSetBack, "the store follows the machine's clock back")},
			Run:    clockSteps,
		},
		{
			ID: "clock-steps-apart", Invariant: "D5", Only: onServers, Shape: lab.Apart, Limit: 2 * time.Minute,
			What:   "The clock of the gateways alone, or of one of two logic nodes alone, is set forward and back by hours while messages flow and one is owed an acknowledgement; messages older than 30 minutes are to be removed. Pushes of one gateway are lost.",
			Expect: "after each step a push within 3 s, another attempt within 5 s, a hint from the sweep within 6 s; messages have the database's time, none is removed, the epoch stays; a connection with a token that has not ended stays",
			Twins: []lab.Sabotage{
				lab.Planted(fault.CleansByOwnClock, "what is too old to be kept is so by the node's own clock"),
				lab.Planted(fault.DueByOwnClock, "a retry is due by the gateway's own clock"),
			},
			Run: clockStepsApart,
		},
	}
}

// stepBound is more than two sweeps, each of which is longer than what a sweep
// looks back by.
const stepBound = 6 * time.Second

func clockSteps(ctx context.Context, b *lab.Bench) {
	b.SetClock(0)
	s := b.Serve(b.Clock(), "IM_FAULT=api.after_send_commit:error", "IM_SWEEP_MS=2500", "IM_RETRY_MS=60000,60000,60000,60000")
	s.PutConv(ab, ana, ben)
	phone, other := b.Device(s.Addr(), ana), b.Device(s.Addr(), ben)
	steps := []time.Duration{0, time.Hour, -2 * time.Hour, 3 * time.Hour}
	found := 0
	for i, by := range steps {
		b.SetClock(by) // just after a sweep: the message is stored before the next one
		head := impart.Seq(i + 1)
		_, err := phone.Send(ab, cmid("m", i), "hi") // UNAVAILABLE: nobody learns of it
		b.Wants(err != nil, "the reply came although it was to be lost")
		began := time.Now()
		hinted := b.Eventually(stepBound, func() bool { return hintedTo(other, head) })
		b.Wants(hinted, "nothing was hinted within %v after the clock was set by %v", stepBound, by)
		if !hinted {
			break
		}
		b.Note("judge", "found", "%v after the clock was set by %v", time.Since(began).Round(time.Millisecond), by)
		found++
		_, err = other.Ack(ab, other.Sync(ab, head-1).Through)
		b.Must(err)
	}
	b.Bit("wake-ups lost", s.Struck(fault.AfterCommit))
	var span time.Duration
	s.Look(func(db *rows.DB) (err error) { span, err = db.Span(ctx); return err })
	b.Bit("steps seen in the times of events", count(span > time.Hour))
	b.Saw("%d of %d found by the sweep, the times of events span %v", found, len(steps), span)
}

// hintedTo reports whether the device was told of this head.
func hintedTo(d *lab.Device, head impart.Seq) bool {
	return d.Count(func(f frame) bool { return probe.IsHint(ab, "")(f) && hintHead(f) >= head }) > 0
}
