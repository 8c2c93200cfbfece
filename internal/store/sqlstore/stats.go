package sqlstore

import (
	"errors"
	"sync"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// slowWindow is how long "of late" is at least, for the slowest commit; at most
// it is twice that.
const slowWindow = time.Minute

// slowest remembers the longest transaction of the last minute or two.
type slowest struct {
	mu       sync.Mutex
	now, old time.Duration
	since    time.Time
}

func (l *slowest) add(took time.Duration, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn(at)
	l.now = max(l.now, took)
}

func (l *slowest) get(at time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn(at)
	return max(l.now, l.old)
}

func (l *slowest) turn(at time.Time) {
	switch age := at.Sub(l.since); {
	case age >= 2*slowWindow:
		l.now, l.old, l.since = 0, 0, at
	case age >= slowWindow:
		l.now, l.old, l.since = 0, l.now, at
	}
}

// committed counts a transaction. It is timed from its begin, before which no
// row of it was stamped.
func (s *Store) committed(began time.Time) {
	s.commits.Add(1)
	now := time.Now()
	s.slow.add(now.Sub(began), now)
}

// count counts the items of an op that has its outcome.
func (s *Store) count(o *op) {
	s.items.Add(int64(o.items))
	for i := range o.appended {
		if o.appended[i].Dup {
			s.dups.Add(1)
		}
	}
}

// Stats implements [store.Upkeep].
func (s *Store) Stats() store.Stats {
	now := time.Now()
	slow := s.slow.get(now)
	queued := 0
	for _, l := range s.lanes.all {
		queued += l.len() + l.waitlist.len()
		for _, w := range l.writers {
			if began := w.began.Load(); began != 0 {
				slow = max(slow, now.Sub(s.opened)-time.Duration(began))
			}
		}
	}
	return store.Stats{
		Commits: s.commits.Load(), Items: s.items.Load(), Queue: queued, Dups: s.dups.Load(),
		Slowest: impart.Millis((slow + time.Millisecond - 1) / time.Millisecond), Reads: s.reads.Load(),
		Failing: s.failing.Load(),
	}
}

// logEvery is how often the store logs one kind of trouble, at most.
const logEvery = 5 * time.Second

// sparing says when to log what may come very often.
type sparing struct {
	mu   sync.Mutex
	last time.Time
	more int // not logged since
}

// next reports whether it is time, and how often it was not since the last time.
func (l *sparing) next() (more int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if !l.last.IsZero() && now.Sub(l.last) < logEvery {
		l.more++
		return 0, false
	}
	more, l.more, l.last = l.more, 0, now
	return more, true
}

// joinClose closes a store that could not be opened.
func joinClose(err error, s *Store) error { return errors.Join(err, s.Close()) }
