package sqlstore

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/impart-im/impart/internal/pgdial"
	"github.com/impart-im/impart/internal/store"
)

// inspectWithin bounds a look at a database.
const inspectWithin = 10 * time.Second

// inspectPostgres is Inspect for a database. Its session is a server's own but for
// what other nodes could notice.
func inspectPostgres(ctx context.Context, dsn string) (found Inspection, err error) {
	ctx, cancel := context.WithTimeout(ctx, inspectWithin)
	defer cancel()
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return found, fmt.Errorf("store: %w", err) // it is told without the password
	}
	for name := range cfg.RuntimeParams {
		if isPoolParameter(name) {
			delete(cfg.RuntimeParams, name)
		}
	}
	cfg.RuntimeParams["application_name"] = "impart-inspect"
	new(pgdial.Hosts).Watch(&cfg.Config)
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return found, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if found.Known, err = newest("postgres"); err != nil {
		return found, err
	}
	c := &pgSession{ctx: ctx, conn: conn.PgConn(), link: &pgLink{}}
	var there, mayCreate bool
	err = c.query(`SELECT current_setting('server_version'),
		to_regclass('goose_db_version') IS NOT NULL, coalesce(has_schema_privilege(current_schema(), 'CREATE'), false),
		(SELECT system_identifier::text FROM pg_control_system()) || '/' || (SELECT oid::text FROM pg_database WHERE datname = current_database()) || '/' || coalesce(current_schema(), '')`, func(r row) error {
		found.Release = r.str(0)
		there, mayCreate, found.Database = r.num(1) != 0, r.num(2) != 0, r.str(3)
		return nil
	})
	if err != nil {
		return found, err
	}
	if found.Vitals, err = pgVitals(c); err != nil {
		return found, err
	}
	// As a server does to its sessions.
	if _, err = c.exec("SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')"); err != nil {
		return found, err
	}
	if found.Settings, err = pgSettings(c); err != nil {
		return found, err
	}
	if found.Names != "" && found.Waiting == 0 {
		tryCommit(ctx, conn, &found.Standby)
	}
	switch {
	case !there && !mayCreate:
		return found, &pgconn.PgError{Severity: "ERROR", Code: "42501", Message: "the role may not create tables in the schema " + schemaOf(c)}
	case !there:
		return found, os.ErrNotExist
	}
	err = c.query("SELECT max(version_id) FROM goose_db_version WHERE is_applied", func(r row) error {
		found.Schema = r.num(0)
		return nil
	})
	if err != nil {
		return found, err
	}
	meta, err := readMeta(c)
	found.Epoch = meta.epoch
	return found, err
}

// commitWithin is how long a commit is waited for that is there to see whether one
// comes back.
const commitWithin = 2 * time.Second

// tryCommit commits a record in the log that no table knows of, and notes whether that
// had to wait for a standby in vain. A server without a vital standby looks sound
// otherwise: only who commits something finds out.
func tryCommit(ctx context.Context, conn *pgx.Conn, s *store.Standby) {
	var given atomic.Bool
	timer := time.AfterFunc(commitWithin, func() {
		given.Store(true)
		_ = conn.PgConn().CancelRequest(ctx) // which ends the wait, not the commit
	})
	defer timer.Stop()
	_, err := conn.Exec(ctx, "SELECT pg_logical_emit_message(true, 'impart', 'doctor')")
	if err == nil && given.Load() {
		s.Waiting, s.Longest = 1, commitWithin
	}
}

// schemaOf is the schema that tables are made in.
func schemaOf(c session) string {
	name := "(none: the search_path names no schema that is there)"
	_ = c.query("SELECT coalesce(current_schema(), '')", func(r row) error {
		if r.str(0) != "" {
			name = r.str(0)
		}
		return nil
	})
	return name
}

// isPoolParameter reports whether a parameter of a DSN is one of the pool's, which no
// server knows.
func isPoolParameter(name string) bool { return len(name) > 5 && name[:5] == "pool_" }
