package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// migrate brings the schema up to date. Nodes that start at once do it one after
// the other: each holds an advisory lock for the length of a transaction, which
// works through a pooler too.
func (p *pgEngine) migrate(ctx context.Context, cfg *pgx.ConnConfig) (err error) {
	cfg = cfg.Copy()
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec // no statement outlives its transaction
	db := stdlib.OpenDB(*cfg)
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("store: cannot connect: %w", err)
	}
	defer func() {
		if end := tx.Rollback(); err == nil && !errors.Is(end, sql.ErrTxDone) {
			err = end
		}
	}()
	if err := checkServer(ctx, tx); err != nil {
		return err
	}
	for _, statement := range []string{
		"SELECT set_config('lock_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '0', true)",
		"SELECT pg_advisory_xact_lock(hashtextextended('impart schema ' || current_schema(), 0))",
	} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("store: cannot take the lock for its schema: %w", err)
		}
	}
	if err := migrate(ctx, db, "postgres"); err != nil {
		var e *pgconn.PgError
		if errors.As(err, &e) && e.Code == codePrivilege {
			err = fmt.Errorf("%w: make the role the owner of the database, or of a schema that its search_path names", err)
		}
		return err
	}
	return p.found(ctx, tx)
}

// checkServer refuses a database that cannot hold a store.
func checkServer(ctx context.Context, tx *sql.Tx) error {
	var version int
	var encoding, release, schema string
	var standby bool
	err := tx.QueryRowContext(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_version'),
		current_setting('server_encoding'), pg_is_in_recovery(), coalesce(current_schema(), '')`).Scan(&version, &release, &encoding, &standby, &schema)
	switch {
	case err != nil:
		return fmt.Errorf("store: cannot ask the database what it is: %w", err)
	case version < minServer:
		return fmt.Errorf("store: the server is PostgreSQL %s; 13 or later is needed", release)
	case encoding != "UTF8":
		return fmt.Errorf("store: the database has the encoding %s; make one with UTF8", encoding)
	case standby:
		return errors.New("store: the server is a standby, which cannot be written to; name the primary, or all hosts with target_session_attrs=read-write")
	case schema == "":
		return errors.New("store: the search_path names no schema that exists; create it and make the role its owner")
	}
	return nil
}

// found notes the incarnation of a new database, and reads what was accepted.
func (p *pgEngine) found(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "UPDATE meta SET incarnation = "+serverName+" WHERE incarnation = ''")
	if err != nil {
		return fmt.Errorf("store: cannot name the database's incarnation: %w", err)
	}
	var row history
	if err := tx.QueryRowContext(ctx, "SELECT epoch, incarnation, judged, store FROM meta").Scan(&row.epoch, &row.incarnation, &row.judged, &row.store); err != nil {
		return fmt.Errorf("store: cannot read its meta row: %w", err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	p.identity.open(row)
	return nil
}
