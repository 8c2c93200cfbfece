package sqlstore

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/impart-im/impart"
)

const (
	// rowWait is how long a transaction of writes waits for a row that somebody else
	// holds: all its writes wait with it. shortWait is that of writes which were held up
	// before.
	rowWait   = 500 * time.Millisecond
	shortWait = 50 * time.Millisecond
	// asideRest is the rest between two rounds at first; it doubles to asideRestMost
	// while nothing gets done.
	asideRest     = 10 * time.Millisecond
	asideRestMost = 250 * time.Millisecond
	// asideLinger is how long a cause of delay is remembered after its last write, so
	// that the next one does not hold up a transaction of others again.
	asideLinger = 5 * time.Second
	// singlesARound is how many that failed alone are tried again in a round.
	singlesARound = 8
	// asideShare is the part of the waiting room, 1/asideShare, that one cause may take.
	asideShare = 4
	// asideRetry is what a caller is told to wait whose write waited in vain.
	asideRetry = 2 * time.Second
)

// aim is what a write is about, and what a fault can be of without being of the
// writes beside it: a conversation for messages, a user for cursors, and of a direct
// op the op itself. Writes with one aim are done in the order in which they came.
type aim struct {
	conv impart.ConvID
	user impart.UserID
	op   *op
}

// aim is that of an op's items when they have one aim in common.
func (o *op) aim() aim {
	switch {
	case o.direct != nil:
		return aim{op: o}
	case len(o.appends) > 0:
		return aim{conv: o.appends[0].Conv}
	case len(o.advances) > 0:
		return aim{user: o.advances[0].User}
	default:
		return aim{user: o.reads[0].User}
	}
}

// String names it for the log.
func (a aim) String() string {
	switch {
	case a.conv != "":
		return fmt.Sprintf("conversation %q", string(a.conv))
	case a.user != "":
		return fmt.Sprintf("cursors of user %q", string(a.user))
	}
	return "a write by itself"
}

// group are parts of ops that have one aim, in their order.
type group struct {
	aim    aim
	ops    []*op
	single bool  // it failed by itself
	why    error // what it failed with last; nil: it was not tried
}

// waiting is a group that waits in an [waitlist]: its cause of delay is remembered even
// while nothing waits.
type waiting struct {
	group
	bytes int
	turn  int64     // when it was tried last, counted in tries
	until time.Time // it is remembered until then
}

// waitlist is the waiting room of a lane: writes that cannot be done now, each for a
// reason of its own that may pass (a row is held by somebody else's transaction) or
// not (a damaged row), so that they keep nobody else waiting. What comes later for the
// same aim waits behind them. A goroutine that lives while there are any tries them
// again, and gives up each after the store's patience.
type waitlist struct {
	known atomic.Int64 // aims, for who asks without the lock

	mu      sync.Mutex
	waiting map[aim]*waiting
	items   int
	bytes   int
	turns   int64
	running bool
}

