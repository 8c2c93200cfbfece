package sqlstore

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/impart-im/impart"
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
	asked := time.Now()
	err = c.query(`SELECT current_setting('server_version'), (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
		to_regclass('goose_db_version') IS NOT NULL, coalesce(has_schema_privilege(current_schema(), 'CREATE'), false),
		(SELECT system_identifier::text FROM pg_control_system()) || '/' || (SELECT oid::text FROM pg_database WHERE datname = current_database()) || '/' || coalesce(current_schema(), '')`, func(r row) error {
		found.Release, found.Now = r.str(0), impart.Millis(r.num(1))
		there, mayCreate, found.Database = r.num(2) != 0, r.num(3) != 0, r.str(4)
		return nil
	})
	if err != nil {
		return found, err
	}
	found.Asked = asked.Add(time.Since(asked) / 2)
	// As a server does to its sessions.
	if _, err = c.exec("SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')"); err != nil {
		return found, err
	}
	if found.Settings, err = pgSettings(c); err != nil {
		return found, err
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
