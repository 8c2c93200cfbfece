package bench

import (
	"context"
	"time"
)

// schedule is when the requests of an open loop are due: all the turns of one
// worker, evenly spaced. The workers of a loop are offset against each other, so
// that together they are as even.
type schedule struct {
	start time.Time
	every time.Duration // between two of this worker
	first time.Duration // after start
}

// schedules shares rate requests a second among workers.
func schedules(start time.Time, rate float64, workers int) []schedule {
	every := time.Duration(float64(workers) / rate * float64(time.Second))
	all := make([]schedule, workers)
	for i := range all {
		all[i] = schedule{start, every, time.Duration(float64(every) * float64(i) / float64(workers))}
	}
	return all
}

// due is the time of turn k.
func (s schedule) due(k int64) time.Time {
	return s.start.Add(s.first + time.Duration(k)*s.every)
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
