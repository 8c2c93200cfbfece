package lab

import (
	"context"
	"fmt"
	"strings"

	"github.com/impart-im/impart/internal/lab/mysql"
)

// mysqlServer is a MariaDB server as a [databaseServer].
type mysqlServer struct{ *mysql.Server }

func (s mysqlServer) AdminDSN(db string) string { return s.DSN(db) }

func (s mysqlServer) recoveries() int { return strings.Count(s.Log(), "Starting crash recovery") }

func (s mysqlServer) panics() int { return strings.Count(s.Log(), "mariadbd got signal") }

// fillsLog looks for what the server says while it waits, a minute at a time, for
// somebody to make room.
func (s mysqlServer) fillsLog(context.Context) bool {
	return strings.Contains(s.Log(), "Disk is full writing")
}

func (s mysqlServer) standby(ctx context.Context, _, log string) (databaseServer, error) {
	replica, err := s.Replica(ctx, mysql.Options{Log: log})
	if err != nil {
		return nil, err
	}
	return mysqlServer{replica}, nil
}

func (s mysqlServer) synchronous(ctx context.Context, standbys ...string) error {
	if len(standbys) == 0 {
		return s.Asynchronous(ctx)
	}
	return s.Synchronous(ctx)
}

func (s mysqlServer) followers(ctx context.Context) (int, error) { return s.Followers(ctx) }

func (s mysqlServer) caught(ctx context.Context, standby databaseServer, _ string) (bool, error) {
	replica, is := standby.(mysqlServer)
	if !is {
		return false, fmt.Errorf("a standby of MariaDB is %T", standby)
	}
	return replica.Caught(ctx, s.Server)
}

func (s mysqlServer) endWaiters(ctx context.Context) (int, error) { return s.EndWaiters(ctx) }

func (s mysqlServer) deafen(ctx context.Context) error { return s.Deafen(ctx) }
