package bench

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// People answer each other: a conversation is quiet for a while, and then a few
// messages come close together. A burst is written by two members in turn.
const (
	burstGap = 25 * time.Millisecond // between two messages of a burst
	// burstSpan is longer than a burst: a worker is busy with one at a time.
	burstSpan = 250 * time.Millisecond
)

// burstSizes are the lengths of bursts, one after the other. Their mean makes one
// acknowledgement per four pushes, as seed 000 plans with: the eight devices of a
// group each ack a burst once, the writers too, and a message is pushed to seven.
var burstSizes = [...]int{5, 4, 5, 5, 4, 5}

const burstMean = 28.0 / 6

// talk is an open loop of bursts.
type talk struct {
	fleet  *fleet
	groups [][]*device
	late   *recorder
}

// run writes rate messages a second for d, in bursts, over all groups in turn.
func (t *talk) run(ctx context.Context, rate float64, d time.Duration) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	bursts := rate / burstMean
	workers := max(1, int(bursts*burstSpan.Seconds())+1)
	start := time.Now()
	order := rand.Perm(len(t.groups))
	var group sync.WaitGroup
	for w, plan := range schedules(start, bursts, workers) {
		group.Go(func() {
			turn := 0
			err := plan.keep(ctx, start.Add(d), func(due time.Time) error {
				k := turn*workers + w // the number of this burst among all
				turn++
				return t.burst(ctx, t.groups[order[k%len(order)]], burstSizes[k%len(burstSizes)], due)
			})
			if err != nil {
				cancel(err)
			}
		})
	}
	group.Wait()
	return failure(ctx)
}

// burst writes n messages into a group.
func (t *talk) burst(ctx context.Context, group []*device, n int, due time.Time) error {
	first := rand.IntN(len(group))
	writers := [2]*device{group[first], group[(first+1)%len(group)]}
	for i := range n {
		at := due.Add(time.Duration(i) * burstGap)
		if wait := time.Until(at); wait > 0 && !sleep(ctx, wait) {
			return nil
		}
		t.late.record(time.Since(at))
		if err := writers[i%2].send(at); err != nil {
			return err
		}
	}
	return nil
}

// sleep waits; false if ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
