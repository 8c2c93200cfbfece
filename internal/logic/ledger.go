package logic

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// promiseAge is how long a promise is kept. A history that lacks something lacks
// all that came after it, so the newest promises are enough to find out that
// something is missing; the older ones are there to say what.
const promiseAge = 15 * time.Minute

// Shelves of the ledger. Each has a bound of its own: a storm of one kind pushes
// out nothing of another.
const (
	shelfMessages = iota // stored by this node
	shelfRepeats         // answered as duplicates
	shelfShown           // read by or pushed to somebody
	shelfCursors
	shelfOthers
	shelves
)

var shelfLimits = [shelves]int{shelfMessages: 16 << 10, shelfRepeats: 4 << 10, shelfShown: 4 << 10, shelfCursors: 8 << 10, shelfOthers: 4 << 10}

// ledger keeps what this node has promised lately, to look it up should the store's
// history change (D18). It takes less than 10 MB when it is full.
//
// Whatever is to be answered is entered first, with the turn that was current before
// the store was asked. Once the ledger has been read for a verdict, older turns are
// over: what was asked for before and comes back now may be of a history that is
// gone, nobody has looked whether the new one has it, and so it is not answered.
type ledger struct {
	turn   atomic.Uint64
	closed atomic.Bool // nothing is kept: the store's history cannot change

	mu    sync.Mutex // guards what follows
	shelf [shelves]shelf
}

// shelf holds the newest promises of a kind, as a ring.
type shelf struct {
	promises []store.Promise
	next     int // where the next one goes once it is full: the oldest
}

func (s *shelf) add(p store.Promise, limit int) {
	if len(s.promises) < limit {
		s.promises = append(s.promises, p)
		return
	}
	s.promises[s.next] = p
	s.next = (s.next + 1) % limit
}

// older reports whether the oldest promise is older than before.
func (s *shelf) older(before impart.Millis) bool {
	return len(s.promises) > 0 && s.promises[s.next].Made < before
}

// keep leaves only what fits.
func (s *shelf) keep(fits func(*store.Promise) bool) {
	old := slices.Concat(s.promises[s.next:], s.promises[:s.next])
	*s = shelf{}
	for i := range old {
		if fits(&old[i]) {
			s.promises = append(s.promises, old[i])
		}
	}
}

// begin is the present turn, to be taken before the store is asked.
func (l *ledger) begin() uint64 { return l.turn.Load() }

// enter keeps promises that are about to be given. It is false when their turn is
// over: then they must not be.
func (l *ledger) enter(turn uint64, onto int, promises ...store.Promise) bool {
	if l.closed.Load() {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if turn != l.turn.Load() {
		return false
	}
	for i := range promises {
		l.shelf[onto].add(promises[i], shelfLimits[onto])
	}
	return true
}

// valid reports whether a turn is not over.
func (l *ledger) valid(turn uint64) bool { return turn == l.turn.Load() }

// read ends the turn and gives all promises that are not older than since.
func (l *ledger) read(since impart.Millis) []store.Promise {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn.Add(1)
	var all []store.Promise
	for i := range l.shelf {
		for _, p := range l.shelf[i].promises {
			if p.Made >= since {
				all = append(all, p)
			}
		}
	}
	return all
}

// forget drops promises: old ones, and those that are known to be broken.
func (l *ledger) forget(before impart.Millis, broken []store.Promise) {
	gone := make(map[store.Promise]bool, len(broken))
	for _, p := range broken {
		gone[p] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.shelf {
		if len(gone) == 0 && !l.shelf[i].older(before) {
			continue
		}
		l.shelf[i].keep(func(p *store.Promise) bool { return p.Made >= before && !gone[*p] })
	}
}

// close drops everything, for good.
func (l *ledger) close() {
	l.closed.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shelf = [shelves]shelf{}
}

// overtaken is what those get whose turn is over.
func overtaken() error {
	err := impart.Errorf(impart.Unavailable, "the database was replaced while this was under way, and its outcome is unknown: send it again")
	err.RetryAfter = store.HaltedRetry
	return err
}

// promise enters promises of one shelf; the error is for whoever waits for them.
func (s *Service) promise(turn uint64, onto int, promises ...store.Promise) error {
	age := s.age()
	for i := range promises {
		promises[i].Made = age
	}
	if !s.ledger.enter(turn, onto, promises...) {
		return overtaken()
	}
	return nil
}

// promiseStored enters the outcomes of an append, and takes back those whose turn is
// over.
func (s *Service) promiseStored(turn uint64, items []store.Append, results []store.Appended) {
	if s.ledger.closed.Load() {
		return
	}
	var stored, repeated []store.Promise
	for i := range results {
		if r := &results[i]; r.Err == nil {
			p := store.Promise{What: store.PromisedMessage, Conv: items[i].Conv, Seq: r.Seq, MID: r.MID, User: items[i].Sender, CMID: items[i].CMID, Epoch: r.Epoch}
			if r.Dup {
				repeated = append(repeated, p)
			} else {
				stored = append(stored, p)
			}
		}
	}
	err := s.promise(turn, shelfMessages, stored...)
	if err == nil {
		err = s.promise(turn, shelfRepeats, repeated...)
	}
	if err == nil {
		return
	}
	for i := range results {
		if results[i].Err == nil {
			results[i] = store.Appended{Err: err}
		}
	}
}

// promiseMoved does the same for cursors. What has not moved was promised before, to
// whoever moved it.
func (s *Service) promiseMoved(turn uint64, epoch impart.Epoch, moves []store.Advance, results []store.Advanced) {
	if s.ledger.closed.Load() {
		return
	}
	var moved []store.Promise
	for i := range results {
		if r := &results[i]; r.Err == nil && r.Moved {
			m := &moves[i]
			moved = append(moved, store.Promise{
				What: store.PromisedCursor, User: m.User, Device: m.Device, Install: m.Install, Epoch: epoch, Conv: m.Conv, Seq: r.Delivered,
			})
		}
	}
	if err := s.promise(turn, shelfCursors, moved...); err != nil {
		for i := range results {
			if results[i].Err == nil {
				results[i] = store.Advanced{Err: err}
			}
		}
	}
}

// promiseShown enters the newest of events that somebody is about to see. They count
// like promises: whoever has stored one takes no other for its seq in this epoch.
func (s *Service) promiseShown(turn uint64, events []impart.Event, epoch impart.Epoch) error {
	if len(events) == 0 || s.ledger.closed.Load() {
		if s.ledger.closed.Load() || s.ledger.valid(turn) {
			return nil
		}
		return overtaken()
	}
	newest := &events[0]
	if last := &events[len(events)-1]; last.Seq > newest.Seq {
		newest = last
	}
	return s.promise(turn, shelfShown, store.Promise{
		What: store.PromisedShown, Conv: newest.Conv, Seq: newest.Seq, MID: newest.MID, User: newest.Sender, CMID: newest.CMID, Epoch: epoch,
	})
}
