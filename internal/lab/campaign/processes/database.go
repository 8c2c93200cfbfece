package processes

import (
	"context"
	"fmt"

	"github.com/impart-im/impart/internal/lab/postgres"
)

// database is the server that several nodes share, as the campaign breaks it.
type database interface {
	Addr() string
	// DSNAt is the address of a database on it through another one, for the product.
	DSNAt(addr, name string) string
	CreateDatabase(ctx context.Context, name string, clauses ...string) error
	// Clone makes a database a copy of another one that nobody uses.
	Clone(ctx context.Context, from, to string) error

	Running() bool
	// Start starts one that was stopped or killed; one that runs is left alone.
	Start(ctx context.Context) error
	// Halt stops it as its operator does who does not wait for its clients.
	Halt(ctx context.Context) error
	Kill() error
	Pause() error
	Resume() error
	Close() error

	// Standby makes one more that has whatever this one has answered from now on. Its
	// log is appended to the file.
	Standby(ctx context.Context, log string) (database, error)
	// Promote makes a standby a primary.
	Promote(ctx context.Context) error
}

// The stores that several nodes can share.
const (
	PostgreSQL = "postgres"
	MySQL      = "mysql" // on MariaDB
)

// startDatabase starts a server of a store. Its log is appended to the file.
func startDatabase(ctx context.Context, store, log string) (database, error) {
	switch store {
	case PostgreSQL:
		settings := map[string]string{"wal_writer_delay": "10s"} // nothing but commits flushes
		s, err := postgres.Start(ctx, postgres.Options{Settings: settings, Log: log})
		if err != nil {
			return nil, err
		}
		return pgDatabase{s}, nil
	case MySQL:
		return startMySQL(ctx, log)
	}
	return nil, fmt.Errorf("no nodes share a store of kind %q", store)
}

// pgDatabase is a PostgreSQL server.
type pgDatabase struct{ *postgres.Server }

// standbyName is that of the one standby.
const standbyName = "s1"

// Clone implements [database].
func (d pgDatabase) Clone(ctx context.Context, from, to string) error {
	if _, err := d.Terminate(ctx, from, "%"); err != nil {
		return err
	}
	if err := d.DropDatabase(ctx, to); err != nil {
		return err
	}
	return d.CreateDatabase(ctx, to, "TEMPLATE "+from)
}

// Halt implements [database]: without a checkpoint.
func (d pgDatabase) Halt(ctx context.Context) error { return d.Stop(ctx, postgres.Immediate) }

// Standby implements [database].
func (d pgDatabase) Standby(ctx context.Context, log string) (database, error) {
	s, err := d.Server.Standby(ctx, standbyName, postgres.Options{Log: log})
	if err != nil {
		return nil, err
	}
	return pgDatabase{s}, d.Synchronous(ctx, standbyName)
}
