package lab

import (
	"context"
	"strings"

	"github.com/impart-im/impart/internal/lab/postgres"
)

// postgresServer is a PostgreSQL server as a [databaseServer].
type postgresServer struct{ *postgres.Server }

func (s postgresServer) recoveries() int {
	return strings.Count(s.Log(), "was not properly shut down")
}

func (s postgresServer) panics() int { return strings.Count(s.Log(), "PANIC:") }

func (s postgresServer) fillsLog(ctx context.Context) bool {
	return s.panics() > 0 || s.Exec(ctx, databaseName, "SELECT pg_logical_emit_message(false, 'lab', repeat('x', 4000000))") != nil
}

func (s postgresServer) standby(ctx context.Context, name, log string) (databaseServer, error) {
	standby, err := s.Standby(ctx, name, postgres.Options{Log: log})
	if err != nil {
		return nil, err
	}
	return postgresServer{standby}, nil
}

func (s postgresServer) synchronous(ctx context.Context, standbys ...string) error {
	return s.Synchronous(ctx, standbys...)
}

func (s postgresServer) followers(ctx context.Context) (int, error) {
	return postgres.Ask[int](ctx, s.Server, databaseName, "SELECT count(*) FROM pg_stat_replication")
}

func (s postgresServer) caught(ctx context.Context, _ databaseServer, name string) (bool, error) {
	n, err := postgres.Ask[int](ctx, s.Server, databaseName,
		"SELECT count(*) FROM pg_stat_replication WHERE application_name = $1 AND state = 'streaming' AND flush_lsn >= pg_current_wal_flush_lsn()", name)
	return n == 1, err
}

func (s postgresServer) endWaiters(ctx context.Context) (int, error) {
	return postgres.Ask[int](ctx, s.Server, databaseName, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
}

func (s postgresServer) deafen(ctx context.Context) error {
	if err := s.Exec(ctx, databaseName, "ALTER SYSTEM SET primary_conninfo = 'host=127.0.0.1 port=1'"); err != nil {
		return err
	}
	return s.Exec(ctx, databaseName, "SELECT pg_reload_conf()")
}
