package lab

import (
	"context"
	"fmt"

	"github.com/impart-im/impart/internal/lab/mysql"
	"github.com/impart-im/impart/internal/lab/postgres"
)

// databaseServer is a private server of either kind, as the lab breaks it.
type databaseServer interface {
	Start(ctx context.Context) error // on the data that it has
	Kill() error
	Pause() error
	Resume() error
	Running() bool
	Close() error
	Log() string
	Addr() string
	DSN(db string) string // for the product
	DSNAt(addr, db string) string
	AdminDSN(db string) string // for [rows.Open]
	CreateDatabase(ctx context.Context, name string, clauses ...string) error
	DropDatabase(ctx context.Context, name string) error
	Exec(ctx context.Context, db, sql string, args ...any) error

	recoveries() int // how often it had to recover from a crash at a start
	panics() int     // how often it gave up by itself because it could not write
	// fillsLog reports whether there is no more room for its log, and may write to it
	// to find out.
	fillsLog(ctx context.Context) bool

	// Of a primary.
	standby(ctx context.Context, name, log string) (databaseServer, error)
	synchronous(ctx context.Context, standbys ...string) error // commits wait for one of them; without names for none
	followers(ctx context.Context) (int, error)                // standbys that it sends to
	caught(ctx context.Context, standby databaseServer, name string) (bool, error)
	endWaiters(ctx context.Context) (int, error) // sessions that wait for a standby

	// Of a standby.
	Promote(ctx context.Context) error
	deafen(ctx context.Context) error // it hears its primary no more
}

// databaseOptions say how a server is made; see postgres.Options.
type databaseOptions struct {
	dir, log string
	settings map[string]string
}

func startDatabase(ctx context.Context, engine Engine, o databaseOptions) (databaseServer, error) {
	switch engine {
	case PostgreSQL:
		server, err := postgres.Start(ctx, postgres.Options{Dir: o.dir, Settings: o.settings, Synced: o.dir != "", Log: o.log})
		if err != nil {
			return nil, err
		}
		return postgresServer{server}, nil
	case MySQL:
		server, err := mysql.Start(ctx, mysql.Options{Dir: o.dir, Settings: o.settings, Log: o.log})
		if err != nil {
			return nil, err
		}
		return mysqlServer{server}, nil
	}
	return nil, fmt.Errorf("no database server is needed for %s", engine)
}
