package impart

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/impart-im/impart/internal/lab/postgres"
)

// Database is one PostgreSQL database, for any number of servers.
type Database struct {
	*postgres.Server
	Name string
}

// FreshDatabase is an empty database on the PostgreSQL server that all tests of this process share; it goes with the
// test. A test that stops the server takes OwnDatabase.
func FreshDatabase(t testing.TB) Database {
	t.Helper()
	needBinary(t)
	server, name, drop, err := postgres.FreshDatabase(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := drop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return Database{server, name}
}

// OwnDatabase is an empty database on a PostgreSQL server of its own.
func OwnDatabase(t testing.TB, settings map[string]string) Database {
	t.Helper()
	needBinary(t)
	server, err := postgres.Start(context.Background(), postgres.Options{Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("PostgreSQL's log ends with:\n%s", tail(server.Log(), 20))
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := server.CreateDatabase(context.Background(), "im"); err != nil {
		t.Fatal(err)
	}
	return Database{server, "im"}
}

// Store is the database as a setting of a server.
func (d Database) Store() string { return "IM_STORE=" + d.DSN(d.Name) }

// StoreAt is Store through another address, as of a proxy.
func (d Database) StoreAt(addr string) string { return "IM_STORE=" + d.DSNAt(addr, d.Name) }

// Query is the answer of a statement in the database, as superuser.
func (d Database) Query(t testing.TB, sql string, args ...any) int64 {
	t.Helper()
	answer, err := postgres.Ask[int64](context.Background(), d.Server, d.Name, sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// HoldWrites locks the tables that messages are written to: until release is called servers can read and cannot commit.
// release may be called again.
func (d Database) HoldWrites(t testing.TB) (release func()) {
	t.Helper()
	conn, err := d.Connect(context.Background(), d.Name)
	if err == nil {
		_, err = conn.Exec(context.Background(), "BEGIN; LOCK TABLE conversations, events, msg_dedup IN EXCLUSIVE MODE")
	}
	if err != nil {
		t.Fatal(err)
	}
	release = sync.OnceFunc(func() { _ = conn.Close(context.Background()) }) // which rolls back
	t.Cleanup(release)
	return release
}

// nodes is how many servers the shared one consists of, where it has a database.
var nodes = max(1, atoi(os.Getenv("IMPART_NODES")))

func atoi(s string) int {
	n, _ := strconv.Atoi(s) // 0 for what is none
	return n
}

// launchShared starts the shared server, and what it needs.
func launchShared(dir string) (*Server, error) {
	if !onDatabase() {
		return Launch(Config{Dir: dir})
	}
	d, err := unnamed(context.Background())
	if err != nil {
		return nil, err
	}
	shared.drop = d.close
	var logic []*Server
	for i := range nodes {
		if !rolesApart {
			break
		}
		node, err := launchLogic(Config{Dir: fmt.Sprintf("%s/rules%d", dir, i), Store: d.Store, Env: d.Env()})
		if err != nil {
			return nil, err
		}
		logic = append(logic, node)
	}
	var first *Server
	for i := range nodes {
		sub := fmt.Sprintf("%s/node%d", dir, i)
		if err := os.Mkdir(sub, 0o755); err != nil {
			return nil, err
		}
		s, err := Launch(Config{Dir: sub, Store: d.Store, Env: d.Env(), Logic: logic})
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = s
		} else {
			first.peers = append(first.peers, s)
		}
	}
	return first, nil
}

// Peers are the servers that share a database with the shared one.
func (s *Server) Peers() []*Server { return s.peers }
