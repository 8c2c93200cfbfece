package campaign

import (
	"fmt"
	"sync"
	"time"
)

// Cluster is a world of several nodes on one database, which can break one by one.
type Cluster interface {
	World
	// Break begins what a step says; mend ends it, nil if there is nothing to end. What
	// has ended in another way by then is left alone. mend may be called at any time,
	// by another goroutine.
	Break(s *Step) (mend func() error, err error)
}

// broken is something that will be mended, by time: a question that hangs because of
// it must not keep it from being mended.
type broken struct {
	timer *time.Timer
	until time.Time
	mend  func() error // once
}

// breakDown breaks a node or the database. A world without any does nothing.
func (r *Run) breakDown(s *Step) error {
	cluster, ok := r.world.(Cluster)
	if !ok {
		return nil
	}
	if err := r.up(); err != nil {
		return err
	}
	if s.Do == Promote {
		// Whether every node has its say in time is not known: the epoch may rise.
		r.tape.MayEpoch()
	}
	mend, err := cluster.Break(s)
	if mend != nil {
		lasts := time.Duration(s.Size) * r.world.Beat()
		once := sync.OnceValue(mend)
		r.broken = append(r.broken, broken{time.AfterFunc(lasts, func() { _ = once() }), time.Now().Add(lasts), once})
	}
	if err != nil {
		return fmt.Errorf("breaking something: %w", err)
	}
	return nil
}

// mend sees to the end of what has lasted long enough; of everything with all.
func (r *Run) mend(all bool) error {
	kept := r.broken[:0]
	for _, b := range r.broken {
		if !all && time.Now().Before(b.until) {
			kept = append(kept, b)
			continue
		}
		b.timer.Stop()
		if err := b.mend(); err != nil {
			return fmt.Errorf("mending something: %w", err)
		}
	}
	r.broken = kept
	return nil
}
