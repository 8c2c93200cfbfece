// Package rows looks at a server's database file from outside, beside the server
// or without it. It only reads, sees what has committed, and never waits for the
// server; it may be refused for a moment while the file is being recovered.
package rows

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"

	_ "modernc.org/sqlite" // the driver

	"github.com/impart-im/impart"
)

// DB is an open database file.
type DB struct{ db *sql.DB }

// Open opens the file at path, which a server may be serving. Without a log
// beside it nobody serves it, and it is read as it stands.
func Open(path string) (*DB, error) {
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
	return &DB{db}, nil
}

// Close closes the file.
func (d *DB) Close() error { return d.db.Close() }

// Number is the first column of the first row; 0 for none, and for null.
func (d *DB) Number(ctx context.Context, query string, args ...any) (int64, error) {
	var n sql.NullInt64
	err := d.db.QueryRowContext(ctx, query, args...).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("rows: %s: %w", query, err)
	}
	return n.Int64, nil
}

// Sound is an error unless the file is a sound database.
func (d *DB) Sound(ctx context.Context) error {
	var says string
	if err := d.db.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&says); err != nil {
		return fmt.Errorf("rows: the file is no sound database: %w", err)
	}
	if says != "ok" {
		return fmt.Errorf("rows: the file is no sound database: %s", says)
	}
	return nil
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
	found, err := d.db.QueryContext(ctx, `SELECT conv_id, seq, kind, mid, sender, cmid, body FROM events
		WHERE ? = '' OR conv_id = ? ORDER BY conv_id, seq`, conv, conv)
	if err != nil {
		return nil, fmt.Errorf("rows: events: %w", err)
	}
	defer found.Close()
	var all []Event
	for found.Next() {
		var e Event
		if err := found.Scan(&e.Conv, &e.Seq, &e.Kind, &e.MID, &e.Sender, &e.CMID, &e.Body); err != nil {
			return nil, fmt.Errorf("rows: events: %w", err)
		}
		all = append(all, e)
	}
	return all, found.Err()
}

// Copies is how many rows hold the message with this cmid of a user.
func (d *DB) Copies(ctx context.Context, user impart.UserID, cmid impart.CMID) (int64, error) {
	return d.Number(ctx, "SELECT count(*) FROM events WHERE sender = ? AND cmid = ?", user, cmid)
}

// Cursor is the delivery cursor of a device; 0 without a row.
func (d *DB) Cursor(ctx context.Context, user impart.UserID, device impart.DeviceID, conv impart.ConvID) (impart.Seq, error) {
	n, err := d.Number(ctx, "SELECT delivered_seq FROM device_cursors WHERE user_id = ? AND device_id = ? AND conv_id = ?", user, device, conv)
	return impart.Seq(n), err
}

// LogFaults are holes, doubles and strays of the whole log: seed 002's query for
// a (conversation, seq) or a message that is there twice, and a log that is not
// 1 to its head.
func (d *DB) LogFaults(ctx context.Context) ([]string, error) {
	var faults []string
	for _, q := range []struct{ what, query string }{
		{"seqs are there twice", "SELECT count(*) FROM (SELECT 1 FROM events GROUP BY conv_id, seq HAVING count(*) > 1)"},
		{"mids are there twice", "SELECT count(*) FROM (SELECT 1 FROM events GROUP BY mid HAVING count(*) > 1)"},
		{"messages are there twice", "SELECT count(*) FROM (SELECT 1 FROM events WHERE cmid <> '' GROUP BY sender, cmid HAVING count(*) > 1)"},
		{"conversations have a hole in their log", "SELECT count(*) FROM (SELECT 1 FROM events GROUP BY conv_id HAVING count(DISTINCT seq) <> max(seq) OR min(seq) <> 1)"},
		{"conversations do not go on behind their last event", `SELECT count(*) FROM conversations c
			WHERE next_seq <> 1 + coalesce((SELECT max(seq) FROM events e WHERE e.conv_id = c.conv_id), 0)`},
		{"dedup keys name another message or none", `SELECT count(*) FROM msg_dedup k LEFT JOIN events e ON e.conv_id = k.conv_id AND e.seq = k.seq
			WHERE e.mid IS NOT k.mid`},
		{"cursors are past the head", `SELECT count(*) FROM device_cursors k JOIN conversations c USING (conv_id) WHERE k.delivered_seq >= c.next_seq`},
	} {
		n, err := d.Number(ctx, q.query)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			faults = append(faults, fmt.Sprintf("%d %s", n, q.what))
		}
	}
	return faults, nil
}
