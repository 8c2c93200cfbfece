// Package rows looks at a server's database from outside, beside the server or
// without it: SQLite's file, or the tables of PostgreSQL or MySQL. It only reads, sees
// what has committed, and never waits for the server; it may be refused for a moment
// while a file is being recovered, and sees nothing of a database that is down.
package rows

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the drivers
	_ "modernc.org/sqlite"

	"github.com/impart-im/impart"
)

// DB is an open database.
type DB struct {
	db       *sql.DB
	postgres bool
	mysql    bool
}

// Open opens the database that dsn names, as the server's IM_STORE does:
// sqlite:PATH, postgres://… or mysql://….
func Open(dsn string) (*DB, error) {
	if path, is := strings.CutPrefix(dsn, "sqlite:"); is {
		return openFile(path)
	}
	if strings.HasPrefix(dsn, "mysql:") {
		return openMySQL(dsn)
	}
	return openPostgres(dsn)
}

// openMySQL opens a database of the first host of an address.
func openMySQL(dsn string) (*DB, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, errors.New("rows: the address of the database cannot be read")
	}
	cfg := mysql.NewConfig()
	cfg.User, cfg.DBName, cfg.Net = u.User.Username(), strings.Trim(u.Path, "/"), "tcp"
	cfg.Passwd, _ = u.User.Password()
	cfg.Addr, _, _ = strings.Cut(u.Host, ",")
	cfg.InterpolateParams, cfg.Logger = true, &mysql.NopLogger{}
	cfg.Timeout, cfg.ReadTimeout = 5*time.Second, 20*time.Second
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, errors.New("rows: the address of the database cannot be read")
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	return &DB{db: db, mysql: true}, nil
}

// openPostgres opens a database for reading alone.
func openPostgres(dsn string) (*DB, error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme != "postgres" {
		return nil, errors.New("rows: the address is neither sqlite:PATH nor postgres://… nor mysql://…") // not repeated: it may hold a password
	}
	query := u.Query()
	query.Set("application_name", "rows")
	query.Set("default_transaction_read_only", "on")
	query.Set("connect_timeout", "5")
	query.Set("statement_timeout", "20s")
	u.RawQuery = query.Encode()
	db, err := sql.Open("pgx", u.String())
	if err != nil {
		return nil, errors.New("rows: the address of the database cannot be read")
	}
	db.SetMaxOpenConns(1)
	return &DB{db: db, postgres: true}, nil
}

// openFile opens the file at path, which a server may be serving. Without a log
// beside it nobody serves it, and it is read as it stands.
func openFile(path string) (*DB, error) {
	query := url.Values{"mode": {"ro"}, "_pragma": {"query_only(1)", "busy_timeout(5000)"}}
	if _, err := os.Stat(path + "-wal"); errors.Is(err, os.ErrNotExist) {
		query.Set("immutable", "1")
	}
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("rows: %w", err)
	}
	name := url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, fmt.Errorf("rows: %w", err)
	}
	db.SetMaxOpenConns(1)
	return &DB{db: db}, nil
}

// Close closes the database.
func (d *DB) Close() error { return d.db.Close() }

// Served reports whether a server of its own answers for the database, so that it
// can stay open whatever happens beside it.
func (d *DB) Served() bool { return d.postgres || d.mysql }

// numbered is a query as the database wants it: PostgreSQL numbers its arguments.
func (d *DB) numbered(query string) string {
	if !d.postgres {
		return query
	}
	parts := strings.Split(query, "?")
	var b strings.Builder
	for i, part := range parts {
		if i > 0 {
			b.WriteString("$" + strconv.Itoa(i))
		}
		b.WriteString(part)
	}
	return b.String()
}

// number is the first column of the first row; 0 for none, and for null.
func (d *DB) number(ctx context.Context, query string, args ...any) (int64, error) {
	var n sql.NullInt64
	err := d.db.QueryRowContext(ctx, d.numbered(query), args...).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("rows: %s: %w", query, err)
	}
	return n.Int64, nil
}

// Sound is an error unless the database is sound: SQLite's file as a whole, MySQL's
// tables by its own check, of PostgreSQL each row, by reading it, and each index of a
// key against its table.
func (d *DB) Sound(ctx context.Context) error {
	if d.mysql {
		return d.checkTables(ctx)
	}
	if d.postgres {
		return d.soundTables(ctx)
	}
	var says string
	if err := d.db.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&says); err != nil {
		return fmt.Errorf("rows: the file is no sound database: %w", err)
	}
	if says != "ok" {
		return fmt.Errorf("rows: the file is no sound database: %s", says)
	}
	return nil
}

