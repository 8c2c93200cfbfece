package sqlstore

import (
	"sync/atomic"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/store"
)

// maxFailures is after how many failures in a row the ops that are left share
// the last one: the disk is at fault then, not an op.
const maxFailures = 8

// writer is a goroutine that writes. Ops that come while it commits share its next
// transaction; a lone one waits for nobody. SQLite has one.
type writer struct {
	s     *Store
	lane  *lane
	limit int // items in a transaction
	caches
	memberships // outlive a transaction where others write too
	tails       tails

	batch    []*op
	appends  []*store.Append
	facts    []facts
	failures int           // in a row, since a batch was divided
	rowWait  time.Duration // how long a transaction waits for a row; 0: as long as the session says
	again    bool          // it does what waits aside: it tries each once, since it comes back
	began    atomic.Int64  // when the transaction under way began, in ns after the store was opened, plus 1; 0: none
}

// txn is one write transaction.
type txn struct {
	session
	*writer
	now impart.Millis // the store's clock, read when the transaction began

	bulk  bulk                           // nil: row by row
	keys  map[dedupKey]*dedupRow         // those that were read in bulk, nil for a free one; nil: none were
	redo  bool                           // the transaction may have committed before, and nobody was told
	wakes map[impart.ConvID]*bus.Message // what others have to be told of when it commits
}

// stored notes an event of the transaction, and the members' version after it.
func (tx *txn) stored(conv impart.ConvID, seq impart.Seq, members int64) {
	if !tx.s.opts.Notify {
		return
	}
	if tx.wakes == nil {
		tx.wakes = map[impart.ConvID]*bus.Message{}
	}
	w := tx.wakes[conv]
	if w == nil {
		w = &bus.Message{Kind: bus.Wake, Conv: conv, From: seq}
		tx.wakes[conv] = w
	}
	w.From, w.Head, w.Members = min(w.From, seq), max(w.Head, seq), max(w.Members, members)
}

func (w *writer) run() {
	for more := true; more; {
		w.batch, more = w.lane.take(w.limit, w.batch[:0])
		if len(w.batch) == 0 {
			if more {
				<-w.lane.wake
			}
			continue
		}
		for _, o := range w.batch {
			o.left.Store(1)
		}
		if ops := w.lane.waitlist.divert(w, w.batch); len(ops) > 0 {
			w.commit(ops)
		}
		for _, o := range w.batch {
			o.settle(w.s)
		}
		clear(w.batch)
		w.s.engine.idle(w)
	}
	signal(w.lane.wake) // for the others of this lane
}

// commit gives every op its outcome, in as few transactions as it can: one, or
// one for each item when the shared one fails, so that only a bad item fails
// (D13). What cannot be done now waits aside.
func (w *writer) commit(ops []*op) {
	err, shared := w.s.engine.transact(w, ops)
	switch {
	case err == nil:
	case ofRows(err):
		w.divide(ops, err)
	case shared:
		for _, o := range ops {
			o.fail(err)
		}
	default:
		if more, ok := w.s.failLog.next(); ok {
			items := 0
			for _, o := range ops {
				items += o.items
			}
			w.s.opts.Log.Warn("a transaction failed, its writes are done one by one", "error", err, "writes", items, "unlogged", more)
		}
		left := w.oneByOne(ops, err)
		w.tell(left, err)
		w.lane.waitlist.add(w, left)
	}
}

// answerEarly is what a store does that lacks D1: the promise before the commit.
func (w *writer) answerEarly(ops []*op) {
	for _, o := range ops {
		if !o.early && o.done != nil { // it may be tried again, and nobody waits for a part
			o.early = true
			close(o.done)
		}
	}
	time.Sleep(5 * time.Millisecond)
}

// apply runs ops in order. Between two direct ones all are under way at once, so
// that any order is right: messages first, then cursors.
func (tx *txn) apply(ops []*op) error {
	for len(ops) > 0 {
		n := 0
		for n < len(ops) && ops[n].direct == nil {
			n++
		}
		if err := tx.applyShared(ops[:n]); err != nil {
			return err
		}
		if n < len(ops) {
			if err := tx.applyDirect(ops[n]); err != nil {
				return err
			}
			n++
		}
		ops = ops[n:]
	}
	return nil
}

func (tx *txn) applyShared(ops []*op) error {
	if err := tx.appendAll(ops); err != nil {
		return err
	}
	return tx.moveCursors(ops)
}

// applyDirect runs an op by itself and undoes it when it is refused.
func (tx *txn) applyDirect(o *op) error {
	if _, err := tx.exec("SAVEPOINT op"); err != nil {
		return err
	}
	o.err = o.direct(tx)
	if o.err != nil {
		if !refused(o.err) {
			return o.err
		}
		if _, err := tx.exec("ROLLBACK TO SAVEPOINT op"); err != nil {
			return err
		}
	}
	_, err := tx.exec("RELEASE SAVEPOINT op")
	return err
}
