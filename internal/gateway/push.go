package gateway

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/pending"
	"github.com/impart-im/impart/wire"
)

// pushers is how many conversations are pushed at the same time.
func pushers() int { return max(2, runtime.GOMAXPROCS(0)) }

func (g *Gateway) pushLoop() {
	for {
		conv, news, ok := g.wakes.next()
		if !ok {
			return
		}
		g.pushSpan(conv, news)
		g.wakes.done(conv)
	}
}

// pushSpan reads a committed part of a log, with who may see it now, and pushes
// it. What fails here is found by the sweep.
func (g *Gateway) pushSpan(conv impart.ConvID, news span) {
	if g.conns.idle() {
		return
	}
	for more := true; more && news.from <= news.head; {
		ctx, cancel := context.WithTimeout(g.ctx, g.cfg.RequestTime)
		next, err := g.pushPart(ctx, conv, news)
		cancel()
		if err != nil {
			g.log.Warn("push: reading events failed; the sweep makes up for it", "conv", conv, "err", err)
			g.metrics.pushFailed.Inc()
			return
		}
		more, news.from = next > news.from, next
	}
}

// pushPart pushes what one read gives, and returns where to go on; where news
// begins when there is nothing more to do. Nothing is read for a conversation of
// which nobody is here, once its members are known in the version of the wake-up.
func (g *Gateway) pushPart(ctx context.Context, conv impart.ConvID, news span) (next impart.Seq, err error) {
	from := news.from
	audience, err := g.cfg.Logic.Audience(ctx, conv, news.members)
	if err != nil || len(g.conns.among(audience)) == 0 {
		return from, err
	}
	part, err := g.cfg.Logic.Range(ctx, conv, from, news.head)
	if err != nil || len(part.Events) == 0 {
		return from, err
	}
	g.resume(part.Epoch)
	g.pushEvents(ctx, part)
	if !part.More {
		return from, nil
	}
	return part.Events[len(part.Events)-1].Seq + 1, nil
}

// delivery is what one connection is about to get.
type delivery struct {
	c      *conn
	frames [][]byte
}

// pushEvents sends events to every subscribed connection that may see them.
// Each event is encoded once. The retry is registered before the frames go out,
// so that no acknowledgement can overtake it (hole 3).
func (g *Gateway) pushEvents(ctx context.Context, part impart.Range) {
	if len(part.Events) == 0 || part.Audience == nil {
		return
	}
	targets := g.conns.among(part.Audience)
	if len(targets) == 0 {
		return
	}
	frames := make([][]byte, len(part.Events))
	for i := range part.Events {
		frame := wire.Event{Event: &part.Events[i], Epoch: part.Epoch}
		frames[i] = textFrame(frame.Append)
	}
	now := time.Now()
	deliveries := make([]delivery, 0, len(targets))
	entries := make([]pending.Entry, 0, len(targets))
	for _, t := range targets {
		t.c.needs(part.Audience.Conv)
		mine, first, last := t.visible(part.Events, frames)
		if last == 0 {
			continue
		}
		t.c.mu.Lock()
		// What was read before the epoch was raised is worth nothing after it.
		live := t.c.subscribed && t.c.stage == open && part.Epoch == g.Epoch()
		if live {
			if entry, register := t.c.pushing(part.Audience.Conv, first, last, now); register {
				entries = append(entries, entry)
			}
		}
		t.c.mu.Unlock()
		if live && len(mine) > 0 {
			deliveries = append(deliveries, delivery{t.c, mine})
		}
	}
	if len(entries) > 0 {
		g.note(g.cfg.Pending.Register(ctx, entries...))
	}
	for _, d := range deliveries {
		if d.c.pushEvents(d.frames) {
			g.metrics.pushes.Add(float64(len(d.frames)))
		}
		if fault.Planted(fault.AckOnPush) {
			g.cfg.Logic.Ack(ctx, impart.Ack{Session: d.c.session, Items: []impart.AckItem{{Conv: part.Audience.Conv, Seq: part.Events[len(part.Events)-1].Seq}}})
		}
	}
}

// visible picks the frames that the connection gets, and the first and the last
// seq that its user may see (0: none). The connection that sent an event gets no
// frame for it, but owes an acknowledgement all the same.
func (t target) visible(events []impart.Event, frames [][]byte) (mine [][]byte, first, last impart.Seq) {
	plain := true // every event goes to this connection
	for i := range events {
		ev := &events[i]
		sees := t.periods.Sees(ev) || fault.Planted(fault.SeesAllPush)
		if sees {
			last = ev.Seq
			if first == 0 {
				first = last
			}
		}
		own := ev.Device != "" && ev.Device == t.c.session.Device && ev.Sender == t.c.session.User
		switch {
		case sees && !own && plain:
			continue
		case plain:
			plain = false
			mine = slices.Clone(frames[:i])
		}
		if sees && !own {
			mine = append(mine, frames[i])
		}
	}
	if plain {
		return frames, first, last
	}
	return mine, first, last
}
