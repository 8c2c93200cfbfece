package sqlstore

import (
	"context"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// beside is an engine's way to a database whose history may be another than was
// accepted, which its pools refuse.
type beside interface {
	// apart runs do in a transaction on a connection of its own: one that reads, or, where
	// something is to be judged, one that locks the row of meta. do is told what the
	// server is, where its log ends, and what stands in that row.
	apart(ctx context.Context, judges bool, do func(t deferring, server string, end int64, has history) error) error
	// leaveAside ends that connection.
	leaveAside()
	// reset gives up what is idle in the pools.
	reset()
}

// succession looks at the histories that follow one another in a database server, and
// judges them: the part of [engine] that is the same for every server.
type succession struct {
	known *identity
	by    beside
	sql   *judgingStatements
	clock string // a statement that gives the server's clock in ms
}

// halted implements [engine].
func (s *succession) halted() *store.Halt { return s.known.halted() }

// look implements [engine].
func (s *succession) look(ctx context.Context) (halt *store.Halt, err error) {
	s.by.leaveAside()
	was := s.known.before()
	err = s.by.apart(ctx, false, func(_ deferring, server string, end int64, has history) error {
		var err error
		halt, err = s.known.look(was, server, end, has)
		return err
	})
	if err != nil && halt == nil {
		halt = s.known.halted()
	}
	if halt == nil {
		s.by.leaveAside()
	}
	return halt, err
}

// missing implements [engine].
func (s *succession) missing(ctx context.Context, halt *store.Halt, promises []store.Promise) (out []store.Promise, err error) {
	err = s.by.apart(ctx, false, func(t deferring, server string, _ int64, _ history) error {
		if server != halt.Now.Incarnation {
			return another(server, halt)
		}
		out, err = unkept(t, promises)
		return err
	})
	return out, err
}

// judge implements [engine]: one transaction that locks the row of meta.
func (s *succession) judge(ctx context.Context, halt *store.Halt, given store.Verdict, rule store.Rule) (out store.Judgement, err error) {
	was := s.known.before()
	var after history
	err = s.by.apart(ctx, true, func(t deferring, server string, _ int64, has history) error {
		if server != halt.Now.Incarnation {
			return another(server, halt)
		}
		var now impart.Millis
		if err := t.query(s.clock, func(r row) error { now = impart.Millis(r.num(0)); return nil }); err != nil {
			return err
		}
		j := judging{t: t, sql: s.sql, row: has, server: server, given: given, now: now}
		var err error
		out, err = j.judge(halt, was, rule)
		after = j.row
		return err
	})
	if err != nil || out.Waiting {
		return store.Judgement{Waiting: out.Waiting}, err
	}
	s.by.leaveAside()
	s.known.adopt(after)
	s.by.reset()
	return out, nil
}
