package client

import (
	"context"
	"crypto/rand"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the driver of the local store

	"github.com/impart-im/impart"
)

//go:embed schema.sql
var schema string

// schemaVersion is what PRAGMA user_version says of a store made by schema.
const schemaVersion = 2

// store is the local store. One connection holds the file exclusively, so that
// two processes cannot share an outbox, and each transaction is flushed to the
// disk before it counts.
type store struct{ db *sql.DB }

// self is who a store belongs to, and how often it was written.
type self struct {
	User         impart.UserID // "" until the first welcome
	Device       impart.DeviceID
	Install      string
	InstallEpoch impart.InstallEpoch // 0 until the first welcome
	N            int64
	Epoch        impart.Epoch // 0 until the first welcome
}

// openStore opens or makes the store at path ("": in memory) for a user's device;
// with the user "" it is whose it was, or whose the first token is.
func openStore(ctx context.Context, path string, user impart.UserID, device impart.DeviceID) (*store, error) {
	source := ":memory:"
	if path != "" {
		absolute, err := filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("client: the store %s: %w", path, err)
		}
		if err := makePrivate(absolute); err != nil {
			return nil, fmt.Errorf("client: the store %s: %w", path, err)
		}
		source = (&url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(absolute)}).String()
	}
	pragmas := url.Values{"_txlock": {"immediate"}, "_pragma": {
		"locking_mode(EXCLUSIVE)", "busy_timeout(200)", "journal_mode(WAL)", "synchronous(FULL)", "secure_delete(ON)",
	}}
	db, err := sql.Open("sqlite", source+"?"+pragmas.Encode())
	if err != nil {
		return nil, fmt.Errorf("client: the store %s: %w", path, err)
	}
	db.SetMaxOpenConns(1)
	db.SetConnMaxIdleTime(0)
	s := &store{db: db}
	if err := s.prepare(ctx, user, device); err != nil {
		_ = db.Close()
		if strings.Contains(err.Error(), "SQLITE_BUSY") {
			err = ErrInUse
		}
		return nil, fmt.Errorf("client: the store %s: %w", path, err)
	}
	return s, nil
}

// makePrivate makes a new store's file one that only its owner can read; what
// SQLite puts beside it follows. A file that is there is not even opened: closing
// it would take the lock away that another client of this process has on it.
func makePrivate(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// prepare makes the tables of a new store, and checks what an older one says.
func (s *store) prepare(ctx context.Context, user impart.UserID, device impart.DeviceID) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		var version int
		if err := tx.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
			return err
		}
		switch version {
		case schemaVersion:
		case 0:
			var others int
			if err := tx.QueryRow("SELECT count(*) FROM sqlite_schema").Scan(&others); err != nil {
				return err
			}
			if others > 0 {
				return errors.New("it is another program's database; give the client a file of its own")
			}
			if _, err := tx.Exec(schema); err != nil {
				return fmt.Errorf("it is no store of a client, and cannot become one: %w", err)
			}
			if _, err := tx.Exec(fmt.Sprintf("PRAGMA user_version = %d", schemaVersion)); err != nil {
				return err
			}
			return run(tx, "INSERT INTO self VALUES (1, ?, ?, ?, 0, 0, 0)", user, device, rand.Text())
		case 1:
			return errors.New("it is of a version that was never released, and cannot be taken over; give the client a new file")
		default:
			return fmt.Errorf("it has version %d, this program knows only %d: use a newer one", version, schemaVersion)
		}
		me, err := loadSelf(tx)
		switch {
		case err != nil:
			return err
		case me.Device != device:
			return fmt.Errorf("it belongs to the device %q, not to %q; give each device a store of its own", me.Device, device)
		case user != "" && me.User != "" && me.User != user:
			return fmt.Errorf("it belongs to the user %q, not to %q; give each user a store of their own", me.User, user)
		case user != "" && me.User == "":
			return run(tx, "UPDATE self SET user = ?", user) // what waits here is theirs, also before they were ever online
		}
		return nil
	})
}

func (s *store) close() error { return s.db.Close() }

// write runs one durable transaction. What it did is on disk when it returns nil.
// ctx ends the wait for others, and not the work: a connection whose statement was
// interrupted is closed, and with it goes the lock that keeps others out.
func (s *store) write(ctx context.Context, do func(tx *sql.Tx) error) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	tx, err := conn.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		_ = tx.Rollback()
		return err
	}
	return tx.Commit()
}

// read lends the store out for queries. ctx as in write.
func (s *store) read(ctx context.Context, do func(q querier) error) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return do(lent{conn})
}

// lent is the connection of the store as a querier.
type lent struct{ conn *sql.Conn }

func (l lent) QueryRow(query string, args ...any) *sql.Row {
	return l.conn.QueryRowContext(context.Background(), query, args...)
}

func (l lent) Query(query string, args ...any) (*sql.Rows, error) {
	return l.conn.QueryContext(context.Background(), query, args...)
}

// querier is what reads need: a transaction, or the store itself.
type querier interface {
	QueryRow(query string, args ...any) *sql.Row
	Query(query string, args ...any) (*sql.Rows, error)
}

func loadSelf(q querier) (self, error) {
	var me self
	err := q.QueryRow("SELECT user, device, install, install_epoch, n, epoch FROM self").
		Scan(&me.User, &me.Device, &me.Install, &me.InstallEpoch, &me.N, &me.Epoch)
	return me, err
}

// each calls do for every row of a query.
func each(q querier, do func(rows *sql.Rows) error, query string, args ...any) error {
	rows, err := q.Query(query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := do(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// run executes statements that need nothing but to succeed.
func run(tx *sql.Tx, query string, args ...any) error {
	_, err := tx.Exec(query, args...)
	return err
}

// changed executes a statement and reports whether it changed anything.
func changed(tx *sql.Tx, query string, args ...any) (bool, error) {
	result, err := tx.Exec(query, args...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}
