package gateway

import (
	"cmp"
	"context"
	"slices"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

// maxSessionChecks is how many connections one sweep compares with the store: one
// read, whatever the node holds.
const maxSessionChecks = 1000

// checkSessions closes connections of which the bus should have told that they no
// longer count, since the device has said hello on another node, or the user is barred:
// the next ones in turn, or all of them. It goes by the store: what the rules keep in
// memory is as old as what the bus brought last. Without other nodes nothing is found
// unless the bus says that it has missed something.
func (g *Gateway) checkSessions(ctx context.Context, all bool) error {
	if !g.cfg.Shared && !all {
		return nil
	}
	due := g.sessionsDue(all)
	for part := range slices.Chunk(due, maxSessionChecks) {
		queries := make([]impart.StandingQuery, len(part))
		for i, c := range part {
			queries[i] = impart.StandingQuery{Session: c.bound(), Issued: c.identity().Issued}
		}
		standings, err := g.cfg.Logic.Standings(ctx, queries)
		if err != nil {
			return err
		}
		for i, c := range part {
			switch standings[i] {
			case impart.Superseded:
				c.bye(wire.ByeSuperseded, 0)
			case impart.Barred:
				c.bye(wire.ByeRevoked, 0)
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
