package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	// shortRest is how long a pool asks for no other connection after the server has
	// refused one.
	shortRest = 500 * time.Millisecond
	// shortTold is how often the log says so, at most.
	shortTold = 10 * time.Minute
	// The rest between two looks for a connection that has become free, at first and
	// at most.
	freeRest, freeRestMost = 2 * time.Millisecond, 50 * time.Millisecond
)

// shortage is what is known of a server that has no connection left for this node.
// Whoever wants one waits for one of those that the pool has, in place of a failure.
type shortage struct {
	is       func(err error) bool // tells the server's refusal
	log      *slog.Logger
	patience time.Duration
	told     atomic.Pointer[time.Time]
	last     atomic.Pointer[refusedConn]
}

// refusedConn is the error of a connection that the server refused, or that it was not
// asked for since.
type refusedConn struct {
	error
	until time.Time
}

// Unwrap gives what the server said.
func (e *refusedConn) Unwrap() error { return e.error }

// rest is an error as long as the server is not to be asked for another connection.
func (s *shortage) rest() error {
	if last := s.last.Load(); last != nil && time.Now().Before(last.until) {
		return last
	}
	return nil
}

// met notes that the server has refused a connection.
func (s *shortage) met(err error) {
	now := time.Now()
	s.last.Store(&refusedConn{err, now.Add(shortRest)})
	if told := s.told.Load(); told == nil || now.Sub(*told) > shortTold {
		s.told.Store(&now)
		s.log.Warn("the database server has no connection left for this node, whose requests wait for those that it has:"+
			" raise max_connections, or let each node take fewer (pool_max_conns in the address)", "error", err)
	}
}

// wait takes a connection from a pool. For as long as the caller has time, and no longer
// than a write is tried for, it is tried again where the server has none left; has tells
// how many the pool has, and relieve makes room if it stays without any.
func (s *shortage) wait(ctx context.Context, take func() error, has func() int, relieve func()) error {
	began, relieved := time.Now(), time.Now()
	for rest := freeRest; ; rest = min(2*rest, freeRestMost) {
		err := take()
		if err == nil || ctx.Err() != nil || !s.is(err) || time.Since(began) > s.patience {
			return err
		}
		if known := (*refusedConn)(nil); !errors.As(err, &known) {
			s.met(err)
		}
		if has() == 0 && time.Since(relieved) > 2*shortRest {
			relieved = time.Now()
			relieve()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", err, context.Cause(ctx))
		case <-time.After(rest):
		}
	}
}
