package sqlstore

import (
	"context"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// mySession is a [session] in MySQL. A round trip costs as much as the statement, so
// that statements go together, in one packet, where nobody waits for the first one's
// answer. Nothing is prepared: a statement of many rows has another text each time,
// and one that is bound to a connection would cost a round trip of its own. Values are
// written into the text as numbers and hexadecimal literals, in which nothing can be
// taken for SQL, whatever the character sets are.
type mySession struct {
	ctx    context.Context
	conn   *myConn
	queued []*myStatement // to be sent before the next one
	known  ahead
}

// myStatement is one statement of a round trip.
type myStatement struct {
	text string
	each func(row) error // nil for a statement that gives no rows
	rows int64           // how many it changed
}

func myQuery(query string, each func(row) error, args ...any) *myStatement {
	return &myStatement{text: interpolate(query, args), each: each}
}

// interpolate puts arguments in the places of a query that ? or $1 stand for. Types
// that other databases want to be told are left out.
func interpolate(query string, args []any) string {
	query = strings.ReplaceAll(query, "::bigint", "")
	if len(args) == 0 {
		return query
	}
	b := make([]byte, 0, len(query)+32*len(args))
	next := 0
	for i := 0; i < len(query); i++ {
		switch c := query[i]; {
		case c == '?':
			b = appendLiteral(b, args[next])
			next++
		case c == '$' && i+1 < len(query) && query[i+1] >= '1' && query[i+1] <= '9':
			i++
			b = appendLiteral(b, args[query[i]-'1'])
		default:
			b = append(b, c)
		}
	}
	return string(b)
}

// appendLiteral writes an argument.
func appendLiteral(b []byte, arg any) []byte {
	switch v := plain(arg).(type) {
	case nil:
		return append(b, "NULL"...)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case string:
		return appendText(b, v)
	case []byte:
		return appendText(b, v)
	default:
		return appendText(b, fmt.Sprint(v))
	}
}

// appendText writes a literal of bytes.
func appendText[S ~string | ~[]byte](b []byte, s S) []byte {
	b = append(b, "x'"...)
	at := len(b)
	b = append(b, make([]byte, hex.EncodedLen(len(s)))...)
	const digits = "0123456789abcdef"
	for i := range len(s) {
		b[at+2*i], b[at+2*i+1] = digits[s[i]>>4], digits[s[i]&15]
	}
	return append(b, '\'')
}

// exec implements [session].
func (t *mySession) exec(query string, args ...any) (int64, error) {
	s := myQuery(query, nil, args...)
	err := t.send(s)
	return s.rows, err
}

// query implements [session].
func (t *mySession) query(query string, each func(row) error, args ...any) error {
	if there, err := t.known.answer(query, each, args); there {
		return err
	}
	return t.send(myQuery(query, each, args...))
}

// later implements [deferring].
func (t *mySession) later(query string, args ...any) {
	t.queued = append(t.queued, myQuery(query, nil, args...))
}

// forget implements [deferring].
func (t *mySession) forget() { t.known = nil }

// prefetch implements [session]: all the answers come in one round trip.
func (t *mySession) prefetch(asks []ask) error {
	if t.known == nil {
		t.known = ahead{}
	}
	var statements []*myStatement
	for _, a := range asks {
		key := keyOfAsked(a.query, a.args)
		if _, there := t.known[key]; there {
			continue
		}
		t.known[key] = nil
		statements = append(statements, myQuery(a.query, func(r row) error {
			t.known[key] = append(t.known[key], append(row(nil), r...))
			return nil
		}, a.args...))
	}
	if len(statements) == 0 {
		return nil
	}
	return t.send(statements...)
}

// send sends statements, after those that were put off, and takes their answers: one
// round trip, or more where they are longer than a packet may be, or have to go alone. The first error ends
// it: the server does none of those after it.
func (t *mySession) send(statements ...*myStatement) error {
	if len(t.queued) > 0 {
		statements, t.queued = append(t.queued, statements...), nil
	}
	for len(statements) > 0 {
		n, size := 0, 0
		for n < len(statements) && (n == 0 || !t.conn.single && size+len(statements[n].text) < t.conn.packet) {
			size += len(statements[n].text) + 2
			n++
		}
		if err := t.conn.roundTrip(t.ctx, statements[:n], size); err != nil {
			return err
		}
		statements = statements[n:]
	}
	return nil
}

// roundTrip sends statements as one packet of about size bytes.
func (c *myConn) roundTrip(ctx context.Context, statements []*myStatement, size int) error {
	text := make([]byte, 0, size)
	asking := make([]*myStatement, 0, len(statements))
	for i, s := range statements {
		if i > 0 {
			text = append(text, ";\n"...)
		}
		text = append(text, s.text...)
		if s.each != nil {
			asking = append(asking, s)
		}
	}
	if len(asking) > 0 {
		return c.ask(ctx, string(text), asking)
	}
	done, err := c.Conn.(driver.ExecerContext).ExecContext(ctx, string(text), nil)
	if err != nil {
		return err
	}
	counts, ok := done.(mysql.Result)
	if !ok {
		return fmt.Errorf("sqlstore: the driver answers with %T", done)
	}
	for i, n := range counts.AllRowsAffected() {
		if i < len(statements) {
			statements[i].rows = n
		}
	}
	return nil
}

// ask sends a text some of whose statements give rows, and hands those out.
func (c *myConn) ask(ctx context.Context, text string, asking []*myStatement) (err error) {
	rows, err := c.Conn.(driver.QueryerContext).QueryContext(ctx, text, nil)
	if err != nil {
		return err
	}
	defer func() {
		if end := rows.Close(); err == nil {
			err = end
		}
	}()
	results, ok := rows.(driver.RowsNextResultSet)
	if !ok {
		return fmt.Errorf("sqlstore: the driver answers with %T", rows)
	}
	var failed error
	for i, s := range asking {
		if i > 0 {
			if err := results.NextResultSet(); err != nil {
				return err
			}
		}
		switch err, broken := s.take(rows); {
		case broken:
			return err
		case failed == nil:
			failed = err
		}
	}
	return failed
}

// take reads the rows of a statement. What is done with a row may fail; the statement
// is read to its end all the same. broken says that it could not be.
func (s *myStatement) take(rows driver.Rows) (err error, broken bool) {
	raw := make([]driver.Value, len(rows.Columns()))
	r := make(row, len(raw))
	each := s.each
	for {
		switch end := rows.Next(raw); {
		case errors.Is(end, io.EOF):
			return err, false
		case end != nil:
			return end, true
		}
		if each == nil {
			continue
		}
		for i, v := range raw {
			switch v := v.(type) {
			case []byte: // the driver's own
				r[i] = string(v)
			case uint64:
				r[i] = int64(v)
			default:
				r[i] = v
			}
		}
		if done := each(r); done != nil {
			if each = nil; !errors.Is(done, errEnough) {
				err = done
			}
		}
	}
}
