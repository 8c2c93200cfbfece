package campaign

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Length is how many steps a plan has unless somebody says otherwise.
const Length = 60

// Campaign is many runs, of seeds one after the other.
type Campaign struct {
	First    uint64
	Runs     uint64
	Steps    int
	Parallel int // runs at a time
	Version  string
	Kind     Kind
	Ledger   *Ledger // what it holds is not run again; nil: none
	// Draw makes the plan of a seed; nil is [Draw].
	Draw func(seed uint64, steps int) *Plan
	// Run runs one plan.
	Run func(ctx context.Context, plan *Plan) (Result, error)
	// Told is called after each run, one call at a time; before says that the ledger
	// had it. nil is fine.
	Told func(e Entry, before bool)
}

// Do runs them all, or until ctx ends. The error is that of the ledger or of ctx.
func (c *Campaign) Do(ctx context.Context) error {
	seeds := make(chan uint64)
	var workers sync.WaitGroup
	var mu sync.Mutex // guards failed and the calls of Told
	var failed error
	tell := func(e Entry, before bool, err error) {
		mu.Lock()
		defer mu.Unlock()
		failed = errors.Join(failed, err)
		if c.Told != nil {
			c.Told(e, before)
		}
	}
	for range max(1, c.Parallel) {
		workers.Go(func() {
			for seed := range seeds {
				e := c.one(ctx, seed)
				if ctx.Err() != nil {
					return // cut short: it shows nothing
				}
				var err error
				if c.Ledger != nil {
					err = c.Ledger.Add(e)
				}
				tell(e, false, err)
			}
		})
	}
feed:
	for seed := c.First; seed < c.First+c.Runs; seed++ {
		if c.Ledger != nil {
			if e, done := c.Ledger.Done(seed); done {
				tell(e, true, nil)
				continue
			}
		}
		select {
		case seeds <- seed:
		case <-ctx.Done():
			break feed
		}
	}
	close(seeds)
	workers.Wait()
	return errors.Join(failed, ctx.Err())
}

func (c *Campaign) one(ctx context.Context, seed uint64) Entry {
	began := time.Now()
	draw := c.Draw
	if draw == nil {
		draw = Draw
	}
	result, err := c.Run(ctx, draw(seed, c.Steps))
	result.Seed = seed
	return NewEntry(c.Version, c.Kind, c.Steps, time.Since(began), result, err)
}
