package sqlstore

import (
	"context"
	"time"
)

// readTries is how often a read is done again after a connection has died, a deadlock
// or a lock that was not to be had.
const readTries = 2

// silence bounds the first try of a read, from when it has a connection. A network
// that was cut may have left that connection for dead, and then nobody answers on it:
// without a bound each such read holds its place in the pool, and the place of a read
// that would go well, for all the time its caller has. Later tries have that time: a
// database may also be slow.
const silence = 3 * time.Second

// readAgain does a read, and does it anew where it may go well then: passes says so of an
// error, and lost gives up what has failed with it. once gets the time that the try may
// take; 0 is no bound but the caller's.
func readAgain(ctx context.Context, once func(within time.Duration) error, passes func(error) bool, lost func(error)) error {
	within := silence
	for n := 0; ; n++ {
		err := once(within)
		if err == nil || n >= readTries || refused(err) || ctx.Err() != nil || !passes(err) {
			return err
		}
		lost(err)
		within = 0
	}
}

// bounded is a context that ends within a time; 0 is no bound.
func bounded(ctx context.Context, within time.Duration) (context.Context, context.CancelFunc) {
	if within == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, within)
}
