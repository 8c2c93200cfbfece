package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// RefusedError says that Redis answers, and will not have this user.
type RefusedError struct {
	Hosts string
	Err   error
}

// Error has no password.
func (e RefusedError) Error() string {
	return fmt.Sprintf("redis at %s refuses the user or the password: %v", e.Hosts, e.Err)
}

// Unwrap is what Redis said.
func (e RefusedError) Unwrap() error { return e.Err }

// Found is what [Inspect] saw.
type Found struct {
	Shape   string // as [Client.Shape]
	Version string
	Old     bool          // older than what this package is tested with
	Took    time.Duration // the time of one exchange
	TLS     bool
}

// oldest is the first version of Redis with all that is used here.
const oldest = 7

// Inspect looks at a Redis, and changes nothing. [RefusedError]; any other error says
// that it cannot be reached.
func Inspect(ctx context.Context, address string) (found Found, err error) {
	opts, err := options(address)
	if err != nil {
		return found, err
	}
	found.TLS = opts.TLSConfig != nil
	c := &Client{opts: opts}
	conn, err := c.dial(ctx)
	if refused(err) {
		return found, RefusedError{Hosts(address), err}
	}
	if err != nil {
		return found, fmt.Errorf("redis at %s cannot be reached: %w", Hosts(address), err)
	}
	defer conn.Close()
	c.conn = conn
	found.Shape = c.Shape()
	began := time.Now()
	if err := conn.Do(ctx, conn.B().Ping().Build()).Error(); err != nil {
		return found, fmt.Errorf("redis at %s does not answer: %w", Hosts(address), err)
	}
	found.Took = time.Since(began)
	info, err := conn.Do(ctx, conn.B().Info().Section("server").Build()).ToString()
	if err != nil {
		return found, fmt.Errorf("redis at %s does not tell its version: %w", Hosts(address), err)
	}
	found.Version = field(info, "redis_version")
	major, _, _ := strings.Cut(found.Version, ".")
	n, err := strconv.Atoi(major)
	found.Old = err != nil || n < oldest
	return found, nil
}

// field is a value in the answer to INFO.
func field(info, name string) string {
	for line := range strings.SplitSeq(info, "\r\n") {
		if value, is := strings.CutPrefix(line, name+":"); is {
			return value
		}
	}
	return ""
}
