package gateway

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/impart-im/impart/wire"
)

// Reconnects after a drain are spread over this much time per connection,
// within bounds, so that clients do not return together.
const (
	spreadPerConn = 2 * time.Millisecond
	minSpread     = time.Second
	maxSpread     = 30 * time.Second
)

// spread is a random time up to d, and never nothing.
func spread(d time.Duration) time.Duration { return d/10 + rand.N(d) }

// Drain takes no more connections or requests, lets what is in flight finish,
// says bye to every client, and returns when all connections are closed or ctx
// ends, in which case the rest is cut by Close.
func (g *Gateway) Drain(ctx context.Context) error {
	g.conns.shut()
	conns := g.conns.all()
	window := min(max(time.Duration(len(conns))*spreadPerConn, minSpread), maxSpread)
	g.log.Info("draining", "connections", len(conns), "spread_ms", window.Milliseconds())
	var byes sync.WaitGroup
	for _, c := range conns {
		byes.Go(func() {
			c.quiet(ctx)
			c.bye(wire.ByeDrain, spread(window))
		})
	}
	byes.Wait()
	if err := ctx.Err(); err != nil {
		return err // something in flight may have been given up, also where its client has left by now
	}
	select {
	case <-g.conns.gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// quiet reads no more requests and waits until those in flight are answered, or
// ctx ends.
func (c *conn) quiet(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.room.Broadcast()
	})
	defer stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quieting = true
	for c.inflight > 0 && c.stage < leaving && ctx.Err() == nil {
		c.room.Wait()
	}
}
