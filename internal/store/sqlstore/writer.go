package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/store"
)

// maxFailures is after how many failures in a row the ops that are left share
// the last one: the disk is at fault then, not an op.
const maxFailures = 8

// writer is the one goroutine that writes. Ops that come while it commits share
// its next transaction; a lone one waits for nobody.
type writer struct {
	s *Store
	caches

	batch    []*op
	appends  []*store.Append
	facts    []facts
	failures int // in a row, of ops that ran alone
}

// txn is one write transaction.
type txn struct {
	session
	*writer
	now impart.Millis // the store's clock, read when the transaction began
}

func (w *writer) run() {
	defer close(w.s.ended)
	limit := w.s.opts.MaxBatch
	if w.s.opts.NoGroupCommit {
		limit = 1
	}
	for more := true; more; {
		w.batch, more = w.s.queue.take(limit, w.batch[:0])
		if len(w.batch) == 0 {
			if more {
				<-w.s.queue.wake
			}
			continue
		}
		w.commit(w.batch)
		for _, o := range w.batch {
			w.s.count(o)
			if !o.early {
				close(o.done)
			}
		}
		clear(w.batch)
		if w.s.db.keeper.behind() {
			w.catchUp()
		}
	}
}

// catchUp keeps the database's log short. Those who waited for the transaction
// before have their answers by now.
func (w *writer) catchUp() {
	err := withConn(context.Background(), w.s.db.writer, func(c *conn) error { return w.s.db.keeper.catchUp(c) })
	if err != nil {
		w.s.opts.Log.Warn("checkpoint failed", "error", err)
	}
}

// commit gives every op its outcome, in as few transactions as it can: one, or
// one for each item when the shared one fails, so that only a bad item fails
// (D13).
func (w *writer) commit(ops []*op) {
	err, shared := w.transact(ops)
	if err == nil {
		return
	}
	if shared {
		for _, o := range ops {
			o.fail(err)
		}
		return
	}
	w.s.opts.Log.Warn("a transaction failed, its writes are done one by one", "error", err, "writes", len(ops))
	w.failures = 0
	for _, o := range ops {
		for _, one := range o.split() {
			w.alone(one, err)
		}
	}
}

// alone commits one item by itself.
func (w *writer) alone(o *op, last error) {
	if w.failures >= maxFailures {
		o.fail(last)
		return
	}
	if err, _ := w.transact([]*op{o}); err != nil {
		w.failures++
		o.fail(err)
		return
	}
	w.failures = 0
}

// transact runs ops in one transaction. An error means that none of it counts;
// shared says that the error is everybody's: the transaction could not begin, or
// what became of its commit is not known.
func (w *writer) transact(ops []*op) (err error, shared bool) {
	began := time.Now()
	w.s.began.Store(int64(began.Sub(w.s.opened)) + 1)
	defer w.s.began.Store(0)
	shared = true
	err = withConn(context.Background(), w.s.db.writer, func(c *conn) error {
		if _, err := c.exec(w.s.db.sql.begin); err != nil {
			// A transaction that is still open here would swallow the next one's writes.
			return errors.Join(err, driver.ErrBadConn)
		}
		tx := &txn{session: c, writer: w, now: w.s.now()}
		if err := tx.apply(ops); err != nil {
			shared = len(ops) == 1 && ops[0].items == 1
			return w.rollback(c, err)
		}
		if fault.Planted(fault.SentBeforeCommit) {
			w.answerEarly(ops)
		}
		if _, err := c.exec(w.s.db.sql.commit); err != nil {
			return w.rollback(c, fmt.Errorf("commit: %w", err))
		}
		w.s.committed(began)
		w.s.db.keeper.committed(c)
		if w.s.opts.after != nil {
			return w.s.opts.after()
		}
		return nil
	})
	if err != nil {
		w.caches.clear()
	}
	w.s.failing.Store(err != nil && !refused(err))
	return err, shared
}

// rollback undoes the transaction; a connection that cannot is thrown away.
func (w *writer) rollback(c *conn, err error) error {
	if _, undo := c.Conn.(driver.ExecerContext).ExecContext(context.Background(), w.s.db.sql.rollback, nil); undo != nil {
		// SQLite has rolled back by itself where the disk failed. Either way the
		// connection's state is in doubt.
		return errors.Join(err, driver.ErrBadConn)
	}
	return err
}

// answerEarly is what a store does that lacks D1: the promise before the commit.
func (w *writer) answerEarly(ops []*op) {
	for _, o := range ops {
		o.early = true
		close(o.done)
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
