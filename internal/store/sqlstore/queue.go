package sqlstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

const (
	// maxQueueBytes bounds the bodies that wait for a commit, whatever MaxQueue says.
	maxQueueBytes = 64 << 20
	// maxBatchBytes bounds the bodies that share a transaction, whatever MaxBatch
	// says: a long commit keeps everybody waiting.
	maxBatchBytes = 4 << 20
	// retryAfter is what OVERLOADED tells a caller to wait: a few commits.
	retryAfter = 250 * time.Millisecond
)

// op is a write that waits for its commit. Exactly one of its four kinds is set.
type op struct {
	appends  []store.Append
	appended []store.Appended

	advances []store.Advance
	advanced []store.Advanced

	reads  []store.MarkRead
	marked []store.MarkedRead

	// direct runs in the transaction by itself. A refusal undoes what it wrote; it
	// touches the writer's caches last.
	direct func(tx *txn) error
	err    error // what direct said, or why nothing was committed

	lane         *lane
	items, bytes int
	state        atomic.Int32 // opWaiting, then opTaken or opGone
	done         chan struct{}
	early        bool // answered before the commit: only with that bug planted

	// What follows is for what waits in a [waitlist].
	of       *op          // the op that it is a part of; nil: itself
	left     atomic.Int32 // parts without an outcome, and the writer that took it
	at       int          // its place in the batch
	deadline time.Time    // when it is given up
	redo     bool         // it may have been committed, and nobody was told: see [attempts]
}

const (
	opWaiting int32 = iota
	opTaken         // a transaction has begun with it
	opGone          // its caller has given up
)

// fail gives every item of the op the same outcome.
func (o *op) fail(err error) {
	o.err = err
	for i := range o.appended {
		o.appended[i] = store.Appended{Err: err}
	}
	for i := range o.advanced {
		o.advanced[i] = store.Advanced{Err: err}
	}
	for i := range o.marked {
		o.marked[i] = store.MarkedRead{Err: err}
	}
}

// split makes one op of each item; their outcomes are the op's own.
func (o *op) split() []*op {
	if o.items == 1 {
		return []*op{o}
	}
	out := make([]*op, o.items)
	for i := range out {
		one := &op{items: 1, lane: o.lane}
		switch {
		case o.appends != nil:
			one.appends, one.appended = o.appends[i:i+1], o.appended[i:i+1]
		case o.advances != nil:
			one.advances, one.advanced = o.advances[i:i+1], o.advanced[i:i+1]
		default:
			one.reads, one.marked = o.reads[i:i+1], o.marked[i:i+1]
		}
		out[i] = one
	}
	return out
}

// parts are ops of one item each, whose outcomes are the op's own and which it waits
// for.
func (o *op) parts() []*op {
	out := o.split()
	for _, p := range out {
		if p != o {
			p.of, p.redo, p.at = o.whole(), o.redo, o.at
		}
	}
	return out
}

// whole is the op that a caller waits for.
func (o *op) whole() *op {
	if o.of != nil {
		return o.of
	}
	return o
}

// settle says that a part of the op has its outcome, or that the writer is through with
// it. The last one tells the caller.
func (o *op) settle(s *Store) {
	if o.left.Add(-1) > 0 {
		return
	}
	s.count(o)
	if !o.early {
		close(o.done)
	}
}

// size is the bytes of an op's bodies.
func (o *op) size() int {
	if o.of == nil || len(o.appends) == 0 {
		return o.bytes
	}
	return len(o.appends[0].Body) + len(o.appends[0].Ext)
}

// queue holds ops in the order in which they came.
type queue struct {
	maxItems int
	wake     chan struct{} // a token: something came, or the queue was closed

	mu     sync.Mutex
	ops    []*op
	items  int
	bytes  int
	closed bool
}

// push adds the ops of one call, all or none.
func (q *queue) push(ops []*op) error {
	items, bytes := 0, 0
	for _, o := range ops {
		o.done = make(chan struct{})
		items, bytes = items+o.items, bytes+o.bytes
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return closedError()
	}
	if q.items > 0 && (q.items+items > q.maxItems || q.bytes+bytes > maxQueueBytes) {
		err := impart.Errorf(impart.Overloaded, "%d writes wait for the disk; try again a little later", q.items)
		err.RetryAfter = retryAfter
		return err
	}
	q.ops = append(q.ops, ops...)
	q.items, q.bytes = q.items+items, q.bytes+bytes
	signal(q.wake)
	return nil
}

// take removes the ops of the next transaction: whole ones, as many as came, up
// to limit items and maxBatchBytes unless the first alone is larger. more is false at the end, when nothing will come.
func (q *queue) take(limit int, into []*op) (ops []*op, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	items, bytes, n := 0, 0, 0
	for _, o := range q.ops {
		if items > 0 && (items+o.items > limit || bytes+o.bytes > maxBatchBytes) {
			break
		}
		n++
		q.items, q.bytes = q.items-o.items, q.bytes-o.bytes
		if o.state.CompareAndSwap(opWaiting, opTaken) {
			items, bytes = items+o.items, bytes+o.bytes
			into = append(into, o)
		}
	}
	left := copy(q.ops, q.ops[n:])
	clear(q.ops[left:])
	q.ops = q.ops[:left]
	if cap(q.ops) > 1024 && left == 0 {
		q.ops = nil
	}
	if left > 0 && n > 0 {
		signal(q.wake) // for another writer of this queue
	}
	return into, !q.closed || left > 0
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	signal(q.wake)
}

func (q *queue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.items
}

// wait returns nil once the op has its outcome. When ctx ends first, an op that
// no transaction has taken yet is dropped, and one that was taken may still
// commit: either way the caller gets ctx's error and must not look at the op.
func (o *op) wait(ctx context.Context) error {
	select {
	case <-o.done:
		return nil
	default:
	}
	select {
	case <-o.done:
		return nil
	case <-ctx.Done():
		o.state.CompareAndSwap(opWaiting, opGone)
		return ctx.Err()
	}
}
