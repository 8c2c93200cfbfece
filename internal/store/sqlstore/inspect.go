package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"modernc.org/sqlite"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// Inspection is what can be seen of a store that is not opened.
type Inspection struct {
	Schema   int64 // version of the schema in the file
	Known    int64 // newest version that this binary knows
	Epoch    impart.Epoch
	Settings []store.Setting // as a server of this binary would have them
	// Of a database server: its release, its clock, and what commits wait for. "" and 0 of a file.
	Release string
	// Database names the database and its schema among all there are, whatever address
	// leads to it.
	Database string
	store.Vitals
}

// Inspect looks at the store that dsn names, also while a server has it open. It
// changes nothing: it makes no file and brings no schema up to date. The error
// is [os.ErrNotExist] when there is none; of a database, Settings and what is below
// them are there all the same.
func Inspect(ctx context.Context, dsn string) (found Inspection, err error) {
	kind, path, _ := strings.Cut(dsn, ":")
	if isPostgres(kind) {
		return inspectPostgres(ctx, dsn)
	}
	if isMySQL(kind) {
		return inspectMySQL(ctx, dsn)
	}
	if kind != "sqlite" || path == "" {
		return found, unknownStore(dsn)
	}
	if path, err = filepath.Abs(path); err != nil {
		return found, err
	}
	if _, err := os.Stat(path); err != nil {
		return found, err
	}
	if found.Known, err = newest("sqlite"); err != nil {
		return found, err
	}
	query := url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(" + strconv.Itoa(busyMillis) + ")", "query_only(1)", "synchronous(FULL)"}}
	raw, err := sqlite.NewConnector((&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String())
	if err != nil {
		return found, err
	}
	db := sql.OpenDB(connector{raw, nil})
	defer func() { err = errors.Join(err, db.Close()) }()
	err = withConn(ctx, db, func(c *conn) error {
		if err := refuseForeign(c, path); err != nil {
			return err
		}
		err := c.query("SELECT max(version_id) FROM goose_db_version WHERE is_applied", func(r row) error {
			found.Schema = r.num(0)
			return nil
		})
		if err != nil {
			return err
		}
		meta, err := readMeta(c)
		if err != nil {
			return err
		}
		found.Epoch = meta.epoch
		found.Settings, err = sqliteSettings(c)
		return err
	})
	return found, err
}

// newest is the highest version among the embedded migrations.
func newest(kind string) (int64, error) {
	entries, err := migrations.ReadDir("migrations/" + kind)
	if err != nil {
		return 0, err
	}
	var highest int64
	for _, entry := range entries {
		number, _, _ := strings.Cut(entry.Name(), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("store: the migration %s has no number: %w", entry.Name(), err)
		}
		highest = max(highest, version)
	}
	return highest, nil
}
