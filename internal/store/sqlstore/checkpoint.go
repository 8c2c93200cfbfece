package sqlstore

import (
	"context"
	"database/sql"
	"log/slog"
)

const (
	// checkpointFrames is how many pages the write-ahead log takes up, by estimate,
	// before they are copied into the database file. The more at once, the fewer
	// pages are copied twice.
	checkpointFrames = 2000
	// restartFrames is how long the log may grow before the writer finishes the
	// copying itself, so that the log starts again from its beginning: 16 MB, which
	// a restart after a crash reads in a few dozen milliseconds.
	restartFrames = 4000
)

// checkpointer copies the write-ahead log into the database file beside the
// writer, on a connection of its own, so that commits do not wait for it. Alone
// it would never catch up with a busy writer, and the log would grow for ever;
// so past restartFrames the writer copies the little that is left.
type checkpointer struct {
	db   *sql.DB
	log  *slog.Logger
	wake chan struct{} // pages may be waiting; closed at the end
	done chan struct{}
	// behind holds a token when the log is long and the writer should finish it.
	behind chan struct{}

	frames int // the writer's estimate since the last wake
}

func newCheckpointer(path string, log *slog.Logger) (*checkpointer, error) {
	db, err := sqlitePool(path, 1, nil)
	if err != nil {
		return nil, err
	}
	k := &checkpointer{
		db: db, log: log, wake: make(chan struct{}, 1), done: make(chan struct{}), behind: make(chan struct{}, 1),
	}
	go k.run()
	return k, nil
}

func (k *checkpointer) run() {
	defer close(k.done)
	for range k.wake {
		err := withConn(context.Background(), k.db, func(c *conn) error {
			length, err := checkpoint(c)
			if length > restartFrames {
				signal(k.behind)
			}
			return err
		})
		if err != nil {
			k.log.Warn("checkpoint failed", "error", err)
		}
	}
}

// checkpoint copies what it can without waiting for anybody and says how many
// frames the log has.
func checkpoint(s session) (length int64, err error) {
	err = s.query("PRAGMA wal_checkpoint(PASSIVE)", func(r row) error {
		length = r.num(1)
		return nil
	})
	return length, err
}

// wrote implements [keeper]. An item dirties about three pages, and a commit a
// few more.
func (k *checkpointer) wrote(items int) (behind bool) {
	k.frames += 4 + 3*items
	select {
	case <-k.behind:
		return true
	default:
	}
	if k.frames >= checkpointFrames {
		k.frames = 0
		signal(k.wake)
	}
	return false
}

// catchUp implements [keeper].
func (k *checkpointer) catchUp(s session) error {
	k.frames = 0
	_, err := checkpoint(s)
	return err
}

func (k *checkpointer) close() {
	close(k.wake)
	<-k.done
	if err := k.db.Close(); err != nil {
		k.log.Warn("closing the checkpointer's connection failed", "error", err)
	}
}

// signal leaves a token unless there is one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
