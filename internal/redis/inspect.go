package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// RefusedError says that Redis answers, and will not have this user, or has no such
// database, or that one side does not trust the other's certificate.
type RefusedError struct {
	Hosts string
	TLS   bool // it is about certificates
	Err   error
}

// refusalOf is what an attempt to connect says if trying again is of no use, else nil.
func refusalOf(err error, address string) error {
	if about := distrusted(err); about || refused(err) {
		return RefusedError{Hosts(address), about, err}
	}
	return nil
}

// Error has no password.
func (e RefusedError) Error() string {
	if e.TLS {
		return fmt.Sprintf("redis at %s and this process do not trust each other: %v", e.Hosts, e.Err)
	}
	if noDatabase(e.Err) {
		return fmt.Sprintf("redis at %s does not have the database of the address: %v", e.Hosts, e.Err)
	}
	return fmt.Sprintf("redis at %s refuses the user or the password: %v", e.Hosts, e.Err)
}

// Advice is what mends it, as part of a sentence.
func (e RefusedError) Advice() string {
	if e.TLS {
		return "tls_ca in the address should name the authority of its certificate, tls_name the name in that certificate if it is not the host, " +
			"tls_cert and tls_key a certificate that it takes"
	}
	if noDatabase(e.Err) {
		return "give a database that it has: 0 to 15 by default, and 0 alone in a Cluster"
	}
	return "give a user and a password that it knows; those of Sentinels are sentinel_user and sentinel_password"
}

// Unwrap is what Redis said.
func (e RefusedError) Unwrap() error { return e.Err }

// hinted adds to an error of the first exchange whether the two sides may speak of TLS
// differently: secure is what this process does. A server that speaks it ends a
// connection in plain text, and one that does not waits for the end of what it takes
// for a command, or answers with an error in plain text.
func hinted(err error, secure bool) error {
	var op *net.OpError
	switch {
	case err == nil || errors.As(err, &op) && op.Op == "dial":
		return err // there was no exchange
	case secure && (isTimeout(err) || errors.As(err, new(tls.RecordHeaderError))):
		return fmt.Errorf("%w; does it speak TLS? if not, use redis://", err)
	case !secure && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || strings.Contains(err.Error(), "unknown message type")):
		return fmt.Errorf("%w; does it speak TLS? if so, use rediss://", err)
	}
	return err
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// Found is what [Inspect] saw.
type Found struct {
	Shape   string // as [Client.Shape]
	Version string
	Old     bool          // older than what this package is tested with
	Replica bool          // it takes no writes
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
	if refusal := refusalOf(err, address); refusal != nil {
		return found, refusal
	}
	if err != nil {
		return found, fmt.Errorf("redis at %s cannot be reached: %w", Hosts(address), hinted(err, found.TLS))
	}
	defer conn.Close()
	c.conn = conn
	found.Shape = c.Shape()
	began := time.Now()
	if err := conn.Do(ctx, conn.B().Ping().Build()).Error(); err != nil {
		return found, fmt.Errorf("redis at %s does not answer: %w", Hosts(address), err)
	}
	found.Took = time.Since(began)
	info, err := conn.Do(ctx, conn.B().Info().Section("server", "replication").Build()).ToString()
	if err != nil {
		return found, fmt.Errorf("redis at %s does not tell its version: %w", Hosts(address), err)
	}
	found.Version = field(info, "redis_version")
	found.Replica = field(info, "role") == "slave" && field(info, "slave_read_only") == "1"
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
