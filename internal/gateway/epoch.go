package gateway

import (
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

// resume takes note of the store's epoch. When it was raised, every connection is
// told that histories may have been rewritten, and what was known of its cursors
// is void. Retries of forgotten flows find that out by themselves.
func (g *Gateway) resume(epoch impart.Epoch) {
	for {
		old := g.epoch.Load()
		if int64(epoch) <= old {
			return
		}
		if g.epoch.CompareAndSwap(old, int64(epoch)) {
			break
		}
	}
	for _, c := range g.conns.all() {
		c.mu.Lock()
		c.flows, c.more = nil, false
		c.checkAt = g.nextCheck(time.Now())
		said := c.stage == open
		c.mu.Unlock()
		if said {
			c.hint("", 0, wire.WhyResume)
		}
	}
}
