package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"modernc.org/sqlite"

	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/store"
)

// busyMillis is how long a statement waits for a lock that another connection of
// this process holds; the lock file keeps other processes away.
const busyMillis = 10_000

var sqliteStatements = statements{
	begin: "BEGIN IMMEDIATE", snapshot: "BEGIN", commit: "COMMIT", rollback: "ROLLBACK",
	written: "SELECT conv_id, next_seq, members_version, updated_at FROM conversations WHERE updated_at >= ? ORDER BY updated_at LIMIT ?",
	newUser: "INSERT INTO users (user_id) VALUES (?) ON CONFLICT DO NOTHING",
	putCursor: `INSERT INTO device_cursors (user_id, device_id, conv_id, install_epoch, epoch, start_seq, delivered_seq, n, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (user_id, device_id, conv_id) DO UPDATE SET install_epoch = excluded.install_epoch, epoch = excluded.epoch,
		start_seq = excluded.start_seq, delivered_seq = excluded.delivered_seq, n = excluded.n, updated_at = excluded.updated_at`,
	putRead: `INSERT INTO read_cursors (user_id, conv_id, epoch, read_seq, updated_at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (user_id, conv_id) DO UPDATE SET epoch = excluded.epoch, read_seq = excluded.read_seq, updated_at = excluded.updated_at`,
}

// openSQLite opens the database file at path, which it makes if there is none.
func openSQLite(ctx context.Context, path string, s *Store) (_ *dialect, err error) {
	opts := &s.opts
	if path == "" || strings.HasPrefix(path, ":") {
		return nil, fmt.Errorf("store %q: name a file, as in sqlite:impart-data/impart.db", "sqlite:"+path)
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	if path, err = makeFile(path); err != nil {
		return nil, err
	}
	// fdatasync keeps what fsync keeps of a database, without the time stamps.
	if _, err := sqlite.Fdatasync(true); err != nil && !errors.Is(err, sqlite.ErrFdatasyncUnavailable) {
		return nil, err
	}
	d := &dialect{s: s}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	lock, err := lockFile(ctx, path)
	if err != nil {
		return nil, err
	}
	d.lock = lock // only now: a nil *fileLock in the interface would not be nil
	if err := lookFirst(ctx, path); err != nil {
		return nil, err
	}
	if d.writer, err = sqlitePool(path, 1, opts.hook, "journal_mode(WAL)", "wal_autocheckpoint(0)", "cache_size(-65536)"); err != nil {
		return nil, err
	}
	if err := migrate(ctx, d.writer, "sqlite"); err != nil {
		return nil, err
	}
	// The log is there by now, and its name is as important as what will be in it.
	if err := syncFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if d.readers, err = sqlitePool(path, max(4, runtime.GOMAXPROCS(0)), opts.look, "query_only(1)", "cache_size(-8192)"); err != nil {
		return nil, err
	}
	d.keeper, err = newCheckpointer(path, lock.database, opts.Log)
	return d, err
}

// lookFirst opens the file, changes nothing in it, and refuses it if it is not a store's.
func lookFirst(ctx context.Context, path string) (err error) {
	db, err := sqlitePool(path, 1, nil, "query_only(1)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return withConn(ctx, db, func(c *conn) error { return refuseForeign(c, path) })
}

// refuseForeign refuses a file that holds tables of somebody else's.
func refuseForeign(c *conn, path string) error {
	var tables []string
	err := c.query("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name", func(r row) error {
		tables = append(tables, r.str(0))
		return nil
	})
	if err != nil {
		return fmt.Errorf("store: cannot open its file %s: %w", path, err)
	}
	tables = slices.DeleteFunc(tables, func(t string) bool { return t == "goose_db_version" })
	if len(tables) == 0 || slices.Contains(tables, "meta") {
		return nil
	}
	return fmt.Errorf("store: %s holds another program's tables (%s): name a file that is Impart's own, or none yet", path, some(tables))
}

// some is the first few of a list of names.
func some(names []string) string {
	const few = 3
	if len(names) > few {
		return strings.Join(names[:few], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// sqlitePool is a pool of at most n connections with these settings.
func sqlitePool(path string, n int, h hook, pragmas ...string) (*sql.DB, error) {
	flush := "synchronous(FULL)"
	if fault.Planted(fault.NoFlush) {
		flush = "synchronous(OFF)"
	}
	query := url.Values{"_dqs": {"0"}, "_pragma": append([]string{
		"busy_timeout(" + strconv.Itoa(busyMillis) + ")", flush, "fullfsync(1)", "checkpoint_fullfsync(1)",
	}, pragmas...)}
	name := url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}
	raw, err := sqlite.NewConnector(name.String())
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector{raw, h})
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db, nil
}

// makeFile makes the folder and an empty file that nobody else may read: they
// hold what people write to each other. It returns the file's own path, without
// symbolic links: as SQLite keeps its log beside that one, the lock belongs there
// too, or a second process that comes by another name would not meet it.
func makeFile(path string) (own string, err error) {
	if err := makeFolder(filepath.Dir(path)); err != nil {
		return "", err
	}
	if err := touch(path); err != nil {
		return "", err
	}
	if own, err = filepath.EvalSymlinks(path); err != nil {
		return "", fmt.Errorf("store: cannot follow the links to its file: %w", err)
	}
	if err := touch(lockName(own)); err != nil {
		return "", err
	}
	return own, nil
}

// makeFolder makes a folder with those above it, and sees to it that their names
// are on the disk: a power cut must not take a store away with its folder.
func makeFolder(folder string) error {
	var missing []string
	for name := folder; ; name = filepath.Dir(name) {
		if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) || name == filepath.Dir(name) {
			break
		}
		missing = append(missing, name)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("store: cannot make its folder: %w", err)
	}
	for _, name := range missing {
		if err := syncFolder(filepath.Dir(name)); err != nil {
			return err
		}
	}
	return nil
}

func syncFolder(name string) error {
	if runtime.GOOS == "windows" {
		return nil // it has no such call
	}
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("store: cannot open its folder: %w", err)
	}
	return errors.Join(f.Sync(), f.Close())
}

func touch(name string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("store: cannot open its file: %w", err)
	}
	return f.Close()
}

