package rpc

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/impart-im/impart"
)

const (
	// maxTries is how often one call goes to a node.
	maxTries = 4
	// callWithin bounds a call whose caller has set no deadline.
	callWithin = 30 * time.Second
	// retryPause is the first wait before the only node there is gets a call again.
	retryPause = 25 * time.Millisecond
)

// repeat says what may be done when the outcome of a call is unknown.
type repeat bool

const (
	// again: carrying it out twice is carrying it out once, also when the first comes
	// late, after others.
	again repeat = true
	// once: it must not be carried out behind the caller's back; only the caller can
	// know whether to ask again.
	once repeat = false
)

// attempt makes one call, on another node if the first is lost and that changes
// nothing. Its error is an [impart.Error].
func attempt[R any](ctx context.Context, c *Client, op string, key uint64, how repeat, do func(context.Context, *session) (R, error)) (reply R, err error) {
	began := time.Now()
	c.metrics.inflight.Inc()
	defer func() {
		c.metrics.inflight.Dec()
		c.metrics.seconds.WithLabelValues(op).Observe(time.Since(began).Seconds())
		code := "OK"
		if err != nil {
			code = string(impart.CodeOf(err))
		}
		c.metrics.calls.WithLabelValues(op, code).Inc()
	}()
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callWithin)
		defer cancel()
	}
	var none R
	var avoid *node
	for try := 1; ; try++ {
		s, err := c.pick(ctx, key, avoid)
		if err != nil {
			return none, err
		}
		if s.node == avoid && try > 2 { // the only one there is, and it fails again
			pause(ctx, time.Duration(try)*retryPause)
		}
		reply, err := do(ctx, s)
		s.release()
		if err == nil {
			return reply, nil
		}
		if e := ofRules(err); e != nil {
			return none, e
		}
		if ctx.Err() != nil {
			return none, impart.AsError(ctx.Err())
		}
		if how == once || try == maxTries || !mayPass(err) {
			return none, lost(err)
		}
		avoid = s.node
		c.metrics.retries.WithLabelValues(op).Inc()
	}
}

// pause waits, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// ofRules is the error that the rules gave, or the client's own refusal; nil for what
// went wrong on the way.
func ofRules(err error) *impart.Error {
	var own *impart.Error
	if errors.As(err, &own) {
		return own
	}
	if e, ok := fromStatus(err); ok {
		return e
	}
	if status.Code(err) == codes.DeadlineExceeded {
		return impart.AsError(context.DeadlineExceeded)
	}
	return nil
}

// mayPass reports whether another attempt may fare better: not with a message that
// is too large for the way, nor with a request that the node does not know.
func mayPass(err error) bool {
	switch status.Code(err) {
	case codes.ResourceExhausted, codes.Unimplemented:
		return false
	default:
		return true
	}
}
