package sqlstore

import (
	"context"
	"errors"

	"github.com/impart-im/impart/internal/store"
)

// failover is how an engine finds out that its database has another history, and
// judges it; see [store.Failover].
type failover interface {
	beat(ctx context.Context, of store.Node) (store.Beat, error)
	leave(ctx context.Context, of store.Node) error
	halted() *store.Halt
	look(ctx context.Context) (*store.Halt, error)
	missing(ctx context.Context, halt *store.Halt, promises []store.Promise) ([]store.Promise, error)
	judge(ctx context.Context, halt *store.Halt, given store.Verdict, rule store.Rule) (store.Judgement, error)
	// vitals is [store.Upkeep.Vitals].
	vitals(ctx context.Context) (store.Vitals, error)
	// settingsApart are the settings while the store is halted.
	settingsApart(ctx context.Context) ([]store.Setting, error)
}

// alone is for a database that one process has for itself: nobody can replace it.
type alone struct{}

var errAlone = errors.New("this store is its process's alone and never halts")

func (alone) beat(context.Context, store.Node) (store.Beat, error) {
	return store.Beat{Alone: true}, nil
}
func (alone) leave(context.Context, store.Node) error                { return nil }
func (alone) halted() *store.Halt                                    { return nil }
func (alone) look(context.Context) (*store.Halt, error)              { return nil, nil }
func (alone) vitals(context.Context) (store.Vitals, error)           { return store.Vitals{}, nil }
func (alone) settingsApart(context.Context) ([]store.Setting, error) { return nil, errAlone }

func (alone) missing(context.Context, *store.Halt, []store.Promise) ([]store.Promise, error) {
	return nil, errAlone
}

func (alone) judge(context.Context, *store.Halt, store.Verdict, store.Rule) (store.Judgement, error) {
	return store.Judgement{}, errAlone
}

// Beat implements [store.Failover].
func (s *Store) Beat(ctx context.Context, of store.Node) (store.Beat, error) {
	return s.engine.beat(ctx, of)
}

// Leave implements [store.Failover].
func (s *Store) Leave(ctx context.Context, of store.Node) error { return s.engine.leave(ctx, of) }

// Halted implements [store.Failover].
func (s *Store) Halted() *store.Halt { return s.engine.halted() }

// Look implements [store.Failover].
func (s *Store) Look(ctx context.Context) (*store.Halt, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.reading.Done()
	return s.engine.look(ctx)
}

// Missing implements [store.Failover].
func (s *Store) Missing(ctx context.Context, halt *store.Halt, promises []store.Promise) ([]store.Promise, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.reading.Done()
	return s.engine.missing(ctx, halt, promises)
}

// Judge implements [store.Failover].
func (s *Store) Judge(ctx context.Context, halt *store.Halt, verdict store.Verdict, rule store.Rule) (store.Judgement, error) {
	if err := s.enter(); err != nil {
		return store.Judgement{}, err
	}
	defer s.reading.Done()
	return s.engine.judge(ctx, halt, verdict, rule)
}
