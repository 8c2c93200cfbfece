package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
)

// read implements [engine].
func (d *dialect) read(ctx context.Context, look func(c session) error) error {
	return withConn(ctx, d.readers, func(c *conn) error {
		c.ctx = ctx
		defer func() { c.ctx = nil }()
		if _, err := c.exec(sqliteStatements.snapshot); err != nil {
			return err
		}
		d.s.reads.Add(1)
		err := look(c)
		if _, end := c.exec(sqliteStatements.rollback); end != nil && err == nil {
			err = end
		}
		return err
	})
}

// transact implements [engine].
func (d *dialect) transact(w *writer, ops []*op) (err error, shared bool) {
	began := time.Now()
	w.began.Store(int64(began.Sub(w.s.opened)) + 1)
	defer w.began.Store(0)
	shared = true
	err = withConn(context.Background(), d.writer, func(c *conn) error {
		if _, err := c.exec(sqliteStatements.begin); err != nil {
			// A transaction that is still open here would swallow the next one's writes.
			return errors.Join(err, driver.ErrBadConn)
		}
		tx := &txn{session: c, writer: w, now: w.s.now()}
		if err := tx.apply(ops); err != nil {
			shared = len(ops) == 1 && ops[0].items == 1
			return d.rollback(c, err)
		}
		if fault.Planted(fault.SentBeforeCommit) {
			w.answerEarly(ops)
		}
		if _, err := c.exec(sqliteStatements.commit); err != nil {
			return d.rollback(c, fmt.Errorf("commit: %w", err))
		}
		w.s.committed(began)
		d.keeper.committed(c)
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

// stuck implements [engine]: there is one writer.
func (*dialect) stuck([]*group) (map[aim]error, error) { return nil, nil }

// rollback undoes the transaction; a connection that cannot is thrown away.
func (d *dialect) rollback(c *conn, err error) error {
	if _, undo := c.Conn.(driver.ExecerContext).ExecContext(context.Background(), sqliteStatements.rollback, nil); undo != nil {
		// SQLite has rolled back by itself where the disk failed. Either way the
		// connection's state is in doubt.
		return errors.Join(err, driver.ErrBadConn)
	}
	return err
}

// idle implements [engine]: it keeps the database's log short. Those who waited for the transaction
// before have their answers by now.
func (d *dialect) idle(*writer) {
	if !d.keeper.behind() {
		return
	}
	err := withConn(context.Background(), d.writer, func(c *conn) error { return d.keeper.catchUp(c) })
	if err != nil {
		d.s.opts.Log.Warn("checkpoint failed", "error", err)
	}
}

// window implements [engine]: the store's clock is never set back, and there is one
// writer, of whose commits Slowest tells.
func (d *dialect) window(_ context.Context, since impart.Millis) (now, from impart.Millis, err error) {
	return d.s.now(), since, nil
}

// index implements [engine], in a transaction: while it lasts nobody else writes.
func (d *dialect) index(ctx context.Context, indexes []index) error {
	return d.s.direct(ctx, func(tx *txn) error {
		for _, x := range indexes {
			if _, err := tx.exec("CREATE INDEX IF NOT EXISTS " + x.name + " " + x.on); err != nil {
				return err
			}
		}
		return nil
	})
}
