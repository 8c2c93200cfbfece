package bench

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// kept runs some workers on a schedule and returns when each turn was due and
// when it was done, since the start.
func kept(t *testing.T, rate float64, workers int, d time.Duration, do func(at time.Duration)) (due, done []time.Duration) {
	t.Helper()
	start := time.Now()
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, s := range schedules(start, rate, workers) {
		group.Go(func() {
			err := s.keep(t.Context(), start.Add(d), func(at time.Time) error {
				do(at.Sub(start))
				mu.Lock()
				defer mu.Unlock()
				due, done = append(due, at.Sub(start)), append(done, time.Since(start))
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	slices.Sort(due)
	return due, done
}

func TestScheduleIsEvenOverItsWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		due, _ := kept(t, 1000, 7, time.Second, func(time.Duration) {})
		if len(due) != 1000 {
			t.Fatalf("%d turns in a second of 1000", len(due))
		}
		for i, at := range due {
			if off := at - time.Duration(i)*time.Millisecond; off < -time.Microsecond || off > time.Microsecond {
				t.Fatalf("turn %d is due at %v", i, at)
			}
		}
	})
}

// TestStallIsNotOmitted is the point of an open loop: while a server stalls for a
// second, the requests that were due meanwhile wait, and their waiting counts.
func TestStallIsNotOmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := newRecorder()
		stalled := false
		due, _ := kept(t, 100, 1, 2*time.Second, func(at time.Duration) {
			if !stalled {
				stalled = true
				time.Sleep(time.Second) // the first request
			}
			r.record(time.Since(start) - at)
		})
		if len(due) != 200 {
			t.Fatalf("%d requests were made of 200 due", len(due))
		}
		l := r.latency()
		// 100 of the 200 were due during the stall and waited 1 s … 10 ms.
		if l.P50 > 10 || l.P90 < 750 || l.Max < 990 {
			t.Errorf("p50 %v ms, p90 %v ms, longest %v ms", l.P50, l.P90, l.Max)
		}
	})
}

func TestScheduleEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 55*time.Millisecond)
		defer cancel()
		turns := 0
		s := schedules(time.Now(), 100, 1)[0]
		if err := s.keep(ctx, time.Now().Add(time.Hour), func(time.Time) error { turns++; return nil }); err != nil || turns != 6 {
			t.Errorf("%d turns, %v", turns, err)
		}
		wrong := errors.New("wrong")
		if err := s.keep(t.Context(), time.Now().Add(time.Hour), func(time.Time) error { return wrong }); !errors.Is(err, wrong) {
			t.Error(err)
		}
	})
}
