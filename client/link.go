package client

import (
	"context"
	cryptorand "crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/wire"
)

// runLink connects, again and again, until Close or until the server has said
// that the client must not return.
func (c *Client) runLink() {
	failures := 0
	for c.ctx.Err() == nil {
		c.setStatus(func(s *Status) { s.State, s.RetryAt = Connecting, time.Time{} })
		began := time.Now()
		welcomed, err := c.connect()
		if c.ctx.Err() != nil {
			return
		}
		if welcomed && time.Since(began) >= c.cfg.StableAfter {
			failures = 0
		}
		if final(err) {
			c.cfg.Log.Warn("stopped", "error", err)
			if err := c.becomeAnother(err); err != nil && c.ctx.Err() == nil {
				c.cfg.Log.Error("cannot write to the local store", "error", err)
			}
			c.setStatus(func(s *Status) { s.State, s.Err = Stopped, err })
			select {
			case <-c.returnNow:
				failures = 0
			case <-c.ctx.Done():
			}
			continue
		}
		failures++
		c.pause(c.backoff(failures, err), err)
	}
}

// final reports whether the server wants the client to stay away, or whether
// trying again can only give the same.
func final(err error) bool {
	var bye *Bye
	var wrong *wrongUser
	return errors.As(err, &bye) && bye.Final && !fault.Planted(fault.ClientReturns) || errors.As(err, &wrong)
}

// becomeAnother gives the store a new install, if its device was taken over: by a
// copy of it, maybe, whose acks are not about what is here. The counter n cannot
// tell the two apart once both have written as often. Should this store be used
// again, the server asks it for everything anew.
func (c *Client) becomeAnother(why error) error {
	var bye *Bye
	if !errors.As(why, &bye) || bye.Code != string(wire.ByeSuperseded) {
		return nil
	}
	return c.store.write(c.ctx, func(tx *sql.Tx) error { return run(tx, "UPDATE self SET install = ?", cryptorand.Text()) })
}

// wrongUser is a token for somebody else than the store's user.
type wrongUser struct{ store, token impart.UserID }

func (w *wrongUser) Error() string {
	return fmt.Sprintf("client: the store belongs to the user %q, but the token to %q; give each user a store of their own", w.store, w.token)
}

// laterError is the end of a connection for which the server has said when to return.
type laterError struct {
	error
	after time.Duration
}

func (l *laterError) Unwrap() error { return l.error }

// backoff draws the wait before an attempt: anything up to a limit that doubles
// with each failure, so that clients which lost one server at one moment do not
// return together. What the server asked for comes on top.
func (c *Client) backoff(failures int, err error) time.Duration {
	limit := c.cfg.MinBackoff << min(failures-1, 30)
	if limit > c.cfg.MaxBackoff || limit < c.cfg.MinBackoff {
		limit = c.cfg.MaxBackoff
	}
	wait := time.Duration(rand.Int64N(int64(limit) + 1))
	var later *laterError
	if errors.As(err, &later) {
		wait += later.after
	}
	return wait
}

// pause waits, or until Reconnect.
func (c *Client) pause(wait time.Duration, why error) {
	c.cfg.Log.Info("not connected", "error", why, "retry_in", wait)
	c.setStatus(func(s *Status) { s.State, s.Err, s.RetryAt = Waiting, why, time.Now().Add(wait) })
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.returnNow:
	case <-c.ctx.Done():
	}
}

// maxReply bounds a message from the server, in bytes: pages are 1 MiB at most.
const maxReply = 4 << 20

// connect makes one connection and runs it to its end. It reports whether it got
// as far as a welcome, and why it ended.
func (c *Client) connect() (welcomed bool, err error) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	token, err := c.cfg.Token(ctx)
	if err != nil {
		return false, fmt.Errorf("client: no token: %w", err)
	}
	socket, err := c.dial(ctx)
	if err != nil {
		return false, err
	}
	defer socket.CloseNow()
	socket.SetReadLimit(maxReply)
	s, err := newSession(c, socket)
	if err != nil {
		return false, err
	}
	err = s.run(ctx, token)
	return s.welcomed, err
}

func (c *Client) dial(ctx context.Context) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.ReplyTimeout)
	defer cancel()
	socket, response, err := websocket.Dial(ctx, c.cfg.URL, &websocket.DialOptions{
		HTTPClient: c.cfg.HTTPClient, Subprotocols: []string{wire.Subprotocol}, CompressionMode: websocket.CompressionDisabled,
		OnPingReceived: func(context.Context, []byte) bool {
			at := time.Now()
			c.pingHeard.Store(&at)
			return true
		},
	})
	if err == nil {
		return socket, nil
	}
	err = fmt.Errorf("client: cannot connect: %w", err)
	if response != nil && response.StatusCode == http.StatusServiceUnavailable {
		if seconds, bad := strconv.Atoi(response.Header.Get("Retry-After")); bad == nil && seconds > 0 {
			err = &laterError{error: err, after: min(time.Duration(seconds)*time.Second, maxLater)}
		}
	}
	return nil, err
}

// maxLater bounds what a server can ask for: a broken one must not silence its clients for a day.
const maxLater = 5 * time.Minute
