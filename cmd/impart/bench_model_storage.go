package main

import (
	"context"

	"github.com/impart-im/impart/internal/bench"
	"github.com/impart-im/impart/internal/lab/mysql"
	"github.com/impart-im/impart/internal/lab/postgres"
)

// storage tells what the store in folder has counted, for the model.
func (s *benchStores) storage(folder string, p *bench.Process) func(ctx context.Context) (bench.Storage, error) {
	if s.server == nil {
		return func(context.Context) (bench.Storage, error) { return fileStorage(p), nil }
	}
	name := databaseName(folder)
	return func(ctx context.Context) (bench.Storage, error) {
		if server, is := s.server.(*postgres.Server); is {
			return postgresStorage(ctx, server, name)
		}
		server, _ := s.server.(*mysql.Server)
		return mysqlStorage(ctx, server, name)
	}
}

// mysqlStorage asks MariaDB, which counts for all its databases together.
func mysqlStorage(ctx context.Context, server *mysql.Server, db string) (counted bench.Storage, err error) {
	const status = "SELECT CAST(SUM(VARIABLE_VALUE) AS DOUBLE) FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME IN "
	for _, question := range []struct {
		into *float64
		sql  string
	}{
		{&counted.Rows, status + "('INNODB_ROWS_INSERTED', 'INNODB_ROWS_UPDATED', 'INNODB_ROWS_DELETED')"},
		{&counted.Log, status + "('INNODB_LSN_CURRENT')"},
		{&counted.Disk, "SELECT CAST(COALESCE(SUM(DATA_LENGTH + INDEX_LENGTH), 0) AS DOUBLE) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()"},
	} {
		if *question.into, err = mysql.Ask[float64](ctx, server, db, question.sql); err != nil {
			return counted, err
		}
	}
	return counted, nil
}

// postgresStorage asks PostgreSQL. Its sessions report the rows that they have
// written now and then, and all of them when they end, so they are ended here, and
// waited for; the server replaces them in silence.
func postgresStorage(ctx context.Context, server *postgres.Server, db string) (counted bench.Storage, err error) {
	const end = `SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'impart'`
	if _, err := postgres.Ask[int](ctx, server, db, end); err != nil {
		return counted, err
	}
	for _, question := range []struct {
		into *float64
		sql  string
	}{
		{&counted.Rows, `SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::float8 FROM pg_stat_user_tables`},
		{&counted.Log, `SELECT (pg_current_wal_lsn() - '0/0')::float8`},
		{&counted.Disk, `SELECT coalesce(sum(pg_total_relation_size(relid)), 0)::float8 FROM pg_stat_user_tables`},
	} {
		if *question.into, err = postgres.Ask[float64](ctx, server, db, question.sql); err != nil {
			return counted, err
		}
	}
	return counted, nil
}

// fileStorage is what SQLite has written. Rows are not known there, and its files
// say nothing of a message: its log is cut back at times of its own.
func fileStorage(p *bench.Process) bench.Storage {
	return bench.Storage{Log: float64(p.Written())}
}