// divert keeps those of ops, or of their parts, that have to wait behind others, and
// returns the rest.
func (l *waitlist) divert(w *writer, ops []*op) []*op {
	if l.known.Load() == 0 {
		return ops
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*op
	for _, o := range ops {
		parts := o.parts()
		if !slices.ContainsFunc(parts, func(p *op) bool { return l.waiting[p.aim()] != nil }) {
			out = append(out, o)
			continue
		}
		for _, p := range parts {
			if g := l.waiting[p.aim()]; g != nil {
				l.put(w, g, p)
			} else {
				out = append(out, p)
			}
		}
	}
	return out
}

// add has groups wait.
func (l *waitlist) add(w *writer, groups []*group) {
	if len(groups) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == nil {
		l.waiting = map[aim]*waiting{}
	}
	for _, g := range groups {
		there := l.waiting[g.aim]
		if there == nil {
			there = &waiting{group: group{aim: g.aim, single: g.single}}
			l.waiting[g.aim] = there
			l.known.Add(1)
		}
		there.why, there.until = g.why, time.Now().Add(asideLinger)
		for _, p := range g.ops {
			l.put(w, there, p)
		}
	}
	if !l.running {
		l.running = true
		s, lane := w.s, w.lane
		s.writing.Go(func() {
			again := &writer{s: s, lane: lane, limit: w.limit, again: true, caches: newCaches(), memberships: newMemberships(), tails: newTails()}
			again.standAside()
		})
	}
}

// put adds a part to a group, unless there are too many; l.mu is held.
func (l *waitlist) put(w *writer, g *waiting, p *op) {
	most, mostBytes := w.lane.maxItems, maxQueueBytes
	if l.items >= most || l.bytes >= mostBytes || len(g.ops) >= max(most/asideShare, 1) || g.bytes >= mostBytes/asideShare {
		err := impart.Errorf(impart.Overloaded, "%d writes wait for what is held up already; try again later", l.items)
		err.RetryAfter = asideRetry
		p.fail(err)
		return
	}
	if p.deadline.IsZero() {
		p.deadline = time.Now().Add(w.s.opts.Patience)
	}
	size := p.size()
	g.ops, g.bytes = append(g.ops, p), g.bytes+size
	l.items, l.bytes = l.items+1, l.bytes+size
	p.whole().left.Add(1)
}

// answered takes the first n of a group out, which have their outcomes; l.mu is held.
func (l *waitlist) answered(g *waiting, n int) []*op {
	done := g.ops[:n:n]
	for _, p := range done {
		g.bytes, l.bytes = g.bytes-p.size(), l.bytes-p.size()
	}
	l.items -= n
	if g.ops = g.ops[n:]; len(g.ops) == 0 {
		g.ops = nil
	}
	return done
}

// take gives up what has waited too long, or all that waits once the store closes,
// and copies what is left: at most limit writes of each group. It is nil, and the
// goroutine's end, when nothing is remembered any more.
func (l *waitlist) take(w *writer, closing bool) []*group {
	now := time.Now()
	var late []*op
	l.mu.Lock()
	groups := []*group{}
	order := make([]*waiting, 0, len(l.waiting))
	for _, g := range l.waiting {
		n := 0
		for n < len(g.ops) && (closing || now.After(g.ops[n].deadline)) {
			g.ops[n].fail(g.late(g.ops[n], closing))
			n++
		}
		late = append(late, l.answered(g, n)...)
		if len(g.ops) == 0 && (closing || now.After(g.until)) {
			delete(l.waiting, g.aim)
			l.known.Add(-1)
		} else if len(g.ops) > 0 {
			order = append(order, g)
		}
	}
	slices.SortFunc(order, func(a, b *waiting) int { return cmp.Compare(a.turn, b.turn) })
	for _, g := range order {
		groups = append(groups, &group{aim: g.aim, ops: slices.Clone(g.ops[:min(len(g.ops), w.limit)]), single: g.single})
	}
	if len(l.waiting) == 0 {
		l.running, groups = false, nil
	}
	l.mu.Unlock()
	settle(w.s, late)
	return groups
}

// late is the outcome of a write that waited in vain.
func (g *waiting) late(o *op, closing bool) error {
	if closing && !o.redo {
		return closedError()
	}
	what := "nothing was written"
	if o.redo {
		what = "the outcome of the commit is unknown"
	}
	err := impart.Errorf(impart.Unavailable, "%s is held up (%v) and %s: send this again unchanged", g.aim, g.why, what)
	err.RetryAfter, err.Cause = asideRetry, g.why
	return err
}

// settled takes out of the groups that were tried what has its outcome, which is all
// but what is left of them.
func (l *waitlist) settled(s *Store, tried, left []*group) bool {
	var done []*op
	l.mu.Lock()
	for _, t := range tried {
		g := l.waiting[t.aim]
		l.turns++
		g.turn = l.turns
		n := len(t.ops)
		g.single, g.until = false, time.Time{}
		for _, rest := range left {
			if rest.aim == t.aim {
				n -= len(rest.ops)
				g.single, g.why, g.until = rest.single, cmp.Or(rest.why, g.why), time.Now().Add(asideLinger)
			}
		}
		done = append(done, l.answered(g, n)...)
	}
	l.mu.Unlock()
	settle(s, done)
	return len(done) > 0
}

func (l *waitlist) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.items
}

// settle tells the callers of parts that those have their outcomes.
func settle(s *Store, parts []*op) {
	for _, p := range parts {
		p.whole().settle(s)
	}
}

// standAside tries what waits, round after round, as long as there is something.
func (w *writer) standAside() {
	l := &w.lane.waitlist
	time.Sleep(asideRest) // they have failed a moment ago
	for rest := asideRest; ; {
		groups := l.take(w, w.lane.isClosed())
		if groups == nil {
			return
		}
		if len(groups) > 0 && w.round(l, groups) {
			rest = asideRest
			continue
		}
		time.Sleep(rest)
		rest = min(2*rest, asideRestMost)
	}
}

// round tries every group once: those that nobody holds together, a few of those that
// have failed by themselves, and of those that somebody holds the one that has waited
// longest, which thus gets its place in the database's own line.
func (w *writer) round(l *waitlist, groups []*group) (moved bool) {
	held, err := w.s.engine.stuck(groups)
	if err != nil { // it is the database, or a whole table
		w.s.failing.Store(true)
		return false
	}
	var free, singles, stuck []*group
	for _, g := range groups {
		switch why := held[g.aim]; {
		case why != nil && final(why):
			w.damaged(l, g, why)
		case why != nil:
			stuck = append(stuck, g)
		case g.single:
			singles = append(singles, g)
		default:
			free = append(free, g)
		}
	}
	w.rowWait = shortWait
	for len(free) > 0 {
		n, items := 0, 0
		for n < len(free) && (n == 0 || items+len(free[n].ops) <= w.limit) {
			items += len(free[n].ops)
			n++
		}
		moved = w.try(l, free[:n]...) || moved
		free = free[n:]
	}
	for _, g := range singles[:min(len(singles), singlesARound)] {
		moved = w.try(l, g) || moved
	}
	if len(stuck) > 0 {
		w.rowWait = 0 // the session's own
		moved = w.try(l, stuck[0]) || moved
	}
	return moved
}

// try does groups, and keeps waiting what is left of them.
func (w *writer) try(l *waitlist, groups ...*group) (moved bool) {
	w.failures = 0
	return l.settled(w.s, groups, w.halve(groups))
}

// damaged refuses what is about a damaged row, and says so in the log, not each time.
func (w *writer) damaged(l *waitlist, g *group, why error) {
	err := damagedError(g.aim, why)
	for _, p := range g.ops {
		p.fail(err)
	}
	l.settled(w.s, []*group{g}, nil)
	l.mu.Lock()
	l.waiting[g.aim].until = time.Now().Add(asideLinger)
	l.mu.Unlock()
	w.s.tellDamagedRow(g.aim.conv, why)
}

// final reports whether why will not pass by itself.
func final(why error) bool {
	_, is := why.(*damage)
	return is
}
