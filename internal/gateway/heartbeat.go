package gateway

import (
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/wire"
)

// silence is how many heartbeats a connection may be silent before it is closed.
const silence = 2.5

// heartbeatLoop pings connections that have been silent, closes those that do
// not answer, and those whose token has ended.
func (g *Gateway) heartbeatLoop() {
	every := g.cfg.Heartbeat / 4
	tick := time.NewTicker(every)
	defer tick.Stop()
	waits := time.Now()
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-tick.C:
			g.beat(every, time.Since(waits))
			waits = time.Now()
		}
	}
}

// beat looks at every connection; it was due after every, and waited was waited. What
// is beyond twice that is time in which the process did not run: nobody was heard in
// it, whoever spoke, and nobody was asked.
func (g *Gateway) beat(every, waited time.Duration) {
	frozen := time.Duration(0)
	if waited > 2*every {
		frozen = waited - every
	}
	for _, c := range g.conns.all() {
		if frozen > 0 {
			c.forgive(frozen)
		}
		c.beat(every)
	}
}

// forgive takes time out of the silence of the peer. Who was heard meanwhile needs none.
func (c *conn) forgive(frozen time.Duration) {
	last, now := c.lastHeard.Load(), int64(time.Since(c.g.started))
	c.lastHeard.CompareAndSwap(last, min(last+int64(frozen), now))
}

func (c *conn) beat(every time.Duration) {
	c.mu.Lock()
	expired := c.expires != 0 && impart.Millis(fault.Wall(time.Now()).UnixMilli()) >= c.expires
	paused := c.paused
	c.mu.Unlock()
	// Not by the clock on the wall: set forward, it would make everybody silent.
	silent := time.Since(c.g.started) - time.Duration(c.lastHeard.Load())
	heartbeat := c.g.cfg.Heartbeat
	switch {
	case expired:
		c.bye(wire.ByeExpired, spread(time.Second))
	case paused:
		// The socket is not being read; its silence is ours.
	case silent > time.Duration(silence*float64(heartbeat)):
		c.bye(wire.ByeIdle, spread(time.Second))
	case silent >= heartbeat-every/2:
		c.ping()
	}
}
