package gateway

import (
	"context"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/wire"
)

// noteLoop passes receipts and typing on. They are ephemeral: what is lost here
// is in the store (receipts) or no longer true (typing).
func (g *Gateway) noteLoop() {
	for {
		select {
		case <-g.ctx.Done():
			return
		case m := <-g.notes:
			ctx, cancel := context.WithTimeout(g.ctx, g.cfg.RequestTime)
			if err := g.passOn(ctx, m); err != nil && g.ctx.Err() == nil {
				g.log.Debug("a receipt or typing note was not passed on", "conv", m.Conv, "err", err)
			}
			cancel()
		}
	}
}

func (g *Gateway) passOn(ctx context.Context, m bus.Message) error {
	audience, err := g.cfg.Logic.Audience(ctx, m.Conv)
	if err != nil {
		return err
	}
	var frame [][]byte
	for _, t := range g.conns.among(audience) {
		if !t.periods.Open() || !t.c.live() {
			continue
		}
		if m.Kind == bus.Typing {
			if t.c.session.User == m.User {
				continue
			}
			if frame == nil {
				frame = [][]byte{textFrame((&wire.TypingNote{Conv: m.Conv, User: m.User}).Append)}
			}
			t.c.push(frame)
			continue
		}
		if m.Session != 0 && t.c.session.User == m.User && t.c.session.Device == m.Device && t.c.session.Number == m.Session {
			continue // the connection that caused it
		}
		if err := g.passReceipt(ctx, m, t); err != nil {
			return err
		}
	}
	return nil
}

// passReceipt tells no more than the recipient's own head (D8). Whoever sees
// the whole log has the conversation's head; for the others a known flow may do,
// and otherwise the store is asked.
func (g *Gateway) passReceipt(ctx context.Context, m bus.Message, t target) error {
	receipt := wire.Receipt{Conv: m.Conv, User: m.User, Delivered: m.Delivered, Read: m.Read}
	if furthest := max(m.Delivered, m.Read); !t.periods.All() && t.c.knownHead(m.Conv) < furthest {
		lags, err := g.cfg.Logic.Lags(ctx, []impart.LagQuery{{Session: t.c.session, Conv: m.Conv}})
		if err != nil {
			return err
		}
		receipt.Delivered = min(receipt.Delivered, lags[0].Head)
		receipt.Read = min(receipt.Read, lags[0].Head)
	}
	t.c.push([][]byte{textFrame(receipt.Append)})
	return nil
}

// live reports whether the connection takes live delivery.
func (c *conn) live() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.subscribed && c.stage == open
}

// knownHead is the user's head as this connection's flow has it; 0 without one.
func (c *conn) knownHead(conv impart.ConvID) impart.Seq {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.flows[conv]; f != nil {
		return f.head
	}
	return 0
}
