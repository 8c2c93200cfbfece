// Package sqlstore keeps a store's promises in an SQL database. What it answers
// has committed; what it has not answered may have committed or not, and a
// repeat of the same request finds out. It loses nothing that a flushed disk
// keeps, and it never answers before the commit.
//
// The rules are in files without I/O (plan.go, cursor.go, visible.go), the
// transactions are made by writers that share each commit among all who wait
// (queue.go, lanes.go, writer.go), what cannot be done now waits beside them without
// holding up the rest (divide.go, waitlist.go), and what is peculiar to a database is in its
// engine: SQLite's, which nobody else writes to, and PostgreSQL's and MySQL's, which
// other nodes do.
package sqlstore

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// Options of a store. The zero value is ready for use.
type Options struct {
	// Log gets warnings; nil: nothing is logged.
	Log *slog.Logger
	// MaxBatch is how many items share a commit at most; 0: 1,024.
	MaxBatch int
	// MaxQueue is how many items may wait for a commit; past it writes get
	// OVERLOADED. 0: 16,384.
	MaxQueue int
	// DedupRetention prepares for CleanDedup: it makes the index by which events
	// decide once dedup rows are gone. Without it the first cleaning makes the index.
	DedupRetention bool
	// NoGroupCommit gives every item a transaction of its own: the yardstick for
	// group commit, of no use otherwise.
	NoGroupCommit bool
	// Now is the store's clock; nil means the machine's, never set back. A store in a
	// database server goes by that one's clock, which all nodes have in common.
	Now func() impart.Millis

	// Notify tells other nodes of stored events by NOTIFY, in the transaction that
	// commits them (PostgreSQL; see internal/bus/pgbus).
	Notify bool
	// Node is what this node calls itself when it does, so that it knows its own word.
	Node string
	// Pooled says that a pooler stands before PostgreSQL which hands a connection to
	// another client after each transaction: nothing is kept in a session then.
	Pooled bool
	// Patience is how long a write to a database server is tried for before its outcome is
	// given up as unknown, or its connection as lost. 0: 15 s.
	Patience time.Duration

	hook   hook         // before every statement of SQLite's writer
	look   hook         // before every statement of a reader
	after  func() error // between SQLite's commit and its answer; its error makes the outcome unknown
	around *around      // commits of databases that several nodes write to
}

// around is what a test puts before a commit, where an error rolls back, and
// between it and its answer, where an error makes the outcome unknown.
type around struct {
	before, after atomic.Pointer[func() error]
}

// Store is a [store.Store].
type Store struct {
	opts    Options
	sql     statements
	engine  engine
	lanes   lanes
	writing sync.WaitGroup // the writers

	mu      sync.Mutex
	closed  bool
	reading sync.WaitGroup // holds off Close; added to under mu
	once    sync.Once
	closing error

	timesIndexed atomic.Bool // the index of [Store.DedupKeys] is there

	commits, items, dups, reads atomic.Int64
	opened                      time.Time
	slow                        slowest
	failing                     atomic.Bool // the last transaction failed, and not by a refusal
	failLog, stuckLog           sparing
	damageLog, rowLog           damageLog // of events, and of rows of conversations
}

var _ store.Store = (*Store)(nil)

// Open opens the store that dsn names, and brings its schema up to date:
//
//   - sqlite:PATH, a file that is made if it is not there, together with its folder.
//     It is an error when another process has the store open.
//   - postgres://… or postgresql://…, a database that is there, in which the role may
//     create tables. Any number of nodes may have it open.
//   - mysql://…, a database of MariaDB or MySQL that is there, in which the user has all
//     rights. Any number of nodes may have it open.
//
// It is an error when a newer binary has brought the schema further.
func Open(ctx context.Context, dsn string, opts Options) (store.Store, error) {
	s, err := open(ctx, dsn, opts)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func open(ctx context.Context, dsn string, opts Options) (*Store, error) {
	opts.setDefaults()
	s := &Store{opts: opts, opened: time.Now()}
	switch kind, path, _ := strings.Cut(dsn, ":"); {
	case kind == "sqlite":
		db, err := openSQLite(ctx, path, s)
		if err != nil {
			return nil, err
		}
		s.engine, s.sql = db, sqliteStatements
		s.startLanes(oneLane)
	case isPostgres(kind):
		db, err := openPostgres(ctx, dsn, s)
		if err != nil {
			return nil, err
		}
		s.engine, s.sql = db, pgStatements
		s.startLanes(pgLanes)
	case isMySQL(kind):
		db, err := openMySQL(ctx, dsn, s)
		if err != nil {
			return nil, err
		}
		s.engine, s.sql = db, myStatements
		s.startLanes(myLanes)
	default:
		return nil, unknownStore(dsn)
	}
	if opts.DedupRetention {
		if err := s.indexKeys(ctx); err != nil && s.Halted() == nil { // a halted store makes it with the first cleaning
			return nil, fmt.Errorf("store: cannot make the index for cleaning dedup rows: %w", joinClose(err, s))
		}
	}
	return s, nil
}

func (o *Options) setDefaults() {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxBatch <= 0 {
		o.MaxBatch = 1024
	}
	if o.MaxQueue <= 0 {
		o.MaxQueue = 16 << 10
	}
	if o.Patience <= 0 {
		o.Patience = patience
	}
	if o.Now == nil {
		o.Now = startClock()
	}
}

// redact keeps what may be a password out of an error.
func redact(dsn string) string {
	if at := strings.LastIndexByte(dsn, '@'); at >= 0 {
		return "…" + dsn[at:]
	}
	return dsn
}

func (s *Store) now() impart.Millis { return s.opts.Now() }

// read runs look in one read transaction: all its queries see the same state,
// which holds every write that was answered before. look may be called again.
func (s *Store) read(ctx context.Context, look func(c session) error) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.reading.Done()
	err := s.engine.read(ctx, look)
	s.tellDamage(err)
	return err
}

func (s *Store) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return closedError()
	}
	s.reading.Add(1)
	return nil
}

// write queues ops of one call and waits for the outcomes, a queue's refusal among
// them. An error is that of every op; the ops are the writers' then.
func (s *Store) write(ctx context.Context, ops ...*op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for rest := ops; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].lane == rest[0].lane {
			n++
		}
		if err := rest[0].lane.push(rest[:n]); err != nil {
			for _, o := range rest[:n] {
				o.fail(err)
				close(o.done)
			}
		}
		rest = rest[n:]
	}
	for _, o := range ops {
		if err := o.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// direct runs f by itself in a write transaction.
func (s *Store) direct(ctx context.Context, f func(tx *txn) error) error {
	o := &op{direct: f, items: 1, lane: s.lanes.direct}
	if err := s.write(ctx, o); err != nil {
		return err
	}
	return o.err
}

// Close implements [store.Upkeep].
func (s *Store) Close() error {
	s.once.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		for _, l := range s.lanes.all {
			l.close()
		}
		s.writing.Wait()
		s.reading.Wait()
		s.closing = s.engine.close()
	})
	return s.closing
}
