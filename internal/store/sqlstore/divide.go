package sqlstore

import (
	"cmp"
	"errors"
	"slices"

	"github.com/impart-im/impart"
)

// maxStuck is after how many failures in a row no smaller transactions are tried: the
// fault is nobody's then.
const maxStuck = 16

// rowsError is a failure that the database tells of rows, and that passes: of the
// writes that shared the transaction, those that want other rows may have nothing to do
// with it.
type rowsError struct {
	error
	lost bool // it is not the rows' fault, and not to be looked for among them
}

// Unwrap gives what the database says.
func (e *rowsError) Unwrap() error { return e.error }

// ofRows reports whether err is one.
func ofRows(err error) bool { return errors.As(err, new(*rowsError)) }

func isLost(err error) bool {
	var e *rowsError
	return errors.As(err, &e) && e.lost
}

// errHeld is why a write waits whose rows somebody else has locked.
var errHeld = errors.New("another transaction holds its rows")

// divide does what can be done of a batch that failed for some of its rows, and has
// the rest wait aside, so that one aim keeps no other waiting (D13).
func (w *writer) divide(ops []*op, cause error) {
	groups := gather(ops)
	held, err := w.s.engine.stuck(groups)
	if err != nil { // not even that can be found out: all of it waits
		for _, g := range groups {
			g.why = cause
		}
		w.lane.waitlist.add(w, groups)
		return
	}
	var free, left []*group
	for _, g := range groups {
		if g.why = held[g.aim]; g.why != nil {
			left = append(left, g)
		} else {
			free = append(free, g)
		}
	}
	// Known first, and then the rest: what comes for them meanwhile has to wait behind.
	w.failures, w.rowWait = 0, shortWait
	left = append(left, w.halve(free)...)
	w.rowWait = 0
	w.tell(left, cause)
	w.lane.waitlist.add(w, left)
}

// tell logs that some have to wait.
func (w *writer) tell(left []*group, cause error) {
	if len(left) == 0 {
		return
	}
	if more, ok := w.s.stuckLog.next(); ok {
		w.s.opts.Log.Warn("a transaction failed for some of its rows, those who want them wait by themselves",
			"error", cause, "about", left[0].aim.String(), "and", len(left)-1, "unlogged", more)
	}
}

// gather puts the parts of ops into groups by their aims, in the order in which these
// come first. Of parts that have one key and two aims only the first stays: in
// transactions of their own the second could take the key from the first.
func gather(ops []*op) []*group {
	var groups []*group
	of := map[aim]*group{}
	keys := map[dedupKey]aim{}
	n := 0
	for _, o := range ops {
		for _, p := range o.parts() {
			to := p.aim()
			if len(p.appends) > 0 {
				key := keyOf(p.appends[0].Sender, p.appends[0].CMID)
				if other, taken := keys[key]; taken && other != to {
					p.fail(keyWaits(p.appends[0].CMID))
					continue
				}
				keys[key] = to
			}
			g := of[to]
			if g == nil {
				g = &group{aim: to}
				of[to] = g
				groups = append(groups, g)
			}
			p.at = n
			n++
			g.ops = append(g.ops, p)
		}
	}
	return groups
}

func keyWaits(cmid impart.CMID) error {
	err := impart.Errorf(impart.Unavailable, "cmid %q is under way to another conversation too: send this again unchanged", cmid)
	err.RetryAfter = asideRetry
	return err
}

// together are the ops of groups in the order in which they came.
func together(groups []*group) []*op {
	var ops []*op
	for _, g := range groups {
		ops = append(ops, g.ops...)
	}
	if len(groups) > 1 {
		slices.SortStableFunc(ops, func(a, b *op) int { return cmp.Compare(a.at, b.at) })
	}
	return ops
}

// halve does groups in one transaction, or each half by itself when that fails for
// some of their rows, down to one group. It returns what is left of those that cannot
// be done now; all others have their outcomes.
func (w *writer) halve(groups []*group) (left []*group) {
	if len(groups) == 0 {
		return nil
	}
	if w.failures >= maxStuck {
		return groups
	}
	ops := together(groups)
	err, shared := w.s.engine.transact(w, ops)
	switch {
	case err == nil:
		w.failures = 0
		return nil
	case ofRows(err):
		w.failures++
		if isLost(err) {
			w.failures = maxStuck
			return groups
		}
		if len(groups) == 1 {
			groups[0].single, groups[0].why = true, err
			return groups
		}
		half := len(groups) / 2
		return append(w.halve(groups[:half:half]), w.halve(groups[half:])...)
	case shared:
		for _, o := range ops {
			o.fail(err)
		}
		return nil
	default:
		return w.oneByOne(ops, err)
	}
}

// oneByOne gives each op, of which the rules or the database refused some, a
// transaction of its own (D13). It returns those that cannot be done now, and with each
// what follows it.
func (w *writer) oneByOne(ops []*op, last error) (left []*group) {
	w.failures = 0
	stuck, inARow := map[aim]*group{}, 0
	for _, whole := range ops {
		for _, o := range whole.parts() {
			g := stuck[o.aim()]
			if g != nil {
				g.ops = append(g.ops, o)
				continue
			}
			var err error
			if inARow < maxFailures {
				if err = w.alone(o, last); err == nil {
					inARow = 0
					continue
				}
				inARow++
			}
			g = &group{aim: o.aim(), ops: []*op{o}, single: err != nil, why: err}
			stuck[g.aim] = g
			left = append(left, g)
		}
	}
	return left
}

// alone commits one item by itself. Its error is a [rowsError]: the item has no outcome
// yet.
func (w *writer) alone(o *op, last error) error {
	if w.failures >= maxFailures {
		o.fail(last)
		return nil
	}
	err, _ := w.s.engine.transact(w, []*op{o})
	switch {
	case err == nil:
		w.failures = 0
	case ofRows(err):
		return err
	default:
		w.failures++
		o.fail(err)
	}
	return nil
}
