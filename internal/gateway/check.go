package gateway

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/wire"
)

// checkConns looks after some connections as a whole: each now and then, so that
// nothing that the sweep of heads and the bus missed stays missed. One that
// cannot be checked now is checked at the next sweep, and stops no other.
func (g *Gateway) checkConns(ctx context.Context) {
	deaf := g.deaf.Swap(false)
	now := time.Now()
	failed := 0
	last := g.checkSessions(ctx, deaf)
	if last != nil {
		failed++
		if deaf {
			g.deaf.Store(true)
		}
	}
	for _, c := range g.conns.all() {
		if !c.mustCheck(now) && !fault.Planted(fault.SweepAsksAll) {
			continue
		}
		if err := c.check(ctx); err != nil {
			failed, last = failed+1, err
		}
	}
	if failed == 0 || g.ctx.Err() != nil {
		return
	}
	g.metrics.checkFailed.Add(float64(failed))
	g.log.Warn("some connections could not be checked; the next sweep tries again", "connections", failed, "err", last)
}

// mustCheck reports whether it is the connection's turn, or there was more than
// fits.
func (c *conn) mustCheck(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stage == open && (now.After(c.checkAt) || c.more && len(c.flows) < maxFlows/2)
}

// check compares what the device lacks. It closes the connection if the rules know by
// now that its user is barred.
func (c *conn) check(ctx context.Context) error {
	err := c.g.cfg.Logic.Authorize(ctx, c.identity())
	switch {
	case impart.CodeOf(err) == impart.Unauthenticated:
		c.bye(wire.ByeRevoked, 0)
		return nil
	case err != nil:
		return err
	}
	if c.live() {
		c.g.narrowSoon(c)
		_, err = c.compare(ctx, false)
	}
	if err != nil && impart.CodeOf(err) != impart.StaleInstall { // the bye of a stale one is on its way
		return err
	}
	c.checked()
	return nil
}

// checked plans the next check.
func (c *conn) checked() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checkAt = c.g.nextCheck(time.Now())
}

// compare reads all that the device lacks (or, with all, every conversation).
func (c *conn) compare(ctx context.Context, all bool) (impart.LaggingPage, error) {
	page, err := c.g.cfg.Logic.Lagging(ctx, c.session, all, maxSubbed)
	if err != nil {
		return page, err
	}
	c.g.resume(page.Epoch)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stage != open || c.g.Epoch() != page.Epoch {
		return page, nil
	}
	c.more = page.More
	for _, state := range page.Convs {
		if state.Head <= state.Delivered {
			continue
		}
		if f := c.flow(state.Conv); f != nil {
			f.raise(state.Delivered+1, state.Head, time.Now())
			f.delivered = max(f.delivered, state.Delivered)
		}
	}
	return page, nil
}

// nextCheck spreads the checks of connections that came together.
func (g *Gateway) nextCheck(now time.Time) time.Time {
	return now.Add(g.cfg.Compare/2 + rand.N(g.cfg.Compare))
}
