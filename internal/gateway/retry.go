package gateway

import (
	"context"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/pending"
	"github.com/impart-im/impart/wire"
)

// Of the retry scan (seed 002).
const (
	scanEvery = 200 * time.Millisecond
	scanLimit = 200
)

// retryLoop tries unacknowledged flows again, a few times each. It only speeds
// things up: what it gives up or forgets, the sweep and the pull carry.
func (g *Gateway) retryLoop() {
	tick := time.NewTicker(min(scanEvery, g.cfg.Ladder[0]/2))
	defer tick.Stop()
	down := false // the set failed when last asked
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-tick.C:
		}
		for {
			ctx, cancel := context.WithTimeout(g.ctx, g.cfg.RequestTime)
			due, err := g.cfg.Pending.Due(ctx, scanLimit)
			g.note(err)
			down = g.tellPending(down, err)
			for _, entry := range due {
				g.retry(ctx, entry)
			}
			cancel()
			if len(due) < scanLimit {
				break
			}
		}
	}
}

// retry makes the next attempt at one flow: one re-push where exactly one event
// is missing, one hint otherwise. A flow that has caught up meanwhile, or whose
// connection is gone, is dropped.
func (g *Gateway) retry(ctx context.Context, entry pending.Entry) {
	c := g.conns.get(entry.Conn)
	if c == nil {
		g.note(g.cfg.Pending.Drop(ctx, entry.Conn))
		return
	}
	c.mu.Lock()
	f := c.flows[entry.Conv]
	if f == nil || !f.lags() || c.stage != open {
		c.mu.Unlock()
		g.note(g.cfg.Pending.Settle(ctx, entry.Key))
		return
	}
	f.retried = true
	if spent := f.attempt(); spent || entry.Attempts > pending.Attempts {
		f.spent = true
		c.mu.Unlock()
		if entry.Attempts <= pending.Attempts { // the set had forgotten some
			g.note(g.cfg.Pending.Settle(ctx, entry.Key))
		}
		g.metrics.deliverFailed.WithLabelValues("ack_timeout").Inc()
		return
	}
	paused, head, single := c.paused, f.head, f.head == f.first
	c.mu.Unlock()
	if paused {
		return // its socket is not being read: an acknowledgement may be waiting in it
	}
	g.metrics.retries.Inc()
	if !single || !g.pushAgain(ctx, c, entry.Conv, head) {
		c.hint(entry.Conv, head, wire.WhyRetry)
	}
}

// pushAgain pushes one event to one connection; false when it is not to be pushed.
func (g *Gateway) pushAgain(ctx context.Context, c *conn, conv impart.ConvID, seq impart.Seq) bool {
	part, err := g.cfg.Logic.Range(ctx, conv, seq, seq)
	if err != nil || len(part.Events) != 1 || part.Audience == nil {
		return false
	}
	frame := wire.Event{Event: &part.Events[0], Epoch: part.Epoch}
	mine, _, _ := target{c, part.Audience.Members[c.session.User]}.visible(part.Events, [][]byte{textFrame(frame.Append)})
	return len(mine) == 1 && c.pushEvents(mine)
}

// note counts an operation on the pending set that failed, which only makes things
// slower.
func (g *Gateway) note(err error) {
	if err != nil {
		g.metrics.pendingFailed.Inc()
	}
}

// tellPending logs when the pending set fails, and when it works again, and gives
// whether it is down. It judges by the scan alone, which is done by one goroutine and
// waits for the set: another operation may only note what is told later, or have
// nothing to ask, and so end well while the set is down.
func (g *Gateway) tellPending(down bool, err error) bool {
	switch {
	case g.ctx.Err() != nil:
		return down
	case err != nil && !down:
		g.log.Warn("the pending set failed; the sweep makes up for it", "err", err)
	case err == nil && down:
		g.log.Info("the pending set works again")
	}
	return err != nil
}

// hint says that the device is behind in a conversation.
func (c *conn) hint(conv impart.ConvID, head impart.Seq, why string) {
	frame := wire.Hint{Conv: conv, Head: head, Epoch: c.g.Epoch(), Why: why}
	if c.push([][]byte{textFrame(frame.Append)}) {
		c.g.metrics.hints.WithLabelValues(why).Inc()
	}
}
