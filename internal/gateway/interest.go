package gateway

import (
	"context"
	"time"

	"github.com/impart-im/impart"
)

// Of telling a selective bus whom this gateway has readers for.
const (
	// listenWithin is how long a connection waits for the bus to hear what concerns it.
	// What is published until it does is found by the sweep.
	listenWithin = 300 * time.Millisecond
	maxNarrow    = 16_384 // connections that wait to be looked up
)

// listen makes the bus hear all that may concern the connection: everything at first,
// and only its user's conversations once they have been read. It comes before any
// head is read, so that nothing falls between the two.
func (c *conn) listen(ctx context.Context) {
	if c.g.selective == nil {
		return
	}
	c.mu.Lock()
	first := c.interest == nil && c.stage == open
	if first {
		c.interest = c.g.selective.Interest()
	}
	interest := c.interest
	c.mu.Unlock()
	if !first {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, listenWithin)
	defer cancel()
	interest.AddAll(ctx)
	c.g.narrowSoon(c)
}

// narrowSoon has the conversations of a connection's user read. Where too many wait,
// the connection hears everything, until it is compared in full and comes here again.
func (g *Gateway) narrowSoon(c *conn) {
	if g.selective == nil {
		return
	}
	select {
	case g.narrows <- c:
	default:
	}
}

// narrowLoop reads which conversations connections are about, one after the other:
// when many come at once, hearing everything meanwhile costs less than reading it all.
func (g *Gateway) narrowLoop() {
	for {
		select {
		case <-g.ctx.Done():
			return
		case c := <-g.narrows:
			g.narrow(c)
		}
	}
}

func (g *Gateway) narrow(c *conn) {
	c.mu.Lock()
	interest, session, live := c.interest, c.session, c.stage == open && !c.narrow
	c.mu.Unlock()
	if !live {
		return
	}
	ctx, cancel := context.WithTimeout(g.ctx, g.cfg.RequestTime)
	defer cancel()
	page, err := g.cfg.Logic.Lagging(ctx, session, true, maxSubbed)
	if err != nil || page.More {
		return // it goes on hearing everything
	}
	convs := make([]impart.ConvID, len(page.Convs))
	for i := range page.Convs {
		convs[i] = page.Convs[i].Conv
	}
	interest.Add(ctx, convs...)
	interest.Narrow()
	c.mu.Lock()
	c.narrow = true
	c.mu.Unlock()
}

// needs makes the bus hear a conversation that the connection turned out to be about,
// as when its user has just become a member. Whoever needs it already asks in vain,
// and cheaply.
func (c *conn) needs(conv impart.ConvID) {
	if c.g.selective == nil {
		return
	}
	c.mu.Lock()
	interest := c.interest
	c.mu.Unlock()
	if interest != nil {
		interest.Add(c.g.atOnce, conv)
	}
}

// forgo ends what the connection made the bus hear.
func (c *conn) forgo() {
	c.mu.Lock()
	interest := c.interest
	c.mu.Unlock()
	if interest != nil {
		interest.End()
	}
}
