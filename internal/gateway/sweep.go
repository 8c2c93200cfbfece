package gateway

import (
	"context"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/wire"
)

// Bounds of one sweep.
const (
	maxLagQueries = 1000 // a read of the store
	maxHints      = 256  // a connection
	maxHintPause  = time.Minute
	// freshness is how long after a push the sweep leaves a flow alone, so that it
	// does not hint what is just being acknowledged.
	freshness = 250 * time.Millisecond
)

// sweepLoop finds devices that lag without anybody noticing (D5, hole 11).
func (g *Gateway) sweepLoop() {
	tick := time.NewTicker(g.cfg.Sweep)
	defer tick.Stop()
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-tick.C:
		case <-g.sweepIn:
		}
		if fault.Planted(fault.NoSweep) {
			continue
		}
		ctx, cancel := context.WithTimeout(g.ctx, g.cfg.RequestTime)
		err := g.sweep(ctx)
		cancel()
		if err != nil && g.ctx.Err() == nil {
			g.metrics.sweepFailed.Inc()
			g.log.Warn("sweep failed; the next one covers its time too", "err", err)
		}
	}
}

// sweepSoon starts a sweep now.
func (g *Gateway) sweepSoon() {
	select {
	case g.sweepIn <- struct{}{}:
	default: // one is waiting already
	}
}

// sweep compares the heads of conversations written since the last sweep with
// the cursors that are known here, asks the store about those that are not, and
// hints every laggard. Cost follows the write rate, not the number of devices.
func (g *Gateway) sweep(ctx context.Context) error {
	started := time.Now()
	written, err := g.cfg.Logic.Written(ctx, g.since)
	if err != nil {
		return err
	}
	g.resume(written.Epoch)
	var asks []ask
	for _, w := range written.Convs {
		if w.Audience == nil {
			continue
		}
		for _, t := range g.conns.among(w.Audience) {
			t.c.needs(w.Conv)
			if t.c.mustAsk(w) {
				asks = append(asks, ask{t.c, w.Conv, w.Head})
			}
		}
	}
	if err := g.askLags(ctx, asks); err != nil {
		return err
	}
	if err := g.hintLaggards(ctx); err != nil {
		return err
	}
	g.since = written.Next
	g.checkConns(ctx)
	g.metrics.sweepSeconds.Observe(time.Since(started).Seconds())
	return nil
}

// hintLaggards hints every device that lags. The store is asked first, so that
// no hint is sent for a cursor that moved on another road (HTTP).
func (g *Gateway) hintLaggards(ctx context.Context) error {
	var due []ask
	now := time.Now()
	for _, c := range g.conns.all() {
		if c.live() {
			due = append(due, c.dueHints(now)...)
		}
	}
	if err := g.askLags(ctx, due); err != nil {
		return err
	}
	for _, a := range due {
		if head, lags := a.c.laggard(a.conv, now); lags {
			a.c.hint(a.conv, head, wire.WhySweep)
		}
	}
	return nil
}

// ask is a connection whose place in a conversation the store is to tell.
type ask struct {
	c    *conn
	conv impart.ConvID
	head impart.Seq // of the conversation; 0: as the flow has it
}

// mustAsk reports whether nothing is known here that settles the question. A
// push that went out left a flow that reaches the head.
func (c *conn) mustAsk(w impart.WrittenConv) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.subscribed || c.stage != open {
		return false
	}
	f := c.flows[w.Conv]
	return f == nil || max(f.head, f.checked) < w.Head
}

// askLags reads where the asked devices stand.
func (g *Gateway) askLags(ctx context.Context, asks []ask) error {
	for len(asks) > 0 {
		n := min(len(asks), maxLagQueries)
		queries := make([]impart.LagQuery, n)
		for i, a := range asks[:n] {
			queries[i] = impart.LagQuery{Session: a.c.session, Conv: a.conv}
		}
		epoch := g.Epoch()
		lags, err := g.cfg.Logic.Lags(ctx, queries)
		if err != nil {
			return err
		}
		g.metrics.sweepAsked.Add(float64(n))
		now := time.Now()
		for i, a := range asks[:n] {
			a.c.learn(a, lags[i], epoch, now)
		}
		asks = asks[n:]
	}
	return nil
}

// learn notes what the store said of one device, in the given epoch.
func (c *conn) learn(a ask, lag impart.Lag, epoch impart.Epoch, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stage != open || c.g.Epoch() != epoch {
		return
	}
	f := c.flow(a.conv)
	if f == nil {
		return
	}
	known := f.head
	if f.delivered != unknown && lag.Delivered > f.delivered { // it moved on another road
		f.attempts, f.spent = 0, false
	}
	f.raise(lag.Delivered+1, lag.Head, now)
	f.delivered = max(f.delivered, lag.Delivered)
	f.checked = max(f.checked, a.head)
	if f.lags() && f.head > known {
		f.since = time.Time{} // whoever should have pushed it did not: hint now
	}
}

// dueHints lists the laggards to hint now, and drops flows that caught up a
// while ago.
func (c *conn) dueHints(now time.Time) []ask {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused {
		return nil
	}
	young := min(max(freshness, c.rtt.timeout()), c.g.cfg.Sweep/4)
	var due []ask
	for conv, f := range c.flows {
		switch {
		case !f.lags():
			// The windows of sweeps overlap: what is forgotten at once is asked again.
			if now.Sub(f.since) > 3*c.g.cfg.Sweep {
				delete(c.flows, conv)
			}
		case now.Sub(f.since) >= young && !now.Before(f.nextHint) && len(due) < maxHints:
			due = append(due, ask{c, conv, 0})
		}
	}
	if len(c.flows) == 0 {
		c.flows = nil
	}
	return due
}

// laggard reports whether the device lags in conv, and plans its next hint: a
// device that shows to be alive after a hint and does not react is hinted at
// growing intervals (hole 14); one that is silent, at each sweep.
func (c *conn) laggard(conv impart.ConvID, now time.Time) (head impart.Seq, lags bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.flows[conv]
	if f == nil || !f.lags() || c.stage != open {
		return 0, false
	}
	heard := c.arrivals.Load()
	if f.heardAt != 0 && heard != f.heardAt {
		f.pause = min(max(2*f.pause, 2*c.g.cfg.Sweep), maxHintPause)
		f.nextHint = now.Add(f.pause)
	}
	f.heardAt, f.retried = heard, true
	c.ping() // its pong tells mute from gone
	return f.head, true
}
