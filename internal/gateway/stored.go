package gateway

import (
	"context"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
)

// telling are rules of another process, of which this one hears by the bus alone what
// they have stored. While the bus is deaf, what is stored from here is known from its
// answer, so that live delivery between connections of one gateway does not wait for
// the sweep. Receipts and typing do without: they are ephemeral.
type telling struct {
	impart.Logic
	g *Gateway
}

// Send implements [impart.Log].
func (t telling) Send(ctx context.Context, sends []impart.Send) []impart.Sent {
	sents := t.Logic.Send(ctx, sends)
	t.g.stored(sents...)
	return sents
}

// Recall implements [impart.Log].
func (t telling) Recall(ctx context.Context, recall impart.Recall) (impart.Sent, error) {
	sent, err := t.Logic.Recall(ctx, recall)
	if err == nil {
		t.g.stored(sent)
	}
	return sent, err
}

// stored pushes what was stored from here as a wake-up would, unless there will be one:
// each costs a read.
func (g *Gateway) stored(sents ...impart.Sent) {
	if g.cfg.Bus.Health() == nil {
		return
	}
	for i := range sents {
		if sent := &sents[i]; sent.Err == nil {
			g.hear(bus.Message{Kind: bus.Wake, Conv: sent.Conv, From: sent.Seq, Head: sent.Seq})
		}
	}
}

// Rules are [Config.Logic] for whoever else in this process writes, as the HTTP API
// does: what is stored through them is pushed as what connections send.
func (g *Gateway) Rules() impart.Logic { return g.cfg.Logic }
