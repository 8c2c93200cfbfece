package sqlstore

import (
	"context"
	"hash/maphash"
)

// lane is a queue with those who write what waits in it, and a room for what has to
// wait longer.
type lane struct {
	queue
	waitlist waitlist
	writers  []*writer
}

// lanes say where each kind of write waits. A database that one process alone
// writes has one lane for all. Where commits can go on side by side, the messages
// of a conversation share one lane and the cursors of a user another, so that two
// of this store's transactions seldom want the same rows.
type lanes struct {
	all     []*lane
	appends []*lane
	cursors []*lane
	direct  *lane
}

// laneCounts is how many lanes of each kind there are; appends 0 means one lane for
// everything.
type laneCounts struct {
	appends, cursors int
	direct           int // writers of the direct lane
}

var oneLane = laneCounts{}

// startLanes makes the lanes and starts their writers.
func (s *Store) startLanes(n laneCounts) {
	limit := s.opts.MaxBatch
	if s.opts.NoGroupCommit {
		limit = 1
	}
	if n.appends == 0 {
		l := s.newLane(1, limit)
		s.lanes.appends, s.lanes.cursors, s.lanes.direct = []*lane{l}, []*lane{l}, l
		return
	}
	for range n.appends {
		s.lanes.appends = append(s.lanes.appends, s.newLane(1, limit))
	}
	for range n.cursors {
		s.lanes.cursors = append(s.lanes.cursors, s.newLane(1, limit))
	}
	s.lanes.direct = s.newLane(n.direct, 1)
}

func (s *Store) newLane(writers, limit int) *lane {
	l := &lane{queue: queue{maxItems: s.opts.MaxQueue, wake: make(chan struct{}, 1)}}
	for range writers {
		w := &writer{s: s, lane: l, limit: limit, caches: newCaches(), memberships: newMemberships(), tails: newTails()}
		l.writers = append(l.writers, w)
		s.writing.Go(w.run)
	}
	s.lanes.all = append(s.lanes.all, l)
	return l
}

// laneSeed is this process's: lanes mean nothing outside it.
var laneSeed = maphash.MakeSeed()

// laneOf is where what belongs to key waits.
func laneOf(lanes []*lane, key string) int {
	if len(lanes) == 1 {
		return 0
	}
	return int(maphash.String(laneSeed, key) % uint64(len(lanes)))
}

// share is the part of a call that goes to one lane: its items, and where in the
// call they stood.
type share[T any] struct {
	lane  *lane
	items []T
	at    []int
}

// shares divides the items of a call among lanes, each lane's in their order. The
// items are copied: the caller may be gone before they are written.
func shares[T any](lanes []*lane, items []T, key func(*T) string) []share[T] {
	out := make([]share[T], len(lanes))
	for i := range items {
		s := &out[laneOf(lanes, key(&items[i]))]
		s.items, s.at = append(s.items, items[i]), append(s.at, i)
	}
	used := out[:0]
	for i := range out {
		if s := out[i]; len(s.items) > 0 {
			s.lane = lanes[laneOf(lanes, key(&s.items[0]))]
			used = append(used, s)
		}
	}
	return used
}

// outcomes writes the ops of a call, and puts what became of their items where those
// stood in it. An error of the write is everybody's.
func outcomes[R any](ctx context.Context, s *Store, ops []*op, at []int, of func(*op) []R, failed func(error) R) []R {
	out := make([]R, len(at))
	if err := s.write(ctx, ops...); err != nil {
		for i := range out {
			out[i] = failed(err)
		}
		return out
	}
	n := 0
	for _, o := range ops {
		for _, one := range of(o) {
			out[at[n]] = one
			n++
		}
	}
	return out
}
