package gateway

import (
	"context"
	"slices"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/pending"
	"github.com/impart-im/impart/wire"
)

// handleAcks answers acks of one connection. Those of one epoch are merged into
// one request, and each frame gets its own answer.
func (c *conn) handleAcks(ctx context.Context, run []request) {
	for len(run) > 0 {
		first := run[0].frame.(*wire.Ack)
		ack := impart.Ack{Session: c.session, Epoch: first.Epoch}
		n := 0
		for n < len(run) {
			f := run[n].frame.(*wire.Ack)
			if n > 0 && (f.Epoch != first.Epoch || len(ack.Items)+len(f.Items) > impart.MaxLimit) {
				break
			}
			ack.Items = append(ack.Items, f.Items...)
			if f.N != nil && (ack.N == nil || *f.N > *ack.N) {
				ack.N = f.N
			}
			n++
		}
		epoch := c.g.Epoch()
		acked := c.g.cfg.Logic.Ack(ctx, ack)
		c.settle(ctx, epoch, acked)
		rest := acked
		for _, r := range run[:n] {
			f := r.frame.(*wire.Ack)
			c.answerAck(r.rid, f, rest[:len(f.Items):len(f.Items)])
			rest = rest[len(f.Items):]
		}
		if isStale(acked) {
			c.bye(wire.ByeSuperseded, 0)
			return
		}
		run = run[n:]
	}
}

// isStale reports whether the store knows a newer hello of the device. The bye
// that follows from it is mostly on its way already; where the bus has lost it,
// this one stands in.
func isStale(acked []impart.Acked) bool {
	return slices.ContainsFunc(acked, func(a impart.Acked) bool { return impart.CodeOf(a.Err) == impart.StaleInstall })
}

func (c *conn) answerAck(rid string, f *wire.Ack, acked []impart.Acked) {
	if err := wholeError(f, acked); err != nil {
		c.fail(rid, err)
		return
	}
	c.reply(&wire.Acked{RID: rid, Batch: f.Batch, Items: acked})
}

// wholeError is the error that refuses the frame as a whole: any in the single
// form; in the batch form one that is not about a conversation.
func wholeError(f *wire.Ack, acked []impart.Acked) error {
	for _, a := range acked {
		if a.Err == nil {
			continue
		}
		if !f.Batch {
			return a.Err
		}
		switch impart.CodeOf(a.Err) {
		case impart.StaleInstall, impart.EpochChanged, impart.Unavailable, impart.Overloaded, impart.RateLimited:
			return a.Err
		}
	}
	return nil
}

// settle tells flows and the pending set how far the device has come.
func (c *conn) settle(ctx context.Context, epoch impart.Epoch, acked []impart.Acked) {
	done, again := c.advanceAll(epoch, acked)
	if len(done) > 0 {
		c.g.note(c.g.cfg.Pending.Settle(ctx, done...))
	}
	if len(again) > 0 {
		c.g.note(c.g.cfg.Pending.Moved(ctx, again...))
	}
}

// advanceAll notes acknowledged cursors, which are of the given epoch, and sorts
// their flows into those that have caught up and those that have not.
func (c *conn) advanceAll(epoch impart.Epoch, acked []impart.Acked) (done []pending.Key, again []pending.Entry) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.g.Epoch() != epoch {
		return nil, nil
	}
	for _, a := range acked {
		if a.Err != nil {
			continue
		}
		switch what, entry := c.advance(a.Conv, a.Delivered, now); what {
		case settled:
			done = append(done, entry.Key)
		case moved:
			again = append(again, entry)
		}
	}
	return done, again
}
