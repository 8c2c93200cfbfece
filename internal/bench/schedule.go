package bench

import (
	"context"
	"time"
)

// schedule is when the requests of an open loop are due: all the turns of one
// worker, evenly spaced. The workers of a loop are offset against each other, so
// that together they are as even.
type schedule struct {
	start   time.Time
	rate    float64 // a second, of all workers together
	worker  int64   // from 0
	workers int64
}

// schedules shares rate requests a second among workers.
func schedules(start time.Time, rate float64, workers int) []schedule {
	all := make([]schedule, workers)
	for i := range all {
		all[i] = schedule{start, rate, int64(i), int64(workers)}
	}
	return all
}

// due is the time of turn k. It is not summed up, so that nothing drifts.
func (s schedule) due(k int64) time.Time {
	return s.start.Add(time.Duration(float64(k*s.workers+s.worker) / s.rate * float64(time.Second)))
}

// keep calls do for turn after turn, each no earlier than it is due, until ctx
// ends or the next turn is due after end. A turn that comes late is not left
// out, and its due time stays what it was. It returns when ctx has ended, or do
// with an error.
func (s schedule) keep(ctx context.Context, end time.Time, do func(due time.Time) error) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for k := int64(0); ; k++ {
		due := s.due(k)
		if !due.Before(end) {
			return nil
		}
		if wait := time.Until(due); wait > 0 {
			timer.Reset(wait)
			select {
			case <-ctx.Done():
				return nil
			case <-timer.C:
			}
		} else if ctx.Err() != nil {
			return nil
		}
		if err := do(due); err != nil {
			return err
		}
	}
}
