package sqlstore

import (
	"context"
	"database/sql"
	"io"

	"github.com/impart-im/impart/internal/store"
)

// dialect is what one kind of database does in its own way. The rules (plan.go,
// cursor.go, visible.go) and the queue know nothing of it, and the queries keep
// to what SQLite, PostgreSQL and MySQL have in common, except for those in sql.
type dialect struct {
	// writer has one connection, readers several; both are pools of [conn].
	writer, readers *sql.DB
	sql             statements
	// settings reports what D1 and D6 rest on.
	settings func(s session) ([]store.Setting, error)
	keeper   keeper
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
