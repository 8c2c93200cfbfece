package sqlstore

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
)

// pgSession is a [session] in PostgreSQL. A round trip costs as much as the
// statement, so that statements are sent together where nobody waits for the first
// one's answer: the transaction's beginning goes with its first statement, and
// what was put off goes with the next one.
type pgSession struct {
	ctx    context.Context
	conn   *pgconn.PgConn
	link   *pgLink
	queued []*pgStatement // to be sent before the next one
	known  ahead
}

// pgLink is what is kept of a connection as long as it lives.
type pgLink struct {
	// prepared are the names of the statements that the connection knows; nil where
	// a pooler hands a connection to another after each transaction.
	prepared map[string]string
	named    int    // names given so far
	physical string // the history of the server behind it
	// adopted is the state of the identity that the connection was checked against.
	adopted int64
	// doubtful is set when the server has warned that a commit may not be where it
	// should be.
	doubtful bool
}

// pgStatement is one statement of a round trip.
type pgStatement struct {
	query   string // with ? or $1
	values  [][]byte
	formats []int16
	each    func(row) error // nil: no row is wanted
	rows    int64           // how many it found or changed
	tag     string          // what the server says it did
}

// asked is a query with its arguments.
type asked struct{ query, args string }

func pgQuery(query string, each func(row) error, args ...any) *pgStatement {
	s := &pgStatement{query: query, each: each}
	if len(args) > 0 {
		s.values, s.formats = make([][]byte, len(args)), make([]int16, len(args))
		for i, arg := range args {
			s.values[i], s.formats[i] = pgValue(arg)
		}
	}
	return s
}

// exec implements [session].
func (t *pgSession) exec(query string, args ...any) (int64, error) {
	s := pgQuery(query, nil, args...)
	err := t.send(s)
	return s.rows, err
}

// query implements [session].
func (t *pgSession) query(query string, each func(row) error, args ...any) error {
	if there, err := t.known.answer(query, each, args); there {
		return err
	}
	return t.send(pgQuery(query, each, args...))
}

// later sends a statement with the next one that is waited for.
func (t *pgSession) later(query string, args ...any) {
	t.queued = append(t.queued, pgQuery(query, nil, args...))
}

// forget implements [deferring].
func (t *pgSession) forget() { t.known = nil }

// send sends statements, after those that were put off, and takes their answers:
// one round trip. The first error ends it: the server does none of those after it.
func (t *pgSession) send(statements ...*pgStatement) error {
	if len(t.queued) > 0 {
		statements, t.queued = append(t.queued, statements...), nil
	}
	p := t.conn.StartPipeline(t.ctx)
	var preparing [][2]string // text and name; each has an answer of its own
	names := map[string]string{}
	steps := make([]*pgStatement, 0, len(statements)+4) // nil: the answer to a preparation
	for _, s := range statements {
		text := numbered(s.query)
		if t.link.prepared == nil {
			p.SendQueryParams(text, s.values, nil, s.formats, binaryResult)
			steps = append(steps, s)
			continue
		}
		name := t.link.prepared[text]
		if name == "" {
			name = names[text]
		}
		if name == "" {
			t.link.named++
			name = "s" + strconv.Itoa(t.link.named)
			names[text] = name
			p.SendPrepare(name, text, nil)
			preparing = append(preparing, [2]string{text, name})
			steps = append(steps, nil)
		}
		p.SendQueryPrepared(name, s.values, s.formats, binaryResult)
		steps = append(steps, s)
	}
	err := p.Sync()
	for _, s := range steps {
		if err != nil {
			break
		}
		var got any
		if got, err = p.GetResults(); err != nil {
			break
		}
		if s == nil {
			t.link.prepared[preparing[0][0]] = preparing[0][1]
			preparing = preparing[1:]
			continue
		}
		reader, ok := got.(*pgconn.ResultReader)
		if !ok {
			err = fmt.Errorf("sqlstore: PostgreSQL answered %T to %s", got, s.query)
			break
		}
		err = s.take(reader)
	}
	if closing := p.Close(); err == nil {
		err = closing
	}
	return err
}

var binaryResult = []int16{1}

// take reads the rows of a statement. What it does with a row may fail; the
// statement is read to its end all the same.
func (s *pgStatement) take(reader *pgconn.ResultReader) error {
	var failed error
	var r row
	each := s.each
	for reader.NextRow() {
		if each == nil || failed != nil {
			continue
		}
		if r == nil {
			r = make(row, len(reader.FieldDescriptions()))
		}
		fields := reader.FieldDescriptions()
		for i, raw := range reader.Values() {
			r[i] = pgDecode(fields[i].DataTypeOID, raw)
		}
		if err := each(r); errors.Is(err, errEnough) {
			each = nil
		} else if err != nil {
			failed = err
		}
	}
	tag, err := reader.Close()
	s.rows, s.tag = tag.RowsAffected(), tag.String()
	if err == nil {
		err = failed
	}
	return err
}

