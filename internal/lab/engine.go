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
		return server, nil
	case MySQL:
		server, err := mysql.Start(ctx, mysql.Options{Dir: o.dir, Settings: o.settings, Log: o.log})
		if err != nil {
			return nil, err
		}
		return mysqlServer{server}, nil
	}
	return nil, fmt.Errorf("no database server is needed for %s", engine)
}

// mysqlServer is a MariaDB server as a [databaseServer].
type mysqlServer struct{ *mysql.Server }

func (s mysqlServer) AdminDSN(db string) string { return s.DSN(db) }
