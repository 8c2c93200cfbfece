package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"

	"modernc.org/sqlite"
)

const (
	// checkpointPages is how many pages the write-ahead log takes up before they are
	// copied into the database file. The more at once, the fewer are copied twice, and
	// the longer a commit waits for the disk behind their flush: with 2,000 the slowest
	// of a hundred sends took twice as long, for 6 % more sends a second.
	checkpointPages = 250
	// restartPages is how long the log may grow before the writer finishes the
	// copying itself, so that the log starts again from its beginning: 16 MB, which
	// a restart after a crash reads in a few dozen milliseconds.
	restartPages = 4000
	// fewPages are copied in about the time of a commit. Past restartPages the
	// checkpointer goes on by itself while more than that is left, maxPasses times at
	// most: each pass leaves what was written meanwhile, which is less each time.
	fewPages  = 64
	maxPasses = 5
)

// checkpointer copies the write-ahead log into the database file beside the
// writer, on a connection of its own, so that commits do not wait for it. Alone
// it would never catch up with a busy writer, and the log would grow for ever;
// so past restartPages the writer copies the little that is left.
//
// SQLite flushes the database file only once the whole log is in it, which is when
// the writer finishes: what the passes before copied is flushed here, or everybody
// would wait for it there.
type checkpointer struct {
	db   *sql.DB
	file *os.File // the database's; see fileLock, which closes it
	log  *slog.Logger
	wake chan struct{} // pages may be waiting; closed at the end
	done chan struct{}
	// long holds a token when the log is long and the writer should finish it.
	long chan struct{}

	pages int // that the writer wrote since the last wake
}

func newCheckpointer(path string, file *os.File, log *slog.Logger) (*checkpointer, error) {
	db, err := sqlitePool(path, 1, nil)
	if err != nil {
		return nil, err
	}
	k := &checkpointer{
		db: db, file: file, log: log, wake: make(chan struct{}, 1), done: make(chan struct{}), long: make(chan struct{}, 1),
	}
	go k.run()
	return k, nil
}

func (k *checkpointer) run() {
	defer close(k.done)
	for range k.wake {
		length, err := k.pass()
		if err != nil {
			k.log.Warn("checkpoint failed", "error", err)
		}
		if length > restartPages {
			signal(k.long)
		}
	}
}

// pass copies the log, and again what was written meanwhile while that is more
// than the writer should wait for. It says how many pages the log has.
func (k *checkpointer) pass() (length int64, err error) {
	left := int64(fewPages + 1)
	for pass := 0; left > fewPages && pass < maxPasses && err == nil; pass++ {
		err = withConn(context.Background(), k.db, func(c *conn) (err error) {
			length, left, err = checkpoint(c)
			return err
		})
		err = errors.Join(err, k.file.Sync())
		if length <= restartPages {
			break
		}
	}
	return length, err
}

// checkpoint copies what it can without waiting for anybody and says how many
// pages the log has, and how many of them are left to copy.
func checkpoint(s session) (length, left int64, err error) {
	err = s.query("PRAGMA wal_checkpoint(PASSIVE)", func(r row) error {
		length, left = r.num(1), r.num(1)-r.num(2)
		return nil
	})
	return length, left, err
}

// committed implements [keeper]. SQLite counts the pages that a connection wrote.
func (k *checkpointer) committed(c *conn) {
	counts, ok := c.Conn.(sqlite.DBStatus)
	if !ok {
		return
	}
	pages, _, err := counts.Status(sqlite.DBStatusCacheWrite, true)
	if err != nil {
		k.log.Warn("pages of the log cannot be counted", "error", err)
	}
	if k.pages += pages; k.pages >= checkpointPages {
		k.pages = 0
		signal(k.wake)
	}
}

// behind implements [keeper].
func (k *checkpointer) behind() bool {
	select {
	case <-k.long:
		return true
	default:
		return false
	}
}

// catchUp implements [keeper].
func (k *checkpointer) catchUp(s session) error {
	k.pages = 0
	_, _, err := checkpoint(s)
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
