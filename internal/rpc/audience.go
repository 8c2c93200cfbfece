package rpc

import (
	"sync"
	"time"

	"github.com/impart-im/impart"
)

const (
	// cachedMembers is how many members of audiences one generation of the cache holds.
	cachedMembers = 128 << 10
	// audienceLife is how long an audience stands without the node being asked whether
	// it still has that version. Versions rise, so that only a history that was
	// rewritten could make one that is known wrong: the epoch tells, and this bounds it.
	audienceLife = time.Minute
	// audienceNow is how long an audience is taken for the present one where nothing
	// hangs on it but a receipt or a typing note.
	audienceNow = 500 * time.Millisecond
)

// known is an audience as a node gave it.
type known struct {
	audience *impart.Audience
	epoch    impart.Epoch // that the node knew
	at       time.Time    // before it asked
}

// audiences are the audiences that a gateway knows, by conversation: those in use
// stay, for the others there is room for so many members. Two generations: what is
// found in the older one moves to the younger; when that is full it becomes the older.
type audiences struct {
	mu     sync.Mutex // guards the rest
	limit  int        // members in the younger one
	weight int
	young  map[impart.ConvID]known
	old    map[impart.ConvID]known
}

func newAudiences(limit int) *audiences {
	return &audiences{limit: limit, young: map[impart.ConvID]known{}}
}

// get is what is known of a conversation in this epoch.
func (a *audiences) get(conv impart.ConvID, epoch impart.Epoch) (known, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k, found := a.young[conv]
	if !found {
		if k, found = a.old[conv]; found {
			a.put(conv, k)
		}
	}
	if !found || k.epoch != epoch || time.Since(k.at) > audienceLife {
		return known{}, false
	}
	return k, true
}

// keep notes an audience, unless a later one of the same epoch is known.
func (a *audiences) keep(k known) {
	a.mu.Lock()
	defer a.mu.Unlock()
	conv := k.audience.Conv
	if was, found := a.young[conv]; found && was.epoch == k.epoch && (was.audience.Version > k.audience.Version ||
		was.audience.Version == k.audience.Version && was.at.After(k.at)) {
		return
	}
	a.put(conv, k)
}

// stale makes the next question for the present audience ask.
func (a *audiences) stale(conv impart.ConvID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.young, conv)
	delete(a.old, conv)
}

// put adds to the younger generation. a.mu is held.
func (a *audiences) put(conv impart.ConvID, k known) {
	if was, found := a.young[conv]; found {
		a.weight -= 1 + len(was.audience.Members)
	}
	a.young[conv] = k
	if a.weight += 1 + len(k.audience.Members); a.weight > a.limit {
		a.old, a.young, a.weight = a.young, map[impart.ConvID]known{}, 0
	}
}
