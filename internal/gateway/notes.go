package gateway

import (
	"context"
	"slices"

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
	if g.conns.idle() {
		return nil
	}
	// Most notes of other nodes concern nobody here. An older audience tells that for
	// nothing, but may lack a newcomer whose join has not been heard of yet: they miss
	// a note, as they may. Who gets one is decided by the present audience (D8).
	audience, err := g.cfg.Logic.Audience(ctx, m.Conv, 1)
	if err != nil || len(g.conns.among(audience)) == 0 {
		return err
	}
	if audience, err = g.cfg.Logic.Audience(ctx, m.Conv, 0); err != nil {
		return err
	}
	targets := slices.DeleteFunc(g.conns.among(audience), func(t target) bool {
		return !t.periods.Open() || !t.c.live()
	})
	if m.Kind == bus.Typing {
		g.passTyping(m, targets)
		return nil
	}
	return g.passReceipt(ctx, m, targets)
}

// passTyping tells everybody but the user.
func (g *Gateway) passTyping(m bus.Message, targets []target) {
	frame := [][]byte{textFrame((&wire.TypingNote{Conv: m.Conv, User: m.User}).Append)}
	for _, t := range targets {
		if t.c.session.User != m.User {
			t.c.push(frame)
		}
	}
}

// passReceipt tells every connection but the one that caused it, and none more
// than its user's own head (D8). Whoever sees the whole log has the
// conversation's head; for the others a known flow may do, and otherwise the
// store is asked.
func (g *Gateway) passReceipt(ctx context.Context, m bus.Message, targets []target) error {
	g.resume(m.Epoch)
	if m.Epoch < g.Epoch() {
		return nil // its seqs are of a history that is no more
	}
	receipt := wire.Receipt{Conv: m.Conv, User: m.User, Delivered: m.Delivered, Read: m.Read}
	whole := [][]byte{textFrame(receipt.Append)}
	var short []target
	for _, t := range targets {
		switch s := t.c.session; {
		case m.Session != 0 && s.User == m.User && s.Device == m.Device && s.Number == m.Session:
		case t.periods.All() || t.c.knownHead(m.Conv) >= max(m.Delivered, m.Read):
			t.c.push(whole)
		default:
			short = append(short, t)
		}
	}
	if len(short) == 0 {
		return nil
	}
	queries := make([]impart.LagQuery, len(short))
	for i, t := range short {
		queries[i] = impart.LagQuery{Session: t.c.session, Conv: m.Conv}
	}
	lags, err := g.cfg.Logic.Lags(ctx, queries)
	if err != nil {
		return err
	}
	for i, t := range short {
		mine := receipt
		mine.Delivered, mine.Read = min(receipt.Delivered, lags[i].Head), min(receipt.Read, lags[i].Head)
		t.c.push([][]byte{textFrame(mine.Append)})
	}
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
