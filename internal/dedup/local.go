package dedup

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/impart-im/impart"
)

// DefaultLimit is how many answers a [Local] keeps: some 3 MB.
const DefaultLimit = 16 << 10

// Options of a [Local]. A zero field has its default.
type Options struct {
	Limit int              // most answers at a time; 0: [DefaultLimit]
	Now   func() time.Time // nil: [time.Now]
}

// Local is a [Cache] inside the process. A new one takes no room; once it is full,
// each new answer takes the place of one that was not found since the last round
// of the hand (the clock algorithm). Nothing runs in the background: an answer
// that is too old is not found, and stays until its place is needed.
type Local struct {
	limit int
	now   func() time.Time
	since time.Time // ages are measured from here, by a clock that nobody sets back

	mu     sync.Mutex // guards what follows
	places map[Key]int32
	slots  []slot // without a pointer, so that the garbage collector passes them by
	hand   int    // the slot to be tried next, once there are limit of them
}

// slot is one kept answer.
type slot struct {
	key   Key
	hash  [16]byte
	mid   uuid.UUID
	seq   impart.Seq
	at    impart.Millis
	epoch impart.Epoch
	kept  time.Duration
	found bool // since the hand came by
}

var _ Cache = (*Local)(nil)

// NewLocal makes an empty cache.
func NewLocal(opts Options) *Local {
	if opts.Limit == 0 {
		opts.Limit = DefaultLimit
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Local{limit: opts.Limit, now: opts.Now, since: opts.Now(), places: map[Key]int32{}}
}

// Find implements [Cache].
func (l *Local) Find(_ context.Context, entries []Entry) {
	now := l.age()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range entries {
		place, ok := l.places[entries[i].Key]
		if !ok {
			continue
		}
		if s := &l.slots[place]; now-s.kept < TTL {
			s.found = true
			entries[i].Layer = Memory
			entries[i].Answer = Answer{Hash: s.hash, Seq: s.seq, MID: impart.MID(s.mid.String()), At: s.at, Epoch: s.epoch}
		}
	}
}

// Keep implements [Cache]. An answer whose mid is no UUID in its usual form is not
// kept: the server gives no others.
func (l *Local) Keep(_ context.Context, entries []Entry) {
	now := l.age()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		mid, err := uuid.Parse(string(e.MID))
		if err != nil || mid.String() != string(e.MID) {
			continue
		}
		place, ok := l.places[e.Key]
		if !ok {
			place = l.place()
			l.places[e.Key] = place
		}
		l.slots[place] = slot{key: e.Key, hash: e.Hash, mid: mid, seq: e.Seq, at: e.At, epoch: e.Epoch, kept: now}
	}
}

// place is a place for one more answer. l.mu is held.
func (l *Local) place() int32 {
	if len(l.slots) < l.limit {
		l.slots = append(l.slots, slot{})
		return int32(len(l.slots) - 1)
	}
	for l.slots[l.hand].found {
		l.slots[l.hand].found = false
		l.hand = (l.hand + 1) % l.limit
	}
	place := l.hand
	l.hand = (l.hand + 1) % l.limit
	delete(l.places, l.slots[place].key)
	return int32(place)
}

func (l *Local) age() time.Duration { return l.now().Sub(l.since) }
