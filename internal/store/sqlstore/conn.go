package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	"github.com/impart-im/impart"
)

// session is one connection inside one transaction: all that the rules need of a
// database. Statements are written with ? and have fixed texts, so that each is
// prepared once per connection.
type session interface {
	// exec runs a statement and reports how many rows it changed.
	exec(query string, args ...any) (int64, error)
	// query calls each for every row, in order; errEnough from it ends the query
	// without an error. The row is only valid during the call, its strings are for
	// keeps.
	query(query string, each func(r row) error, args ...any) error
	// prefetch reads, all at once, what query will be asked next with the same texts
	// and arguments. It is for rows that do not change in the meantime, and does
	// nothing where a query costs no round trip.
	prefetch(asks []ask) error
}

// ask is a query that will be asked.
type ask struct {
	query string
	args  []any
}

// errEnough ends a query early.
var errEnough = errors.New("enough rows")

// row is one row of a result.
type row []driver.Value

func (r row) null(i int) bool { return r[i] == nil }

func (r row) num(i int) int64 {
	n, _ := r[i].(int64)
	return n
}

func (r row) seq(i int) impart.Seq { return impart.Seq(r.num(i)) }

func (r row) str(i int) string {
	switch v := r[i].(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}

func (r row) bytes(i int) []byte {
	switch v := r[i].(type) {
	case []byte:
		return v
	case string:
		return []byte(v)
	}
	return nil
}

// conn is a pooled connection with the statements it has prepared. It bypasses
// the row-by-row conversions of database/sql, which cost more here than the
// database itself; the pool is still database/sql's.
type conn struct {
	driver.Conn
	hook  hook
	stmts map[string]*statement
	args  []driver.NamedValue
	// ctx is looked at between rows. It is not given to the driver, which would
	// start a goroutine for each statement.
	ctx context.Context
}

// hook is what a test puts before every statement; an error takes the statement's
// place.
type hook func(query string, args []any) error

type statement struct {
	driver.Stmt
	dest []driver.Value
	busy bool
}

// connector opens connections to one file for one purpose.
type connector struct {
	driver.Connector
	hook hook
}

// Connect implements [driver.Connector].
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	raw, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: raw, hook: c.hook, stmts: map[string]*statement{}}, nil
}

// Unwrap gives the driver's own connection.
func (c *conn) Unwrap() driver.Conn { return c.Conn }

// IsValid implements [driver.Validator].
func (c *conn) IsValid() bool {
	v, ok := c.Conn.(driver.Validator)
	return !ok || v.IsValid()
}

// Close implements [driver.Conn].
func (c *conn) Close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.Close())
	}
	clear(c.stmts)
	return errors.Join(append(errs, c.Conn.Close())...)
}

// statement prepares a query, once.
func (c *conn) statement(query string) (*statement, error) {
	if s := c.stmts[query]; s != nil {
		if s.busy {
			return nil, fmt.Errorf("sqlstore: query inside itself: %s", query)
		}
		return s, nil
	}
	prepared, err := c.Prepare(query)
	if err != nil {
		return nil, fmt.Errorf("prepare %q: %w", query, err)
	}
	s := &statement{Stmt: prepared}
	c.stmts[query] = s
	return s, nil
}

func (c *conn) exec(query string, args ...any) (int64, error) {
	if c.hook != nil {
		if err := c.hook(query, args); err != nil {
			return 0, err
		}
	}
	s, err := c.statement(query)
	if err != nil {
		return 0, err
	}

	done, err := s.Stmt.(driver.StmtExecContext).ExecContext(context.Background(), c.values(args))
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

func (c *conn) query(query string, each func(row) error, args ...any) (err error) {
	if c.hook != nil {
		if err := c.hook(query, args); err != nil {
			return err
		}
	}
	s, err := c.statement(query)
	if err != nil {
		return err
	}

	rows, err := s.Stmt.(driver.StmtQueryContext).QueryContext(context.Background(), c.values(args))
	if err != nil {
		return err
	}
	s.busy = true
	defer func() {
		s.busy = false
		err = errors.Join(err, rows.Close())
	}()
	if s.dest == nil {
		s.dest = make([]driver.Value, len(rows.Columns()))
	}
	for n := 1; ; n++ {
		switch err := rows.Next(s.dest); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		switch err := each(s.dest); {
		case errors.Is(err, errEnough):
			return nil
		case err != nil:
			return err
		}
		if c.ctx != nil && n%64 == 0 && c.ctx.Err() != nil {
			return c.ctx.Err()
		}
	}
}

// prefetch implements [session].
func (*conn) prefetch([]ask) error { return nil }

// values are args as the driver wants them, valid until the next statement.
func (c *conn) values(args []any) []driver.NamedValue {
	c.args = c.args[:0]
	for i, arg := range args {
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: plain(arg)})
	}
	return c.args
}

// plain takes the type off an id or a number.
func plain(v any) driver.Value {
	switch v := v.(type) {
	case impart.ConvID:
		return string(v)
	case impart.UserID:
		return string(v)
	case impart.DeviceID:
		return string(v)
	case impart.CMID:
		return string(v)
	case impart.MID:
		return string(v)
	case impart.Kind:
		return string(v)
	case impart.ConvKind:
		return string(v)
	case impart.History:
		return string(v)
	case impart.Role:
		return string(v)
	case impart.Seq:
		return int64(v)
	case impart.Epoch:
		return int64(v)
	case impart.InstallEpoch:
		return int64(v)
	case impart.Millis:
		return int64(v)
	case int:
		return int64(v)
	case bool:
		if v {
			return int64(1)
		}
		return int64(0)
	case []byte:
		if v == nil {
			return nil
		}
		return v
	default:
		return v
	}
}
