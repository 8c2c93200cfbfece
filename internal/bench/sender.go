package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

// lateAnswer is how long after the end of a window an answer may still come.
const lateAnswer = 15 * time.Second

// sender is one connection that sends.
type sender struct {
	*conn
	index int
	next  int64 // the n of its next message
}

// crowd are the senders of a run, with what they have been answered.
type crowd struct {
	target  *Target
	ledger  *ledger
	senders []*sender
	body    string
	refused refusals
	rest    func() // ends what keepAlive has begun; nil before the first connect
}

// newCrowd makes conversations and connects senders, all of whom are members of
// each. The first sender is number first.
func (e *Env) newCrowd(ctx context.Context, t *Target, senders, convs, body int) (*crowd, error) {
	var users []impart.UserID
	for i := range senders {
		user, _, err := t.User(i)
		if err != nil {
			return nil, err
		}
		users = append(users, user)
	}
	ids := make([]impart.ConvID, convs)
	for i := range ids {
		ids[i] = e.conv(i)
	}
	c := &crowd{target: t, ledger: newLedger(e.Run(), ids), body: strings.Repeat("m", body)}
	err := each(ctx, 8, convs, func(i int) error { return t.PutConversation(ctx, ids[i], users) })
	if err != nil {
		return nil, err
	}
	for i := range senders {
		c.senders = append(c.senders, &sender{index: i})
	}
	if err := c.connect(ctx, t); err != nil {
		return nil, err
	}
	return c, nil
}

// connect signs all senders in, also again after the server was started anew.
func (c *crowd) connect(ctx context.Context, t *Target) error {
	c.close()
	c.target = t
	err := each(ctx, 16, len(c.senders), func(i int) error {
		connected, err := t.connect(ctx, i, "bench", false)
		if err == nil {
			c.senders[i].conn = connected
		}
		return err
	})
	if err != nil {
		c.close()
		return err
	}
	c.keepAlive()
	return nil
}

// keepAlive says for every connection, twice in a heartbeat, that it lives: senders
// answer pings only while they read, and wait for minutes while another server has its
// turn.
func (c *crowd) keepAlive() {
	stop := make(chan struct{})
	var done sync.WaitGroup
	c.rest = func() { close(stop); done.Wait() }
	done.Go(func() {
		tick := time.NewTicker(max(c.senders[0].heartbeat/2, 10*time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			for _, s := range c.senders {
				_ = s.pong(nil) // who uses it next finds out that it is dead
			}
		}
	})
}

func (c *crowd) close() {
	for _, s := range c.senders {
		if s.conn != nil {
			s.close()
		}
	}
	if c.rest != nil {
		c.rest()
		c.rest = nil
	}
}

// each runs do(0..n-1) in a few goroutines and returns the first error.
func each(ctx context.Context, goroutines, n int, do func(i int) error) error {
	var next atomic.Int64
	var failed error
	var once sync.Once
	var group sync.WaitGroup
	var stop atomic.Bool
	for range min(goroutines, n) {
		group.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n || stop.Load() {
					return
				}
				err := ctx.Err()
				if err == nil {
					err = do(i)
				}
				if err != nil {
					stop.Store(true)
					once.Do(func() { failed = err })
				}
			}
		})
	}
	group.Wait()
	return failed
}

// place is the conversation of a sender's n-th message: over time each sender
// writes to all of them.
func (c *crowd) place(s *sender, n int64) int {
	return int((int64(s.index) + n) % int64(len(c.ledger.convs)))
}

// frame is a message as a frame; its rid is n.
func (c *crowd) frame(s *sender, n int64) *wire.Send {
	return &wire.Send{
		RID: strconv.FormatInt(n, 10), Conv: c.ledger.convs[c.place(s, n)].id,
		CMID: c.ledger.cmid(message{int64(s.index), n}), Body: c.body,
	}
}

// answered notes the answer to a message.
func (c *crowd) answered(s *sender, n int64, sent *impart.Sent) error {
	return c.ledger.sent(c.place(s, n), c.ledger.cmid(message{int64(s.index), n}), sent.Seq, sent.MID)
}

// closed runs the closed loop of all senders until ctx ends.
func (c *crowd) closed(ctx context.Context, m *meter) error {
	return c.while(ctx, c.senders, m, func() bool { return true })
}

// while runs the closed loop until ctx ends or more is false.
func (c *crowd) while(ctx context.Context, senders []*sender, m *meter, more func() bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// A server that stops answering ends the window too, a while after its time.
	stop := c.deadline(ctx)
	defer stop()
	var group sync.WaitGroup
	for _, s := range senders {
		group.Go(func() {
			for ctx.Err() == nil && more() {
				start := time.Now()
				answered, err := c.one(ctx, s)
				if err != nil {
					cancel(fmt.Errorf("sender %d: %w", s.index, err))
					return
				}
				if answered {
					m.finish(time.Since(start))
				}
			}
		})
	}
	group.Wait()
	return failure(ctx)
}

// failure is why a context was cancelled, unless its time was up or the whole
// was interrupted.
func failure(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// deadline makes reads fail a while after ctx has ended, until stop is called.
func (c *crowd) deadline(ctx context.Context) (stop func()) {
	set := make(chan struct{})
	after := context.AfterFunc(ctx, func() {
		defer close(set)
		for _, s := range c.senders {
			_ = s.nc.SetReadDeadline(time.Now().Add(lateAnswer))
		}
	})
	return func() {
		if !after() {
			<-set
			for _, s := range c.senders {
				_ = s.nc.SetReadDeadline(time.Time{})
			}
		}
	}
}

// one sends the next message of s and waits for its answer, repeating it while
// it is refused for now; false if ctx ended before it was answered.
func (c *crowd) one(ctx context.Context, s *sender) (answered bool, err error) {
	n := s.next
	s.next++
	frame := c.frame(s, n)
	c.ledger.unanswered.Add(1) // until its answer comes
	for {
		if err := s.write(frame); err != nil {
			return false, err
		}
		got, err := s.answer()
		if err != nil {
			return false, err
		}
		switch f := got.(type) {
		case *wire.Sent:
			c.ledger.unanswered.Add(-1)
			return true, c.answered(s, n, &f.Sent)
		case *wire.ErrorFrame:
			if err := c.refused.take(f); err != nil || ctx.Err() != nil {
				return false, err
			}
			pause(ctx, f.Err.RetryAfter)
		}
	}
}

// answer reads frames until an answer.
func (s *sender) answer() (wire.ServerFrame, error) {
	for {
		got, err := s.conn.next()
		if err != nil {
			return nil, err
		}
		switch got.(type) {
		case *wire.Sent, *wire.ErrorFrame:
			return got, nil
		}
	}
}

// pause waits, at least a little, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(max(d, 10*time.Millisecond))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