func lockName(path string) string { return path + ".lock" }

// fileLock is a transaction that never ends on a second, empty database. It
// goes with the process, however that ends, and works wherever SQLite does.
type fileLock struct {
	db   *sql.DB
	held *sql.Conn
	// database is the store's own file, for flushing it. It is closed last: to close
	// any descriptor of a file lets go of all locks that the process has on it, those
	// of SQLite too.
	database *os.File
}

func lockFile(ctx context.Context, path string) (*fileLock, error) {
	raw, err := sqlite.NewConnector((&url.URL{Scheme: "file", Path: lockName(path)}).String())
	if err != nil {
		return nil, err
	}
	l := &fileLock{db: sql.OpenDB(raw)}
	if l.held, err = l.db.Conn(ctx); err == nil {
		_, err = l.held.ExecContext(ctx, "BEGIN EXCLUSIVE")
	}
	if err == nil {
		l.database, err = os.OpenFile(path, os.O_RDWR, 0)
	}
	if err == nil {
		return l, nil
	}
	busy := new(sqlite.Error)
	if errors.As(err, &busy) && busy.Code()&0xff == sqliteBusy {
		err = fmt.Errorf("%s is in use: another impart process serves it; stop that one, or give this one another store", path)
	}
	return nil, errors.Join(err, l.Close())
}

// sqliteBusy is SQLite's result code SQLITE_BUSY.
const sqliteBusy = 5

// Close lets the file go.
func (l *fileLock) Close() error {
	var errs []error
	if l.held != nil {
		errs = append(errs, l.held.Close())
	}
	errs = append(errs, l.db.Close())
	if l.database != nil {
		errs = append(errs, l.database.Close())
	}
	return errors.Join(errs...)
}

// close ends everything that open started, in the opposite order.
func (d *dialect) close() error {
	var errs []error
	if d.keeper != nil {
		d.keeper.close()
	}
	for _, db := range []*sql.DB{d.readers, d.writer} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	if d.lock != nil {
		errs = append(errs, d.lock.Close())
	}
	return errors.Join(errs...)
}

func (*dialect) settings(s session) ([]store.Setting, error) { return sqliteSettings(s) }

// sqliteSettings reads back what the writer's connection is set to.
func sqliteSettings(s session) ([]store.Setting, error) {
	settings := []store.Setting{
		{Name: "journal_mode", Want: "wal", Why: "a commit would not be one append to a log that a crash cannot tear"},
		{Name: "synchronous", Want: "2 (FULL)", Why: "a power cut could take messages that were answered with sent"},
	}
	for i := range settings {
		set := &settings[i]
		err := s.query("PRAGMA "+set.Name, func(r row) error {
			set.Value = fmt.Sprint(r[0])
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	settings[0].Safe = settings[0].Value == "wal"
	settings[1].Safe = settings[1].Value == "2" || settings[1].Value == "3"
	return settings, nil
}
