package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/impart-im/impart/internal/lab/mysql"
	"github.com/impart-im/impart/internal/lab/postgres"
)

// benchStores are the stores of a bench's own servers: one in each folder, or a
// database for each on a private server.
type benchStores struct {
	server  benchServer // nil: SQLite
	version string
	made    map[string]bool // databases
}

// benchServer is a private database server.
type benchServer interface {
	Version(ctx context.Context) (string, error)
	CreateDatabase(ctx context.Context, name string, clauses ...string) error
	DSN(db string) string
	CPU() time.Duration
	Kill() error
	Close() error
}

// benchSettings fit a server that is to show what it can do on a small machine.
// Nothing here makes a commit less durable; right after a checkpoint PostgreSQL
// writes whole pages, so there are few checkpoints.
var benchSettings = map[string]string{
	"shared_buffers": "256MB", "max_wal_size": "8GB", "checkpoint_timeout": "30min", "wal_buffers": "16MB",
}

// benchSettingsMySQL are the same for MariaDB.
var benchSettingsMySQL = map[string]string{"innodb_buffer_pool_size": "256M", "innodb_log_file_size": "4G"}

// prepare starts a private database in folder where kind asks for one.
func (s *benchStores) prepare(ctx context.Context, kind, folder string) (err error) {
	if err := oneOf("--store", kind, "sqlite", "postgres", "mysql"); err != nil || kind == "sqlite" {
		return err
	}
	// The database may have to run as another user, who passes through here.
	if err := os.Chmod(folder, 0o711); err != nil {
		return err
	}
	s.made = map[string]bool{}
	s.server, err = startBenchServer(ctx, kind, filepath.Join(folder, kind))
	if err == nil {
		s.version, err = s.server.Version(ctx)
	}
	if err != nil {
		return fmt.Errorf("--store %s: %w", kind, err)
	}
	return nil
}

// startBenchServer starts a private server in dir; what it returns is nil after an error.
func startBenchServer(ctx context.Context, kind, dir string) (benchServer, error) {
	if kind == "mysql" {
		server, err := mysql.Start(ctx, mysql.Options{Dir: dir, Settings: benchSettingsMySQL})
		if err != nil {
			return nil, err
		}
		return server, nil
	}
	server, err := postgres.Start(ctx, postgres.Options{Dir: dir, Settings: benchSettings})
	if err != nil {
		return nil, err
	}
	return server, nil
}

// String names the kind of the stores, as the report has it.
func (s *benchStores) String() string {
	if s.server == nil {
		return "SQLite"
	}
	if _, is := s.server.(*mysql.Server); is {
		return "MariaDB " + s.version + ", private (innodb_buffer_pool_size " + benchSettingsMySQL["innodb_buffer_pool_size"] +
			", innodb_log_file_size " + benchSettingsMySQL["innodb_log_file_size"] + ")"
	}
	return "PostgreSQL " + s.version + ", private (shared_buffers " + benchSettings["shared_buffers"] + ", max_wal_size " + benchSettings["max_wal_size"] + ")"
}

// address is the store in folder as IM_STORE has it; the same folder has the same.
func (s *benchStores) address(ctx context.Context, folder string) (string, error) {
	if s.server == nil {
		return "sqlite:" + filepath.Join(folder, "impart.db"), nil
	}
	name := databaseName(folder)
	if !s.made[name] {
		if err := s.server.CreateDatabase(ctx, name); err != nil {
			return "", err
		}
		s.made[name] = true
	}
	return s.server.DSN(name), nil
}

// databaseName is the database of the store in folder.
func databaseName(folder string) string {
	return strings.ReplaceAll(filepath.Base(folder), "-", "_")
}

// cpu tells what the database has used of the processors; nil without one.
func (s *benchStores) cpu() func() time.Duration {
	if s.server == nil {
		return nil
	}
	return s.server.CPU
}

func (s *benchStores) close() error {
	if s.server == nil {
		return nil
	}
	return s.server.Close()
}

// abandon ends the database as it is.
func (s *benchStores) abandon() {
	if s.server != nil {
		_ = s.server.Kill() // it ends with this process at the latest
	}
}
