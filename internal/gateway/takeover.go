package gateway

import (
	"cmp"
	"context"
	"slices"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

// maxSessionChecks is how many connections one sweep compares with the sessions in
// the store: one read, whatever the node holds.
const maxSessionChecks = 1000

// checkSessions closes connections whose device has said hello on another node, of
// which the bus should have told: the next ones in turn, or all of them. Without
// other nodes there is nothing to find.
func (g *Gateway) checkSessions(ctx context.Context, all bool) error {
	if !g.cfg.Shared {
		return nil
	}
	due := g.sessionsDue(all)
	for part := range slices.Chunk(due, maxSessionChecks) {
		sessions := make([]impart.Session, len(part))
		for i, c := range part {
			sessions[i] = c.bound()
		}
		superseded, err := g.cfg.Logic.Superseded(ctx, sessions)
		if err != nil {
			return err
		}
		for i, c := range part {
			if superseded[i] {
				c.bye(wire.ByeSuperseded, 0)
			}
		}
		g.checkedUpTo = part[len(part)-1].id
	}
	return nil
}

// sessionsDue are the connections to be compared now, in the order of their ids.
func (g *Gateway) sessionsDue(all bool) []*conn {
	open := slices.DeleteFunc(g.conns.all(), func(c *conn) bool { return c.bound().Number == 0 })
	slices.SortFunc(open, func(a, b *conn) int { return cmp.Compare(a.id, b.id) })
	if all || len(open) <= maxSessionChecks {
		return open
	}
	from, _ := slices.BinarySearchFunc(open, g.checkedUpTo+1, func(c *conn, id uint64) int { return cmp.Compare(c.id, id) })
	return slices.Concat(open[from:], open[:from])[:maxSessionChecks]
}

// bound is the connection's session; its number is 0 while it is not open.
func (c *conn) bound() impart.Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stage != open {
		return impart.Session{}
	}
	return c.session
}
