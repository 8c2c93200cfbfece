package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/impart-im/impart/wire"
)

// flights are the messages of one sender that wait for their answers, with the
// time at which each was due.
type flights struct {
	slots chan struct{} // one is taken by each send and given back by its answer; nil: no bound

	mu  sync.Mutex // guards due
	due map[int64]time.Time
}

func (f *flights) add(n int64, due time.Time) {
	f.mu.Lock()
	f.due[n] = due
	f.mu.Unlock()
}

// get looks at one; false if it is not there.
func (f *flights) get(n int64) (due time.Time, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	due, ok = f.due[n]
	return due, ok
}

// take removes one; false if it is not there.
func (f *flights) take(n int64) (due time.Time, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	due, ok = f.due[n]
	delete(f.due, n)
	if ok && f.slots != nil {
		<-f.slots
	}
	return due, ok
}

func (f *flights) empty() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.due) == 0
}

// openLoop sends at a fixed rate, whatever is answered.
func (b *sendBench) openLoop(ctx context.Context, rate float64) (Run, error) {
	before := b.counters(ctx, b.server)
	m, late := newMeter(), newRecorder()
	stop := b.yard.control(ctx)
	run, err := b.window(ctx, window{name: fmt.Sprintf("%.0f sends a second", rate), unit: "sends", of: b.load.Duration, grace: lateAnswer}, m, func(ctx context.Context) error {
		return b.crowd.open(ctx, b.crowd.senders, rate, b.load.Duration, late, func(due time.Time) { m.finish(time.Since(due)) })
	})
	run.Loop, run.Of = Open, "a send, from when it was due to its answer"
	run.add("due a second", rate, "/s")
	commit, failed := stop()
	run.meanwhile(late, commit)
	b.crowd.refused.describe(&run)
	b.counters(ctx, b.server).since(before).describe(&run)
	return run, errors.Join(err, failed)
}

// open runs an open loop over some senders for d; finish gets the time at which
// each answered message was due. It returns when every answer has come, or none
// has for [lateAnswer].
func (c *crowd) open(ctx context.Context, senders []*sender, rate float64, d time.Duration, late *recorder, finish func(due time.Time)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	start := time.Now()
	var group sync.WaitGroup
	for i, plan := range schedules(start, rate, len(senders)) {
		s, f := senders[i], &flights{due: map[int64]time.Time{}}
		written := make(chan struct{}) // closed when nothing more is sent
		group.Go(func() {
			defer close(written)
			err := plan.keep(ctx, start.Add(d), func(due time.Time) error {
				late.record(time.Since(due))
				n := s.next
				s.next++
				f.add(n, due)
				c.ledger.unanswered.Add(1)
				return s.write(c.frame(s, n))
			})
			if err != nil {
				cancel(err)
			}
			_ = s.nc.SetReadDeadline(time.Now().Add(lateAnswer))
			// The reader ends with the answer to this, which comes after it has nothing to wait for.
			_ = s.write(&wire.Ping{RID: "end"})
		})
		group.Go(func() {
			if err := c.collect(ctx, s, f, written, finish); err != nil {
				cancel(fmt.Errorf("sender %d: %w", s.index, err))
			}
			_ = s.nc.SetReadDeadline(time.Time{})
		})
	}
	group.Wait()
	return failure(ctx)
}

// collect reads answers until the last one has come.
func (c *crowd) collect(ctx context.Context, s *sender, f *flights, written <-chan struct{}, finish func(due time.Time)) error {
	ended := false
	for !ended || !f.empty() {
		got, err := s.conn.next()
		if err != nil {
			return err
		}
		switch g := got.(type) {
		case *wire.Pong:
			<-written
			ended = true
		case *wire.Sent:
			n, err := strconv.ParseInt(g.RID, 10, 64)
			due, known := f.take(n)
			if err != nil || !known {
				return fmt.Errorf("an answer to %q, which was not asked or is answered already", g.RID)
			}
			finish(due)
			c.ledger.unanswered.Add(-1)
			if err := c.answered(s, n, &g.Sent); err != nil {
				return err
			}
		case *wire.ErrorFrame:
			if err := c.again(ctx, s, g); err != nil {
				return err
			}
		}
	}
	return nil
}

// again repeats a message that was refused for now; its due time stays.
func (c *crowd) again(ctx context.Context, s *sender, g *wire.ErrorFrame) error {
	if err := c.refused.take(g); err != nil {
		return err
	}
	n, err := strconv.ParseInt(g.RID, 10, 64)
	if err != nil {
		return fmt.Errorf("an error to %q, which was not asked: %w", g.RID, g.Err)
	}
	frame := c.frame(s, n)
	time.AfterFunc(max(g.Err.RetryAfter, 10*time.Millisecond), func() { _ = s.write(frame) })
	return nil
}
