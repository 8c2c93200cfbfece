package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/wire"
)

// asks says what a request is for.
type asks int

const (
	asksHello asks = iota
	asksSub
	asksPull
	asksSync  // forward, to catch up
	asksProbe // forward, to find where histories agree
	asksAck
	asksRead
	asksItem // a send or a recall from the outbox
	asksPing
	asksCall // for the application
)

// request is a frame that wants a reply.
type request struct {
	kind  asks
	conv  *conv      // asksSync, asksProbe, asksRead
	after impart.Seq // asksSync
	probe *probe     // asksProbe
	want  impart.Seq // asksSync: what was known to be there
	acks  []*conv    // asksAck
	item  *Item      // asksItem
	call  *call      // asksCall
	due   time.Time
	asked time.Time
	late  bool // it was given up; its reply still counts if it is the answer to an item
}

// call is a request of the application that lives as long as its connection.
type call struct {
	frame wire.Frame
	done  chan result // of one place
}

type result struct {
	frame wire.ServerFrame
	err   error
}

func (r *request) drop(err error) {
	if r.call != nil {
		r.call.done <- result{err: err}
		r.call = nil
	}
}

// call sends a frame and waits for its reply; while there is no connection it
// waits for one. ErrOffline if the connection ended first.
func (c *Client) call(ctx context.Context, frame wire.Frame) (wire.ServerFrame, error) {
	asked := &call{frame: frame, done: make(chan result, 1)}
	select {
	case c.calls <- asked:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.ctx.Done():
		return nil, ErrClosed
	}
	select {
	case got := <-asked.done:
		return got.frame, got.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ask is a call whose reply has to be of a type.
func ask[reply wire.ServerFrame](ctx context.Context, c *Client, frame wire.Frame) (reply, error) {
	got, err := c.call(ctx, frame)
	fitting, fits := got.(reply)
	if err == nil && !fits {
		err = fmt.Errorf("client: the server has answered with a %T", got)
	}
	return fitting, err
}

// ask sends a frame and remembers what for.
func (s *session) ask(frame wire.Frame, r *request) {
	rid := s.nextRID()
	r.asked = time.Now()
	r.due = r.asked.Add(s.c.cfg.ReplyTimeout)
	s.requests[rid] = r
	s.waiting++
	s.send(wire.WithRID(frame, rid))
}

// answered takes the request that a reply belongs to; nil if there is none, or one
// that asks for something else. No kinds: a refusal, which can answer any.
func (s *session) answered(rid string, kinds ...asks) *request {
	r := s.requests[rid]
	if r == nil || len(kinds) > 0 && !slices.Contains(kinds, r.kind) {
		return nil
	}
	delete(s.requests, rid)
	if !r.late {
		s.waiting--
	}
	return r
}

// errSilent ends a connection that carries nothing any more.
var errSilent = errors.New("client: the server does not answer")

// maxLate bounds the replies that may be missing in one connection.
const maxLate = 1024

// giveUpLate looks for requests whose reply is overdue. If nothing at all has
// come since, the connection is dead; otherwise that reply was lost, and what it
// was for is asked again.
func (s *session) giveUpLate(at time.Time) error {
	if len(s.requests)-s.waiting > maxLate {
		return fmt.Errorf("%w most requests", errSilent)
	}
	for _, r := range s.requests {
		if r.late || at.Before(r.due) {
			continue
		}
		if !s.heardSince(r.asked) || r.kind == asksHello || r.kind == asksSub {
			return errSilent
		}
		r.late = true
		s.waiting--
		s.redo(r)
	}
	return nil
}

// redo makes good for a reply that was lost, or for a refusal that may be retried.
func (s *session) redo(r *request) {
	switch r.kind {
	case asksPull:
		s.pulling = false
	case asksSync:
		r.conv.syncing = false
		r.conv.rest(0)
	case asksProbe:
		r.probe.asked = false
		r.conv.rest(0)
	case asksAck:
		s.ackLost(r)
	case asksRead:
		r.conv.reading = false
		s.rereads = true
	case asksItem:
		if !fault.Planted(fault.ClientWaitsForEver) {
			s.lane(r.item.Conv).restart(time.Now())
		}
	case asksCall:
		r.drop(ErrOffline)
	}
}

// heardSince reports whether the server has shown life, by a frame or a ping.
func (s *session) heardSince(t time.Time) bool {
	return s.heard().After(t)
}
