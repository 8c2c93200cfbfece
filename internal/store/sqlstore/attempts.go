package sqlstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/impart-im/impart"
)

// patience is how long a write is tried for, unless the options say otherwise.
const patience = 15 * time.Second

// attempts is a write on its way through as many transactions as it takes.
type attempts struct {
	deadline time.Time
	n        int
	rows     int // failures that the database tells of rows
	// redo is set once a COMMIT was sent and its answer was lost: what is found under
	// an item's own mid is then that item.
	redo bool
	// mute is set when the queue of notifications is full: a hint fails no send.
	mute bool
}

// fate is what became of a transaction that returned an error.
type fate int

const (
	failed  fate = iota // it was rolled back, and would be again
	passing             // it was rolled back, or never began, for a reason that passes
	unknown             // nobody knows
)

// transact makes a write in as many attempts as it takes, where other nodes write
// too. What fails for a reason that passes is done again: another node was first, the
// connection or the server died, a deadlock. A commit whose answer was lost is done
// again too, until the answer is known or the time is up; an op that is not a message
// or a cursor cannot be told from its repeat, and its outcome stays unknown. refusal
// turns an error about a value that the database cannot hold into the refusal that it
// is. rowTries is after how many failures like it the fault is taken for that of some
// rows, and the error is a [rowsError]; 0: it is the transaction's. Who does what waits
// aside comes back to it, and gets one for all that may pass.
func (s *Store) transact(w *writer, ops []*op, attempt func(*attempts) (fate, error), refusal func(error) error, rowTries func(error) int) (err error, shared bool) {
	began := time.Now()
	w.began.Store(int64(began.Sub(s.opened)) + 1)
	defer w.began.Store(0)
	a := &attempts{deadline: began.Add(s.opts.Patience), redo: slices.ContainsFunc(ops, func(o *op) bool { return o.redo })}
	defer func() {
		if !ofRows(err) { // whose fault that is shows later
			s.failing.Store(err != nil && !refused(err))
		}
	}()
	for {
		outcome, err := attempt(a)
		w.caches.clear()
		if err == nil {
			s.committed(began)
			return nil, false
		}
		one := len(ops) == 1 && ops[0].items == 1
		switch {
		case outcome == failed && !a.redo:
			// A halt is everybody's, and so is what a test does to a commit.
			return refusal(err), one || refused(err) || errors.Is(err, errHook)
		case outcome == unknown && ops[0].direct != nil:
			return fmt.Errorf("the outcome of the commit is unknown: %w", err), true
		case outcome == unknown:
			a.redo = true
		}
		if tries := rowTries(err); tries > 0 && outcome == passing {
			a.rows++
			if a.rows >= tries || w.again {
				return a.later(ops, err, false), false
			}
		} else if w.again {
			return a.later(ops, err, true), false
		}
		if !a.pause() {
			if a.redo {
				err = fmt.Errorf("the outcome of the commit is unknown: %v", err) // no refusal, whatever came last: it may be there
			}
			return err, true
		}
	}
}

// later is the error of ops that are to be tried again by who asked for them.
func (a *attempts) later(ops []*op, err error, lost bool) error {
	for _, o := range ops {
		o.redo = a.redo
	}
	return &rowsError{err, lost}
}

// pause waits before the next attempt: the first follows at once, later ones after
// times that double and are drawn at random, so that those who collided do not
// collide again. It is false when the time is up.
func (a *attempts) pause() bool {
	a.n++
	if a.n > 1 {
		longest := min(5*time.Millisecond<<min(a.n-2, 6), 250*time.Millisecond)
		time.Sleep(longest/2 + rand.N(longest/2+1))
	}
	return time.Now().Before(a.deadline)
}

// errAgain asks for the transaction to be done again: what it goes by has changed.
var errAgain = errors.New("another node was first")

// errHook marks what a test put in a transaction's way.
var errHook = errors.New("hook")

// unstorable is the refusal of a text that the database cannot hold.
func unstorable() error {
	return impart.Errorf(impart.BadFrame, "it contains a text that cannot be stored: NUL, or what is not UTF-8")
}
