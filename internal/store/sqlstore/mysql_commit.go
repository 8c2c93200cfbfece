package sqlstore

import (
	"context"
	"errors"
	"fmt"
)

// transact implements [engine].
func (m *myEngine) transact(w *writer, ops []*op) (err error, shared bool) {
	return m.s.transact(w, ops, func(a *attempts) (fate, error) { return m.attempt(w, ops, a) }, myRefusal, myRowTries)
}

// attempt is one transaction.
func (m *myEngine) attempt(w *writer, ops []*op, a *attempts) (outcome fate, err error) {
	ctx, cancel := context.WithDeadline(m.identity.lifetime(), a.deadline)
	defer cancel()
	if err := m.identity.refusal(); err != nil {
		return failed, err
	}
	began := false
	err = m.writers.with(ctx, func(c *myConn) error {
		began = true
		tx := &myTxn{m: m, was: m.identity.before()}
		tx.mySession = &mySession{ctx: ctx, conn: c}
		tx.later(myCommitted)
		tx.later(myBegin)
		tx.txn = &txn{session: tx.mySession, writer: w, bulk: tx, redo: a.redo}
		var err error
		if outcome, err = tx.run(ops); err == nil {
			return nil
		}
		if myBreaks(err) && !errors.Is(err, errAgain) && !errors.Is(err, errHook) && !refused(err) {
			c.broken = true
			m.reset() // what is idle died with it, most likely
		} else {
			tx.undo()
		}
		return err
	})
	switch {
	case err == nil:
		return outcome, nil
	case !began && refused(err):
		m.reset()
		return failed, err
	case !began:
		return passing, err
	}
	return outcome, err
}

// myTxn is a transaction in MySQL. It reads all that its ops need in one round trip,
// and writes all that they change in another one, with the COMMIT.
type myTxn struct {
	*mySession
	txn *txn

	m      *myEngine
	was    accepted // what was known when it began
	row    history  // what it has read of meta
	place  int64    // where the log ended when it began
	placed bool     // that was looked at
	asked  bool     // the COMMIT has been sent
}

// undo rolls back; a connection that cannot is given up, and the transaction ends with
// it.
func (t *myTxn) undo() {
	if t.queued = nil; t.send(&myStatement{text: myStatements.rollback}) != nil {
		t.conn.broken = true
	}
}

// run does ops and commits them.
func (t *myTxn) run(ops []*op) (fate, error) {
	answered, err := t.txn.through(t, ops)
	if err != nil {
		return myFate(err, t.asked), err
	}
	if !answered {
		t.m.identity.acknowledged(t.was, t.place, t.row.epoch)
	}
	return failed, nil
}

// refusal implements [attempt].
func (*myTxn) refusal(err error) error { return myRefusal(err) }

// commit sends what was put off and the COMMIT.
func (t *myTxn) commit() error {
	around := t.m.s.opts.around
	if err := around.hold(func() error { return t.send() }); err != nil {
		return err
	}
	t.asked = true
	if err := t.send(&myStatement{text: myStatements.commit}); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return around.committed()
}
