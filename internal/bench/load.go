package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// held is what one window of the baseline did.
type held struct {
	due           float64 // messages a second that were due
	sends, pushes Run
	cursors       float64       // cursor writes a push
	sent          float64       // messages
	waiting       float64       // of them without an answer at the end of the window
	span          time.Duration // in which messages were due
	behind        int
	took          time.Duration // until all devices had everything
}

// Bounds of what counts as carried: nearly all that is due is sent, at the end no
// more waits than comes in half a second, and nobody waits longer than people do.
const (
	carriedShare = 0.98
	carriedWait  = 0.5  // seconds of what is due
	carriedP99   = 1000 // ms
)

// carried reports whether the server kept up.
func (h *held) carried() bool { return h.why() == h.fine() }

func (h *held) fine() string {
	return fmt.Sprintf("%.0f messages a second of %.0f due", h.rate(), h.due)
}

// rate is messages a second of the time in which they were due.
func (h *held) rate() float64 { return h.sent / h.span.Seconds() }

// why says what was not carried.
func (h *held) why() string {
	switch {
	case h.sent < carriedShare*h.due*h.span.Seconds()-burstMean:
		return fmt.Sprintf("only %.0f messages a second of %.0f due were sent: the bench itself did not get on", h.rate(), h.due)
	case h.waiting > carriedWait*h.due+burstMean:
		return fmt.Sprintf("%.0f messages waited for their answer when the time was over", h.waiting)
	case h.sends.Latency == nil || h.sends.Latency.P99 > carriedP99:
		return fmt.Sprintf("the slowest hundredth of the sends waited longer than %d ms", carriedP99)
	case h.behind > 0:
		return fmt.Sprintf("%d devices never had everything", h.behind)
	}
	return h.fine()
}

// window runs a multiple of the baseline, and waits until the devices have
// everything.
func (b *baseline) window(ctx context.Context, multiple float64, d time.Duration) (*held, error) {
	f := b.fleet
	f.sends, f.pushes, b.talk.late = newMeter(), newMeter(), newRecorder()
	h := &held{due: multiple * baselineSends}
	before, counted := b.counters(ctx, b.target), f.tally()
	stop := b.yard.control(ctx)
	pushes := &track{name: fmt.Sprintf("pushes at %s × the baseline", number(multiple)), unit: "pushes", m: f.pushes}
	run, err := b.Env.window(ctx, window{
		name: fmt.Sprintf("%s × the baseline", number(multiple)), unit: "sends", of: d, grace: lateAnswer, also: []*track{pushes},
	}, f.sends, func(ctx context.Context) error { return b.talk.run(ctx, h.due, d) })
	commit, failed := stop()
	if err = errors.Join(err, failed, f.broken()); err != nil {
		return nil, err
	}
	h.waiting = float64(f.ledger.unanswered.Load())
	h.sent, h.span = float64(f.sends.done.Load())+h.waiting, min(d, time.Duration(run.Seconds*float64(time.Second)))
	began := time.Now()
	h.behind = b.catchUp(ctx, f)
	h.took = time.Since(began)
	b.behind = h.behind
	h.sends, h.pushes = run, pushes.run(run.Seconds)
	h.sends.Loop, h.sends.Of = Open, "a send, from when it was due to its answer"
	h.pushes.Loop, h.pushes.Of = Open, "an event, from when its message was due until a device had it by push"
	// Answers that came after the window count too.
	h.sends.Latency, h.sends.Figures[0].Value = f.sends.lat.latency(), float64(f.sends.done.Load())
	h.sends.add("due a second", h.due, "/s")
	h.sends.meanwhile(b.talk.late, commit)
	f.refused.describe(&h.sends)
	b.describe(h, f.tally().since(counted), b.counters(ctx, b.target).since(before))
	return h, nil
}

// tally is what a fleet has counted, as numbers.
type tally struct{ frames, repeated, lost, synced, acks, hints, receipts int64 }

func (f *fleet) tally() tally {
	return tally{f.frames.Load(), f.repeated.Load(), f.lost.Load(), f.synced.Load(), f.acks.Load(), f.hints.Load(), f.receipts.Load()}
}

func (t tally) since(b tally) tally {
	return tally{t.frames - b.frames, t.repeated - b.repeated, t.lost - b.lost, t.synced - b.synced, t.acks - b.acks, t.hints - b.hints, t.receipts - b.receipts}
}

// describe adds what both sides have counted. The server's share of time is over
// the window and the catching up.
func (b *baseline) describe(h *held, t tally, c counters) {
	seconds := h.sends.Seconds
	p := &h.pushes
	p.Figures = nil
	p.add("event frames a second", float64(t.frames)/seconds, "/s")
	p.add("pushes lost by the devices on purpose", 100*float64(t.lost)/float64(max(t.frames, 1)), "%")
	p.add("delivered by sync, or once more", 100*float64(t.repeated+t.synced)/float64(max(t.frames, 1)), "%")
	p.add("acks a push", float64(t.acks)/float64(max(t.frames, 1)), "")
	p.add("receipts a second", float64(t.receipts)/seconds, "/s")
	p.add("hints", float64(t.hints), "")
	p.add("until every device had everything", h.took.Seconds()*1000, "ms")
	if c == nil {
		return
	}
	if pushed := c["im_push_total"]; pushed > 0 {
		h.cursors = c["im_cursors_moved_total"] / pushed
	}
	p.add("cursors moved a second", c["im_cursors_moved_total"]/seconds, "/s")
	p.add("pushes dropped by the server", c["im_push_dropped_total"], "")
	h.sends.Seconds += h.took.Seconds() // what was counted is of both
	c.describe(&h.sends)
	h.sends.Seconds = seconds
}