// prefetch implements [session]: all the answers come in one round trip.
func (t *pgSession) prefetch(asks []ask) error {
	if t.known == nil {
		t.known = ahead{}
	}
	var statements []*pgStatement
	for _, a := range asks {
		key := keyOfAsked(a.query, a.args)
		if _, there := t.known[key]; there {
			continue
		}
		t.known[key] = nil
		statements = append(statements, pgQuery(a.query, func(r row) error {
			t.known[key] = append(t.known[key], append(row(nil), r...))
			return nil
		}, a.args...))
	}
	if len(statements) == 0 {
		return nil
	}
	return t.send(statements...)
}

func keyOfAsked(query string, args []any) asked {
	var b []byte
	for _, arg := range args {
		raw, _ := pgValue(arg)
		b = binary.AppendUvarint(b, uint64(len(raw)))
		b = append(b, raw...)
	}
	return asked{query, string(b)}
}

// pgValue writes an argument: numbers as text, whose type the database works out,
// everything else as its bytes, which text and bytea have alike.
func pgValue(arg any) (value []byte, format int16) {
	if array, ok := arg.(pgArray); ok {
		return array, 1
	}
	switch v := plain(arg).(type) {
	case nil:
		return nil, 0
	case int64:
		return strconv.AppendInt(nil, v, 10), 0
	case string:
		return append(make([]byte, 0, len(v)), v...), 1
	case []byte:
		return v, 1
	default:
		return fmt.Append(nil, v), 0
	}
}

// Types of PostgreSQL, by their numbers.
const (
	oidBool  = 16
	oidBytea = 17
	oidInt8  = 20
	oidInt2  = 21
	oidInt4  = 23
	oidText  = 25
)

// pgDecode reads a value in the binary format.
func pgDecode(oid uint32, raw []byte) driver.Value {
	if raw == nil {
		return nil
	}
	switch oid {
	case oidInt8:
		return int64(binary.BigEndian.Uint64(raw))
	case oidInt4:
		return int64(int32(binary.BigEndian.Uint32(raw)))
	case oidInt2:
		return int64(int16(binary.BigEndian.Uint16(raw)))
	case oidBool:
		return int64(raw[0])
	default: // text, names and bytea are their bytes
		return string(raw)
	}
}

// pgArray is an array in the binary format.
type pgArray []byte

// arrayOf writes an array of n elements; put appends one of them and reports whether
// there is a value (false: NULL).
func arrayOf(oid uint32, n, size int, put func(b []byte, i int) ([]byte, bool)) pgArray {
	b := make([]byte, 0, 20+n*(4+size))
	dims := uint32(1)
	if n == 0 {
		dims = 0
	}
	b = binary.BigEndian.AppendUint32(b, dims)
	b = binary.BigEndian.AppendUint32(b, 1) // there may be NULLs
	b = binary.BigEndian.AppendUint32(b, oid)
	if n == 0 {
		return b
	}
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	b = binary.BigEndian.AppendUint32(b, 1) // the first index
	for i := range n {
		at := len(b)
		b = append(b, 0, 0, 0, 0)
		var there bool
		if b, there = put(b, i); !there {
			b = b[:at+4]
			binary.BigEndian.PutUint32(b[at:], 0xffffffff) // NULL
			continue
		}
		binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	}
	return b
}

// texts is an array of the texts that of gives for each item.
func texts[T any, S ~string](items []T, of func(*T) S) pgArray {
	return arrayOf(oidText, len(items), 16, func(b []byte, i int) ([]byte, bool) { return append(b, of(&items[i])...), true })
}

// numbers is an array of numbers.
func numbers[T any, N ~int64](items []T, of func(*T) N) pgArray {
	return arrayOf(oidInt8, len(items), 8, func(b []byte, i int) ([]byte, bool) {
		return binary.BigEndian.AppendUint64(b, uint64(of(&items[i]))), true
	})
}

// blobs is an array of bytes; nil is NULL.
func blobs[T any](items []T, of func(*T) []byte) pgArray {
	return arrayOf(oidBytea, len(items), 32, func(b []byte, i int) ([]byte, bool) {
		v := of(&items[i])
		return append(b, v...), v != nil
	})
}

var numberedTexts sync.Map // query with ? → with $1

// numbered is a query as PostgreSQL wants it.
func numbered(query string) string {
	if !strings.Contains(query, "?") {
		return query
	}
	if done, ok := numberedTexts.Load(query); ok {
		return done.(string)
	}
	var b strings.Builder
	n := 0
	for _, c := range query {
		if c != '?' {
			b.WriteRune(c)
			continue
		}
		n++
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(n))
	}
	numberedTexts.Store(query, b.String())
	return b.String()
}
