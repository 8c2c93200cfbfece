// Package memstore keeps a store's promises in memory: the model against which
// the SQL stores are compared, and the store of other packages' tests. It is
// written to be read, not to be fast: one transaction at a time, one lock, plain
// maps. Everything is lost with the process, so no server may run on it.
//
// Tests can hold or fail a commit ([Store.OnCommit]), pull the plug
// ([Store.Crash]), and switch single guards off ([Break]).
package memstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// Options of a store. The zero value is a correct store on the machine's clock.
type Options struct {
	// Now is the store's clock; nil means time.Now.
	Now func() impart.Millis
	// Breaks switches guards off.
	Breaks []Break
	// Incarnation names the history; "" means "memory".
	Incarnation string
	// Shared says that other nodes can reach the data ([Store.Node]), and that another
	// server may take over ([Store.Reach]); otherwise the store says that it is alone.
	Shared bool
}

// Store is an in-memory [store.Store].
type Store struct {
	now    func() impart.Millis
	breaks map[Break]bool
	shared bool
	disk   atomic.Pointer[disk]
	life   atomic.Int64 // the disk's life that this store belongs to

	turn    chan struct{} // holds one token: whose turn it is to write
	closing chan struct{} // closed when the store takes nothing more
	once    sync.Once
	crashed atomic.Bool
	cut     atomic.Bool
	before  atomic.Pointer[func() error]
	after   atomic.Pointer[func() error]

	mu      sync.Mutex // guards what follows
	waiting []*job     // who shares the next commit, in order of arrival

	known knowledge

	commits, items, dups, reads, slowest atomic.Int64
}

var _ store.Store = (*Store)(nil)

// disk is what outlives a store: committed state, and nothing else.
type disk struct {
	mu       sync.Mutex
	life     int64 // raised by each Reopen, so that a crashed store cannot write any more
	server   string
	timeline int // rises with each promotion
	state    state
}

// errCrashed is no refusal: whoever gets it does not know the outcome.
var errCrashed = errors.New("memstore: the store crashed")

// New opens an empty store.
func New(opts Options) *Store {
	if opts.Incarnation == "" {
		opts.Incarnation = "memory"
	}
	return open(opts, &disk{server: opts.Incarnation, timeline: 1, state: newState(opts.Incarnation)})
}

func open(opts Options, d *disk) *Store {
	if opts.Now == nil {
		opts.Now = func() impart.Millis { return impart.Millis(time.Now().UnixMilli()) }
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.life++
	return attach(opts, d)
}

// attach makes a store on a disk, in its present life.
func attach(opts Options, d *disk) *Store {
	s := &Store{now: opts.Now, shared: opts.Shared, breaks: map[Break]bool{}, turn: make(chan struct{}, 1), closing: make(chan struct{})}
	s.disk.Store(d)
	s.life.Store(d.life)
	s.known.open(d)
	for _, b := range opts.Breaks {
		s.breaks[b] = true
	}
	s.turn <- struct{}{}
	return s
}

// OnCommit sets what runs around the commit of every later write transaction;
// nil is nothing. before runs while nothing of the transaction can be seen yet:
// while it blocks the commit is held, and its error rolls the transaction back.
// after runs once the transaction has committed and is visible: its error makes
// the outcome unknown to the caller.
func (s *Store) OnCommit(before, after func() error) {
	set := func(p *atomic.Pointer[func() error], f func() error) {
		if f == nil {
			p.Store(nil)
			return
		}
		p.Store(&f)
	}
	set(&s.before, before)
	set(&s.after, after)
}

// Crash ends the store as a power cut would: what has committed stays on the
// disk, whatever is under way never commits and its outcome is unknown to the
// caller, and every later call fails. Go on with [Store.Reopen].
func (s *Store) Crash() {
	d := s.on()
	d.mu.Lock()
	defer d.mu.Unlock()
	s.crashed.Store(true)
	s.once.Do(func() { close(s.closing) })
}

// Reopen opens what the disk holds, with the same clock and breaks and without
// hooks. The store it is called on can write nothing any more.
func (s *Store) Reopen() *Store {
	opts := Options{Now: s.now, Shared: s.shared}
	for b := range s.breaks {
		opts.Breaks = append(opts.Breaks, b)
	}
	d := s.on()
	if s.breaks[BreakReopen] {
		clear(d.state.reads)
	}
	if s.breaks[BreakIncarnation] {
		d.server += "'"
		d.state.incarnation = d.name()
	}
	return open(opts, d)
}

// DedupWrites says how often the dedup row of (user, cmid) was written; 0
// without one. It shows that a duplicate changed its row.
func (s *Store) DedupWrites(user impart.UserID, cmid impart.CMID) (int64, error) {
	d := s.on()
	d.mu.Lock()
	defer d.mu.Unlock()
	if row := d.state.dedup[s.messageKey(user, cmid)]; row != nil {
		return row.seen, nil
	}
	return 0, nil
}

// read runs one read transaction: look sees one committed state.
func (s *Store) read(ctx context.Context, look func(*state)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.closed(); err != nil {
		return err
	}
	d := s.on()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := s.meet(d); err != nil {
		return err
	}
	s.reads.Add(1)
	look(&d.state)
	return nil
}

func (s *Store) run(hook *atomic.Pointer[func() error]) error {
	if f := hook.Load(); f != nil {
		return (*f)()
	}
	return nil
}

func (s *Store) closed() error {
	if s.breaks[BreakClose] {
		return nil
	}
	select {
	case <-s.closing:
		return impart.Errorf(impart.Unavailable, "the store is closed; send this again once the server is back")
	default:
		return nil
	}
}

// Close implements [store.Store].
func (s *Store) Close() error {
	if s.breaks[BreakCloseWaits] {
		s.Crash()
		return nil
	}
	s.once.Do(func() { close(s.closing) })
	<-s.turn // whoever was writing is done
	s.turn <- struct{}{}
	return nil
}