// checkTables has the server check its tables.
func (d *DB) checkTables(ctx context.Context) error {
	found, err := d.db.QueryContext(ctx, "CHECK TABLE events, msg_dedup, conversations, members, device_cursors, read_cursors")
	if err != nil {
		return fmt.Errorf("rows: the tables cannot be checked: %w", err)
	}
	defer found.Close()
	for found.Next() {
		var table, did, kind, says string
		if err := found.Scan(&table, &did, &kind, &says); err != nil {
			return err
		}
		if kind != "status" || says != "OK" {
			return fmt.Errorf("rows: %s is no sound table: %s", table, says)
		}
	}
	return found.Err()
}

// soundTables reads every row twice: from the table and by the index of its key.
func (d *DB) soundTables(ctx context.Context) (err error) {
	tx, err := d.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead}) // both ways see the same
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tx.Rollback()) }()
	for _, key := range []struct{ table, columns string }{
		{"events", "conv_id, seq"}, {"msg_dedup", "cmid, user_id"}, {"conversations", "conv_id"}, {"device_cursors", "user_id, device_id, conv_id"},
	} {
		counts := map[string]int64{}
		for _, way := range []string{"seqscan", "indexscan"} {
			n, err := countBy(ctx, tx, way, key.table, key.columns)
			if err != nil {
				return fmt.Errorf("rows: %s is no sound table: %w", key.table, err)
			}
			counts[way] = n
		}
		if counts["seqscan"] != counts["indexscan"] {
			return fmt.Errorf("rows: %s has %d rows and its key %d", key.table, counts["seqscan"], counts["indexscan"])
		}
	}
	return nil
}

// countBy counts the rows of a table in one way.
func countBy(ctx context.Context, tx *sql.Tx, way, table, columns string) (n int64, err error) {
	for _, other := range []string{"seqscan", "indexscan", "indexonlyscan", "bitmapscan"} {
		on := "off"
		if other == way || way == "indexscan" && other == "indexonlyscan" {
			on = "on"
		}
		if _, err := tx.ExecContext(ctx, "SET LOCAL enable_"+other+" = "+on); err != nil {
			return 0, err
		}
	}
	query := "SELECT count(DISTINCT t.ctid) FROM (SELECT ctid, t.* FROM " + table + " t ORDER BY " + columns + ") t"
	err = tx.QueryRowContext(ctx, query).Scan(&n)
	return n, err
}

// Event is what a check compares of a row of events.
type Event struct {
	Conv   impart.ConvID
	Seq    impart.Seq
	Kind   impart.Kind
	MID    impart.MID
	Sender impart.UserID
	CMID   impart.CMID
	Body   string
}

// Events are the rows of a conversation in order of seq; of all of them for "".
func (d *DB) Events(ctx context.Context, conv impart.ConvID) ([]Event, error) {
	query, args := "SELECT conv_id, seq, kind, mid, sender, cmid, body FROM events WHERE conv_id = ? ORDER BY conv_id, seq", []any{string(conv)}
	if conv == "" {
		query, args = strings.Replace(query, "WHERE conv_id = ? ", "", 1), nil
	}
	found, err := d.db.QueryContext(ctx, d.numbered(query), args...)
	if err != nil {
		return nil, fmt.Errorf("rows: events: %w", err)
	}
	defer found.Close()
	var all []Event
	for found.Next() {
		var e Event
		var body []byte
		if err := found.Scan(&e.Conv, &e.Seq, &e.Kind, &e.MID, &e.Sender, &e.CMID, &body); err != nil {
			return nil, fmt.Errorf("rows: events: %w", err)
		}
		e.Body = string(body)
		all = append(all, e)
	}
	return all, found.Err()
}

// Copies is how many rows hold the message with this cmid of a user.
func (d *DB) Copies(ctx context.Context, user impart.UserID, cmid impart.CMID) (int64, error) {
	return d.number(ctx, "SELECT count(*) FROM events WHERE sender = ? AND cmid = ?", string(user), string(cmid))
}

// Total is how many events there are in all conversations.
func (d *DB) Total(ctx context.Context) (int64, error) {
	return d.number(ctx, "SELECT count(*) FROM events")
}

// Sent is how many messages of a user there are.
func (d *DB) Sent(ctx context.Context, user impart.UserID) (int64, error) {
	return d.number(ctx, "SELECT count(*) FROM events WHERE sender = ?", string(user))
}

