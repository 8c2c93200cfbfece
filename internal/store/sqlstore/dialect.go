package sqlstore

import (
	"context"
	"database/sql"
	"io"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// engine is one kind of database: how it makes transactions, and what it does in
// its own way. The rules (plan.go, cursor.go, visible.go) and the queues know
// nothing of it, and the queries keep to what SQLite, PostgreSQL and MySQL have in
// common, except for those in [statements].
type engine interface {
	// read runs look in one read transaction: all its queries see the same state,
	// which holds every write that was answered before.
	read(ctx context.Context, look func(c session) error) error
	// transact runs ops in one transaction. An error means that none of it counts;
	// shared says that the error is everybody's: the transaction could not begin, or
	// what became of its commit is not known. A [rowsError] may be that of some ops
	// alone, and pass.
	transact(w *writer, ops []*op) (err error, shared bool)
	// stuck are those of groups of writes that nothing can be done about now, and why:
	// somebody else holds rows that they have to lock, or (see [final]) those rows are
	// damaged. Not every reason is found, and an error says nothing of any group. It
	// waits for nobody.
	stuck(groups []*group) (map[aim]error, error)
	// idle is told by a writer that everybody it wrote for has an answer.
	idle(w *writer)
	// window is the clock as [store.Log.Written] wants it, and since moved back as far
	// as that clock was set back since the last time.
	window(ctx context.Context, since impart.Millis) (now, from impart.Millis, err error)
	failover
	// index makes indexes that are not there.
	index(ctx context.Context, indexes []index) error
	// settings reports what D1 and D6 rest on.
	settings(s session) ([]store.Setting, error)
	// close ends everything that open started.
	close() error
}

// dialect is SQLite's engine.
type dialect struct {
	alone
	s *Store
	// writer has one connection, readers several; both are pools of [conn].
	writer, readers *sql.DB
	keeper          keeper
	// lock keeps other processes away until it is closed.
	lock io.Closer
}

// keeper looks after the database's own log, for the writer.
type keeper interface {
	// committed is told of a transaction, on the connection that made it, before
	// anybody is answered: it takes no time.
	committed(c *conn)
	// behind asks, once everybody is answered, whether the writer has to help, and
	// catchUp is that help.
	behind() bool
	catchUp(s session) error
	// close ends the keeper's goroutine.
	close()
}

// statements are those that are not written in the same way everywhere.
type statements struct {
	begin    string // a transaction that writes
	snapshot string // a transaction that reads one state
	commit   string
	rollback string
	// forUpdate is what a query ends with that keeps other transactions from changing
	// the rows it finds; "" where there is one writer.
	forUpdate string
	// clock reads the clock of a database that others write to too; "" where it is ours.
	clock string
	// written finds conversations by when they were written.
	written string
	// newUser makes a user known, if they are not.
	newUser string
	// putCursor and putRead write a cursor row, whether there is one or not.
	putCursor string
	putRead   string
}

// withConn takes the writer's or a reader's connection and runs f within it.
func withConn(ctx context.Context, db *sql.DB, f func(c *conn) error) error {
	held, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	err = held.Raw(func(driverConn any) error {
		c, _ := driverConn.(*conn)
		return f(c)
	})
	if closing := held.Close(); err == nil && closing != nil && closing != sql.ErrConnDone {
		err = closing
	}
	return err
}

// bulk is how a transaction reads and writes many rows at once, where each
// statement costs a round trip.
type bulk interface {
	// carryOut writes what the plan says.
	carryOut(p *plan) error
	// writeMoves writes the cursor rows as they are after all moves.
	writeMoves(m *moves) error
}
