package mysql

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
)

// shared is the server that the tests of one process have in common.
var shared struct {
	sync.Mutex
	server *Server
	err    error // of the start, told to everybody who asks
	names  atomic.Int64
}

// Shared is the one server of this process, which the first caller starts. It ends
// with the tests of a package whose TestMain runs them through [Tests]. Who stops or
// breaks a server starts one of their own.
func Shared(ctx context.Context) (*Server, error) {
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = Start(ctx, Options{})
	}
	return shared.server, shared.err
}

// FreshDatabase makes a database with a name of its own on the shared server. drop
// removes it.
func FreshDatabase(ctx context.Context, clauses ...string) (s *Server, name string, drop func(context.Context) error, err error) {
	if s, err = Shared(ctx); err != nil {
		return nil, "", nil, err
	}
	name = fmt.Sprintf("test_%d", shared.names.Add(1))
	if err = s.CreateDatabase(ctx, name, clauses...); err != nil {
		return nil, "", nil, err
	}
	return s, name, func(ctx context.Context) error { return s.DropDatabase(ctx, name) }, nil
}

// Tests runs the tests of a package and closes the shared server after them:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(mysql.Tests(m)) }
func Tests(m interface{ Run() int }) interface{ Run() int } { return tests{m} }

type tests struct{ m interface{ Run() int } }

func (t tests) Run() int {
	code := t.m.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		return code
	}
	if wreck := wreckage(shared.server.Log()); wreck != "" {
		fmt.Println("the shared MariaDB server has crashed under the tests:", wreck)
		code = max(code, 1)
	}
	if err := shared.server.Close(); err != nil {
		fmt.Println("closing the shared MariaDB server:", err)
		code = max(code, 1)
	}
	shared.server = nil
	return code
}

// wreckage is the line of a log that tells of a crash, or "".
func wreckage(log string) string {
	for line := range strings.Lines(log) {
		if strings.Contains(line, "[ERROR] mysqld got signal") || strings.Contains(line, "[ERROR] mariadbd got signal") || strings.Contains(line, "Assertion failure") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