// Place is the seq of a user's message; 0 if it is not there.
func (d *DB) Place(ctx context.Context, user impart.UserID, cmid impart.CMID) (impart.Seq, error) {
	n, err := d.number(ctx, "SELECT min(seq) FROM events WHERE sender = ? AND cmid = ?", string(user), string(cmid))
	return impart.Seq(n), err
}

// Span is the time between the first event and the last one, by their own times.
func (d *DB) Span(ctx context.Context) (time.Duration, error) {
	n, err := d.number(ctx, "SELECT max(at) - min(at) FROM events")
	return time.Duration(n) * time.Millisecond, err
}

// InstallEpoch is that of a device; 0 if it is not known.
func (d *DB) InstallEpoch(ctx context.Context, user impart.UserID, device impart.DeviceID) (int64, error) {
	return d.number(ctx, "SELECT install_epoch FROM devices WHERE user_id = ? AND device_id = ?", string(user), string(device))
}

// Epoch is the one of the store.
func (d *DB) Epoch(ctx context.Context) (impart.Epoch, error) {
	n, err := d.number(ctx, "SELECT epoch FROM meta")
	return impart.Epoch(n), err
}

// Period is one membership: From to To, both included. To is 0 while it lasts.
type Period struct{ From, To impart.Seq }

// Covers reports whether seq lies in it.
func (p Period) Covers(seq impart.Seq) bool { return seq >= p.From && (p.To == 0 || seq <= p.To) }

// Periods are the memberships of a user in a conversation, the first one first.
func (d *DB) Periods(ctx context.Context, conv impart.ConvID, user impart.UserID) ([]Period, error) {
	found, err := d.db.QueryContext(ctx, d.numbered("SELECT from_seq, coalesce(to_seq, 0) FROM members WHERE conv_id = ? AND user_id = ? ORDER BY from_seq"),
		string(conv), string(user))
	if err != nil {
		return nil, fmt.Errorf("rows: members: %w", err)
	}
	defer found.Close()
	var all []Period
	for found.Next() {
		var p Period
		if err := found.Scan(&p.From, &p.To); err != nil {
			return nil, fmt.Errorf("rows: members: %w", err)
		}
		all = append(all, p)
	}
	return all, found.Err()
}

// Cursor is the delivery cursor of a device; 0 without a row.
func (d *DB) Cursor(ctx context.Context, user impart.UserID, device impart.DeviceID, conv impart.ConvID) (impart.Seq, error) {
	n, err := d.number(ctx, "SELECT delivered_seq FROM device_cursors WHERE user_id = ? AND device_id = ? AND conv_id = ?", string(user), string(device), string(conv))
	return impart.Seq(n), err
}

// LogFaults are holes, doubles and strays of the whole log: seed 002's query for
// a (conversation, seq) or a message that is there twice, and a log that is not
// 1 to its head.
func (d *DB) LogFaults(ctx context.Context) ([]string, error) {
	var faults []string
	for _, q := range []struct{ what, query string }{
		{"seqs are there twice", "SELECT count(*) FROM (SELECT 1 FROM events GROUP BY conv_id, seq HAVING count(*) > 1) AS found"},
		{"mids are there twice", "SELECT count(*) FROM (SELECT 1 FROM events GROUP BY mid HAVING count(*) > 1) AS found"},
		{"messages are there twice", "SELECT count(*) FROM (SELECT 1 FROM events WHERE cmid <> '' GROUP BY sender, cmid HAVING count(*) > 1) AS found"},
		{"conversations have a hole in their log", "SELECT count(*) FROM (SELECT 1 FROM events GROUP BY conv_id HAVING count(DISTINCT seq) <> max(seq) OR min(seq) <> 1) AS found"},
		{"conversations do not go on behind their last event", `SELECT count(*) FROM conversations c
			WHERE next_seq <> 1 + coalesce((SELECT max(seq) FROM events e WHERE e.conv_id = c.conv_id), 0)`},
		{"dedup keys name another message or none", `SELECT count(*) FROM msg_dedup k LEFT JOIN events e ON e.conv_id = k.conv_id AND e.seq = k.seq
			WHERE e.mid IS NULL OR e.mid <> k.mid`},
		{"cursors are past the head", `SELECT count(*) FROM device_cursors k JOIN conversations c USING (conv_id) WHERE k.delivered_seq >= c.next_seq`},
	} {
		n, err := d.number(ctx, q.query)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			faults = append(faults, fmt.Sprintf("%d %s", n, q.what))
		}
	}
	return faults, nil
}
