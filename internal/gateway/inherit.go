package gateway

import (
	"context"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/pending"
	"github.com/impart-im/impart/wire"
)

// Of taking over what other gateways have left.
const (
	inheritEvery = time.Second
	inheritLimit = 500
)

// inheritLoop takes over flows of gateways that have died. Their devices connect
// again and find what they lack by themselves; where one is here already, it is told
// at once instead of by the next sweep.
func (g *Gateway) inheritLoop(heir pending.Heir) {
	tick := time.NewTicker(inheritEvery)
	defer tick.Stop()
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-tick.C:
		}
		for more := true; more; {
			ctx, cancel := context.WithTimeout(g.ctx, g.cfg.RequestTime)
			flows, err := heir.Inherit(ctx, inheritLimit)
			g.note(err)
			if err := g.adopt(ctx, flows); err != nil && g.ctx.Err() == nil {
				g.log.Warn("flows of a gateway that is gone were taken over and not looked at; the sweep makes up for it", "flows", len(flows), "err", err)
			}
			cancel()
			more = len(flows) == inheritLimit
		}
	}
}

// adopt looks where the devices of flows are now. One that is connected here and lags
// is told so, and its flow becomes one of this connection, with new attempts; all
// other flows are dropped, as the pull carries them (hole 13).
func (g *Gateway) adopt(ctx context.Context, flows []pending.Entry) error {
	var asks []ask
	for i := range flows {
		for _, c := range g.conns.of(flows[i].User) {
			if c.isOf(flows[i].User, flows[i].Device) && c.live() {
				asks = append(asks, ask{c, flows[i].Conv, 0})
			}
		}
	}
	if len(asks) == 0 {
		return nil
	}
	if err := g.askLags(ctx, asks); err != nil {
		return err
	}
	now := time.Now()
	var entries []pending.Entry
	var heads []impart.Seq
	lagging := asks[:0]
	for _, a := range asks {
		if entry, lags := a.c.adopts(a.conv, now); lags {
			entries, heads, lagging = append(entries, entry), append(heads, entry.Seq), append(lagging, a)
		}
	}
	if len(entries) == 0 {
		return nil
	}
	g.note(g.cfg.Pending.Register(ctx, entries...))
	for i, a := range lagging {
		a.c.hint(a.conv, heads[i], wire.WhyRetry)
	}
	return nil
}

// adopts gives the entry of a flow that lags and has attempts left.
func (c *conn) adopts(conv impart.ConvID, now time.Time) (entry pending.Entry, lags bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.flows[conv]
	if f == nil || !f.lags() || f.spent || c.stage != open || f.attempts >= pending.Attempts {
		return entry, false
	}
	f.attempts++
	f.since, f.retried = now, true
	return pending.Entry{Key: c.key(conv), Seq: f.head, Ladder: c.rtt.ladder(c.g.cfg.Ladder)}, true
}
