package impart

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/impart-im/impart/internal/lab/mysql"
	"github.com/impart-im/impart/internal/lab/postgres"
	"github.com/impart-im/impart/internal/lab/redis"
)

// freshDeployment is an empty store for the servers of one story, and a Redis of their own where there is to be one.
type freshDeployment struct {
	address string
	env     []string
	drop    func() error
	// hold lets servers read and not commit until release is called.
	hold func(t testing.TB) (release func())
}

// freshStore makes a database on the server that all tests of this process share.
func freshStore(ctx context.Context) (*freshDeployment, error) {
	f := &freshDeployment{}
	var drop func(context.Context) error
	if onMySQL {
		server, name, dropped, err := mysql.FreshDatabase(ctx)
		if err != nil {
			return nil, err
		}
		f.address, drop = server.DSN(name), dropped
		f.hold = func(t testing.TB) func() { return holdMySQL(t, server, name) }
	} else {
		server, name, dropped, err := postgres.FreshDatabase(ctx)
		if err != nil {
			return nil, err
		}
		f.address, drop = server.DSN(name), dropped
		f.hold = Database{server, name}.HoldWrites
	}
	f.drop = func() error { return drop(context.Background()) }
	if !withRedis {
		return f, nil
	}
	cache, err := redis.Start(ctx, redis.Options{})
	if err != nil {
		return nil, errors.Join(err, f.drop())
	}
	f.env = []string{"IM_REDIS=" + cache.URL()}
	f.drop = func() error { return errors.Join(cache.Close(), drop(context.Background())) }
	return f, nil
}

// holdMySQL locks the tables that messages are written to.
func holdMySQL(t testing.TB, server *mysql.Server, name string) (release func()) {
	t.Helper()
	db, err := server.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(context.Background())
	if err == nil {
		_, err = conn.ExecContext(context.Background(), "LOCK TABLES conversations READ, events READ, msg_dedup READ")
	}
	if err != nil {
		t.Fatal(err)
	}
	release = sync.OnceFunc(func() {
		_, _ = conn.ExecContext(context.Background(), "UNLOCK TABLES")
		_ = conn.Close()
		_ = db.Close()
	})
	t.Cleanup(release)
	return release
}
