package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// transact implements [engine].
func (p *pgEngine) transact(w *writer, ops []*op) (err error, shared bool) {
	return p.s.transact(w, ops, func(a *attempts) (fate, error) { return p.attempt(w, ops, a) }, asRefusal, rowTries)
}

// attempt is one transaction.
func (p *pgEngine) attempt(w *writer, ops []*op, a *attempts) (fate, error) {
	ctx, cancel := context.WithDeadline(p.identity.lifetime(), a.deadline)
	defer cancel()
	if err := p.identity.refusal(); err != nil {
		return failed, err
	}
	held, err := p.acquire(ctx, p.writers, p.readers)
	if err != nil {
		err = haltedOr(err)
		if refused(err) {
			p.writers.Reset()
		}
		return fateOf(err, false), err
	}
	defer held.Release()
	tx := &pgTxn{p: p, was: p.identity.before(), attempts: a, held: held}
	tx.pgSession = newSession(ctx, held, pgStatements.begin)
	if p.pooled {
		tx.later(setLocally)
	}
	if w.rowWait > 0 {
		tx.later(setWait, millis(w.rowWait))
	}
	tx.txn = &txn{session: tx.pgSession, writer: w, bulk: tx, redo: a.redo}
	outcome, err := tx.run(ops)
	if err == nil {
		return outcome, nil
	}
	if breaks(err) && !errors.Is(err, errAgain) && !errors.Is(err, errHook) && !refused(err) {
		_ = tx.conn.Close(ctx)
		p.writers.Reset() // what is idle died with it, most likely
	} else {
		tx.undo()
	}
	return outcome, err
}

// setLocally is what a session of our own is set to once, for one transaction.
// The promise of a commit is set whatever it was: a reload in the middle of the
// transaction must not lower it.
var setLocally = "SELECT set_config('synchronous_commit', " + flushed + ", true)" +
	" UNION ALL SELECT set_config('lock_timeout', '" + millis(rowWait) + "', true)" +
	" UNION ALL SELECT set_config('idle_in_transaction_session_timeout', '" + millis(idleTimeout) + "', true)"

// setWait is how long a transaction waits for a row, in ms.
const setWait = "SELECT set_config('lock_timeout', ?::text, true)"

// undo rolls back; a connection that cannot is closed, and the transaction ends
// with it.
func (t *pgTxn) undo() {
	t.queued = nil
	if t.conn.TxStatus() == 'I' {
		return
	}
	if err := t.send(pgQuery(pgStatements.rollback, nil)); err != nil {
		_ = t.conn.Close(t.ctx)
	}
}

// pgTxn is a transaction in PostgreSQL. It reads all that its ops need in one round
// trip, and writes all that they change in another one, with the COMMIT.
type pgTxn struct {
	*pgSession
	txn *txn

	p        *pgEngine
	held     *pgxpool.Conn
	attempts *attempts
	was      accepted // what was known when it began
	row      history  // what it has read of meta
	place    int64    // where the log ended when it began
	asked    bool     // the COMMIT has been sent
}

// run does ops and commits them.
func (t *pgTxn) run(ops []*op) (fate, error) {
	answered, err := t.txn.through(t, ops)
	if err != nil {
		return fateOf(err, t.asked), err
	}
	if !answered {
		t.p.identity.acknowledged(t.was, t.place, t.row.epoch)
	}
	return failed, nil
}

// refusal implements [attempt].
func (*pgTxn) refusal(err error) error { return asRefusal(err) }

// commit sends what was put off and the COMMIT.
func (t *pgTxn) commit() error {
	t.notify()
	around := t.p.s.opts.around
	if err := around.hold(func() error { return t.send() }); err != nil {
		return err
	}
	t.link.doubtful = false
	t.asked = true
	end := pgQuery(pgStatements.commit, nil)
	err := t.send(end)
	if err == nil && end.tag != pgStatements.commit {
		return fmt.Errorf("%w: COMMIT was answered with %s", errAgain, end.tag)
	}
	if err != nil {
		if fullQueue(err) {
			t.attempts.mute = true
		}
		return fmt.Errorf("commit: %w", err)
	}
	if t.link.doubtful {
		return errors.New("commit: the server warns that it is not where it should be")
	}
	return around.committed()
}

// idle implements [engine].
func (*pgEngine) idle(*writer) {}
