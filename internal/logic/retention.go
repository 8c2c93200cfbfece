package logic

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
)

const (
	// cleanBatch is how many rows one transaction removes (seed 002).
	cleanBatch = 5000
	// cleanPause is between two of them, so that sends get their turn.
	cleanPause = 100 * time.Millisecond
	// cleanFirst and cleanEvery say when rounds begin.
	cleanFirst = 10 * time.Second
	cleanEvery = time.Minute
	// cleanOffset is how far the store's clock and this machine's may be apart for
	// anything to be removed: one of them is wrong, and what is gone does not come back.
	cleanOffset = time.Minute
)

// cleaning removes what is older than a given age.
type cleaning struct {
	table  string
	age    time.Duration // 0: nothing is too old
	remove func(ctx context.Context, before impart.Millis, limit int) (removed int, more bool, err error)
}

// startCleaning removes old events and dedup rows in the background, until ctx
// ends. Nothing hangs on when it happens: what fails is tried in the next round.
func (s *Service) startCleaning(ctx context.Context) {
	for _, c := range []cleaning{
		{"events", s.cfg.Retention, s.store.Retain},
		{"msg_dedup", s.cfg.DedupRetention, s.store.CleanDedup},
	} {
		if c.age > 0 {
			s.running.Go(func() { s.clean(ctx, c) })
		}
	}
}

func (s *Service) clean(ctx context.Context, c cleaning) {
	for wait := cleanFirst; pause(ctx, wait); wait = cleanEvery {
		if err := s.cleanRound(ctx, c); err != nil && ctx.Err() == nil {
			s.metrics.cleanFailed.Inc()
			s.log.LogAttrs(ctx, slog.LevelWarn, "removing old rows stopped early; the next round goes on",
				slog.String("table", c.table), slog.Any("err", err))
		}
	}
}

// cleanRound removes batches until nothing is too old any more.
func (s *Service) cleanRound(ctx context.Context, c cleaning) error {
	before, err := s.cleanBefore(ctx, c.age)
	if err != nil {
		return err
	}
	for {
		removed, more, err := c.remove(ctx, before, cleanBatch)
		s.metrics.removed.WithLabelValues(c.table).Add(float64(removed))
		if err != nil || !more {
			return err
		}
		if !pause(ctx, cleanPause) {
			return ctx.Err()
		}
	}
}

// cleanBefore is the time that is age ago by the store's clock, read now (hole 18).
func (s *Service) cleanBefore(ctx context.Context, age time.Duration) (impart.Millis, error) {
	v, err := s.readClock(ctx)
	if err != nil {
		return 0, err
	}
	now, machine := s.clock.now(), s.now()
	if fault.Planted(fault.CleansByOwnClock) {
		return machine - millisOf(age), nil
	}
	apart := time.Duration(max(now-machine, machine-now)) * time.Millisecond
	if apart > cleanOffset+v.Took {
		return 0, fmt.Errorf("the store's clock and this machine's are %v apart: one of them is wrong, so nothing is removed", apart.Round(time.Second))
	}
	return now - millisOf(age), nil
}

// pause waits, and reports whether it was for the whole time.
func pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
