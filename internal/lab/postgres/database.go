package postgres

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Connect opens a connection to a database as superuser. The caller closes it.
func (s *Server) Connect(ctx context.Context, db string) (*pgx.Conn, error) {
	return pgx.Connect(ctx, s.AdminDSN(db))
}

// Version is the server's version, as "15.14 (Debian 15.14-1)".
func (s *Server) Version(ctx context.Context) (version string, err error) {
	conn, err := s.Connect(ctx, admin)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = conn.QueryRow(ctx, "SHOW server_version").Scan(&version)
	return version, err
}

// Exec runs statements in a database as superuser.
func (s *Server) Exec(ctx context.Context, db, sql string, args ...any) error {
	conn, err := s.Connect(ctx, db)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, sql, args...)
	return err
}

// Ask is the first column of the first row that a query gives, as superuser.
func Ask[T any](ctx context.Context, s *Server, db, sql string, args ...any) (T, error) {
	var answer T
	conn, err := s.Connect(ctx, db)
	if err != nil {
		return answer, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = conn.QueryRow(ctx, sql, args...).Scan(&answer)
	return answer, err
}

// CreateDatabase makes a database that [Role] owns. clauses are added to the
// statement, as "TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'".
func (s *Server) CreateDatabase(ctx context.Context, name string, clauses ...string) error {
	words := append([]string{"CREATE DATABASE", quoted(name), "OWNER", Role}, clauses...)
	if err := s.Exec(ctx, admin, strings.Join(words, " ")); err != nil {
		return fmt.Errorf("creating database %s: %w", name, err)
	}
	return nil
}

// DropDatabase removes a database, with the sessions on it; one that is not there
// is no error.
func (s *Server) DropDatabase(ctx context.Context, name string) error {
	if err := s.Exec(ctx, admin, "DROP DATABASE IF EXISTS "+quoted(name)+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("dropping database %s: %w", name, err)
	}
	return nil
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

// Terminate ends the sessions of [Role] on a database (pg_terminate_backend), those
// whose application_name is like the pattern; "%" is every one. It tells how many.
func (s *Server) Terminate(ctx context.Context, db, application string) (int, error) {
	n, err := Ask[int](ctx, s, admin, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "+
		"WHERE datname = $1 AND usename = $2 AND application_name LIKE $3", db, Role, application)
	if err != nil {
		return 0, fmt.Errorf("ending sessions: %w", err)
	}
	return n, nil
}

// Set changes settings of a running server that need no restart, and waits until
// new sessions have them; of others, the next start does.
func (s *Server) Set(ctx context.Context, settings map[string]string) error {
	s.mu.Lock()
	maps.Copy(s.settings, settings)
	err := s.writeSettings()
	running, cmd := s.running(), s.cmd
	s.mu.Unlock()
	if err != nil || !running {
		return err
	}
	// A new session tells when the settings were last read.
	const loaded = "SELECT pg_conf_load_time()"
	before, err := Ask[time.Time](ctx, s, admin, loaded)
	if err != nil {
		return fmt.Errorf("reading PostgreSQL's settings: %w", err)
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		return fmt.Errorf("PostgreSQL is to read its settings: %w", err)
	}
	every := time.NewTicker(readyEvery)
	defer every.Stop()
	for {
		now, err := Ask[time.Time](ctx, s, admin, loaded)
		if err != nil {
			return fmt.Errorf("reading PostgreSQL's settings: %w", err)
		}
		if now.After(before) {
			return nil
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL does not read its settings: %w", context.Cause(ctx))
		}
	}
}
