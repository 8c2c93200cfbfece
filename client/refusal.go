package client

import (
	"fmt"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

// takeError goes by what was asked.
func (s *session) takeError(f *wire.ErrorFrame) error {
	r := s.answered(f.RID)
	refusal := f.Err
	switch refusal.Code {
	case impart.Unauthenticated:
		return fmt.Errorf("client: the server has refused the connection: %w", refusal)
	case impart.StaleInstall:
		s.staleAt = time.Now() // a bye follows, and says whether to return
		return nil
	case impart.EpochChanged:
		s.sawEpoch(refusal.Epoch)
	}
	if r == nil {
		s.c.cfg.Log.Warn("the server has refused a frame", "error", refusal)
		return nil
	}
	if r.late && r.kind != asksItem {
		return nil // it was given up, and asked for again where that makes sense
	}
	later := time.Now().Add(max(min(refusal.RetryAfter, maxLater), retryAfter))
	switch r.kind {
	case asksHello, asksSub:
		return &laterError{error: fmt.Errorf("client: the server has refused the connection: %w", refusal), after: min(refusal.RetryAfter, maxLater)}
	case asksPull:
		s.pulling = false
		s.rest(false)
		s.pullAt = latest(s.pullAt, later)
	case asksSync:
		s.syncRefused(r, f)
	case asksProbe:
		s.probeRefused(r, f)
	case asksAck:
		s.ackAt = later
		s.ackRefused(r, f)
	case asksRead:
		s.readRefused(r, f, later)
	case asksItem:
		s.itemRefused(r, f)
	case asksCall:
		r.call.done <- result{err: refusal}
	}
	return nil
}

// A request that was refused for the moment, or that did not help, goes out again
// after a pause that doubles from retryAfter to maxPause, or the one that the server
// names.
const (
	retryAfter = 200 * time.Millisecond
	maxPause   = 5 * time.Second
)

// longer is the pause after another one.
func longer(pause time.Duration) time.Duration { return min(max(2*pause, retryAfter), maxPause) }

// rest leaves a conversation alone for a while, for longer each time.
func (c *conv) rest(asked time.Duration) {
	c.pause = longer(c.pause)
	c.resume = time.Now().Add(max(c.pause, min(asked, maxLater)))
}

// rest puts the next pull off, unless the last one has helped.
func (s *session) rest(helped bool) {
	if helped {
		s.pullPause = 0
		return
	}
	s.pullPause = longer(s.pullPause)
	s.pullAt = latest(s.pullAt, time.Now().Add(s.pullPause))
}

// stuck reports whether a conversation has been refused for so long that the others
// no longer wait for it.
func (c *conv) stuck(at time.Time) bool { return at.Before(c.resume) && c.pause > time.Second }

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
