package memstore

import (
	"context"
	"fmt"
	"slices"
)

// job is one call that writes: n items, and what they do to the state.
type job struct {
	n     int
	apply func(*state)
	done  chan error // gets the outcome once the job's transaction has ended
}

// write runs apply in the next transaction, which it shares with whatever else
// has arrived by then. apply sees the committed state alone; all of the
// transaction becomes visible in one step.
func (s *Store) write(ctx context.Context, n int, apply func(*state)) error {
	if err := ctx.Err(); err != nil {
		s.giveUp(apply)
		return err
	}
	if err := s.closed(); err != nil {
		return err
	}
	j := &job{n: n, apply: apply, done: make(chan error, 1)}
	s.mu.Lock()
	s.waiting = append(s.waiting, j)
	s.mu.Unlock()
	select {
	case err := <-j.done:
		return err
	case <-ctx.Done():
		if s.withdraw(j) {
			return ctx.Err()
		}
		return <-j.done
	case <-s.turn:
		s.commitWaiting()
		s.turn <- struct{}{}
		return <-j.done // it was among those, or among those of the turn before
	}
}

// withdraw takes a job back that no transaction has taken yet.
func (s *Store) withdraw(j *job) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting, j)
	if i < 0 {
		return false
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	return true
}

// commitWaiting commits every job that waits, in one transaction, and tells each
// the outcome. The caller has the turn.
func (s *Store) commitWaiting() {
	s.mu.Lock()
	jobs := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	for shared := range slices.Chunk(jobs, s.most(len(jobs))) {
		err := s.closed()
		if err == nil {
			err = s.transact(shared)
		}
		for _, j := range shared {
			j.done <- err
		}
	}
}

// transact runs one transaction of all the jobs.
func (s *Store) transact(jobs []*job) error {
	items := 0
	for _, j := range jobs {
		items += j.n
	}
	apply := func(st *state) {
		for _, j := range jobs {
			j.apply(st)
		}
	}
	start := s.now()
	switch {
	case s.breaks[BreakSentBeforeCommit]:
		defer func() { go func() { _ = s.run(&s.before) }() }()
	case s.breaks[BreakUncommitted], s.breaks[BreakEarlyVisibility]:
		if err := s.applyEarly(apply); err != nil {
			return err
		}
		apply = func(*state) {}
	default:
		if err := s.run(&s.before); err != nil {
			s.leak(apply)
			return fmt.Errorf("memstore: rolled back: %w", err)
		}
	}
	if err := s.commit(apply); err != nil {
		return err
	}
	s.commits.Add(1)
	s.items.Add(int64(items))
	s.slowest.Store(max(s.slowest.Load(), int64(s.now()-start)))
	if err := s.run(&s.after); err != nil {
		return fmt.Errorf("memstore: outcome unknown: %w", err)
	}
	if s.crashed.Load() {
		return errCrashed
	}
	return nil
}

// commit applies the transaction, unless the plug was pulled or another store
// has the disk by now.
func (s *Store) commit(apply func(*state)) error {
	d := s.on()
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.crashed.Load() || d.life != s.life.Load() {
		return errCrashed
	}
	if err := s.meet(d); err != nil {
		return err
	}
	apply(&d.state)
	s.saw(d)
	return nil
}

// queue is how many items wait for a commit.
func (s *Store) queue() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, j := range s.waiting {
		n += j.n
	}
	return n
}
