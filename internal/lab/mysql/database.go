package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Open is a pool of connections to a database as superuser; "" is none. The caller
// closes it.
func (s *Server) Open(db string) (*sql.DB, error) { return s.open(admin, s.secrets.admin, db) }

// OpenAs is Open as [Role].
func (s *Server) OpenAs(db string) (*sql.DB, error) { return s.open(Role, s.secrets.role, db) }

func (s *Server) open(user, password, db string) (*sql.DB, error) {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.DBName = user, password, db
	cfg.Net, cfg.Addr = "tcp", s.Addr()
	cfg.MultiStatements, cfg.InterpolateParams = true, true
	cfg.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// Exec runs statements in a database as superuser; "" is none.
func (s *Server) Exec(ctx context.Context, db, query string, args ...any) error {
	pool, err := s.Open(db)
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = pool.ExecContext(ctx, query, args...)
	return err
}

// Ask is the first column of the first row that a query gives, as superuser.
func Ask[T any](ctx context.Context, s *Server, db, query string, args ...any) (T, error) {
	var answer T
	pool, err := s.Open(db)
	if err != nil {
		return answer, err
	}
	defer pool.Close()
	err = pool.QueryRowContext(ctx, query, args...).Scan(&answer)
	return answer, err
}

// Version is the server's version, as "10.11.6-MariaDB".
func (s *Server) Version(ctx context.Context) (string, error) {
	return Ask[string](ctx, s, "", "SELECT @@version")
}

// CreateDatabase makes a database in which [Role] has all rights. clauses are added
// to the statement, as "CHARACTER SET latin1".
func (s *Server) CreateDatabase(ctx context.Context, name string, clauses ...string) error {
	words := append([]string{"CREATE DATABASE", quoted(name)}, clauses...)
	err := s.Exec(ctx, "", strings.Join(words, " ")+"; GRANT ALL ON "+quoted(name)+".* TO "+Role+"@'%'")
	if err != nil {
		return fmt.Errorf("creating database %s: %w", name, err)
	}
	return nil
}

// DropDatabase removes a database; one that is not there is no error.
func (s *Server) DropDatabase(ctx context.Context, name string) error {
	if err := s.Exec(ctx, "", "DROP DATABASE IF EXISTS "+quoted(name)); err != nil {
		return fmt.Errorf("dropping database %s: %w", name, err)
	}
	return nil
}

func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// Terminate ends the sessions of [Role] in a database (KILL), and waits until they
// are gone. It tells how many.
func (s *Server) Terminate(ctx context.Context, db string) (killed int, err error) {
	pool, err := s.Open("")
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	const sessions = "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = ? AND DB = ?"
	rows, err := pool.QueryContext(ctx, sessions, Role, db)
	if err != nil {
		return 0, fmt.Errorf("listing sessions: %w", err)
	}
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return 0, err
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		return 0, err
	}
	for _, id := range ids {
		if _, err := pool.ExecContext(ctx, fmt.Sprint("KILL CONNECTION ", id)); err == nil { // one that has ended is no error
			killed++
		}
	}
	for _, id := range ids {
		for there := 1; there > 0; {
			err := pool.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = ?", id).Scan(&there)
			if err != nil {
				return killed, fmt.Errorf("waiting for the end of a session: %w", err)
			}
		}
	}
	return killed, nil
}

// Checkpoint is where in its log a recovery would begin.
func (s *Server) Checkpoint(ctx context.Context) (int64, error) {
	return Ask[int64](ctx, s, "", "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'INNODB_LSN_LAST_CHECKPOINT'")
}

// CheckpointPast waits until a recovery would begin after a place in the log. Left alone
// the server looks for that only when it runs out of clean pages.
func (s *Server) CheckpointPast(ctx context.Context, place int64) error {
	if err := s.Exec(ctx, "", "SET GLOBAL innodb_max_dirty_pages_pct_lwm = 50"); err != nil {
		return err
	}
	for {
		at, err := s.Checkpoint(ctx)
		if err != nil {
			return err
		}
		if at > place {
			return s.Exec(ctx, "", "SET GLOBAL innodb_max_dirty_pages_pct_lwm = 0")
		}
		select {
		case <-time.After(readyEvery):
		case <-ctx.Done():
			return fmt.Errorf("the checkpoint is still at %d: %w", at, context.Cause(ctx))
		}
	}
}

// Set changes settings that can be changed in a running server, there and for later
// starts; of others, the next start does.
func (s *Server) Set(ctx context.Context, settings map[string]string) error {
	s.mu.Lock()
	maps.Copy(s.settings, settings)
	err := s.writeSettings()
	running := s.running()
	s.mu.Unlock()
	if err != nil || !running {
		return err
	}
	for name, value := range settings {
		if err := s.Exec(ctx, "", "SET GLOBAL "+name+" = "+value); err != nil {
			return fmt.Errorf("setting %s: %w", name, err)
		}
	}
	return nil
}
