package client

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/impart-im/impart"
)

// Errors of a client, beside the [impart.Error] that says why a request was refused.
var (
	// ErrClosed is what every method returns after Close.
	ErrClosed = errors.New("client: closed")
	// ErrInUse says that another process, or another client of this one, has the store open.
	ErrInUse = errors.New("it is open already; each client needs a store of its own")
	// ErrOutboxFull says that MaxOutbox messages wait already; nothing was taken.
	ErrOutboxFull = errors.New("client: too many messages wait in the outbox; send again once some are through")
	// ErrUnknownMessage says that no message with this cmid was sent with this store.
	ErrUnknownMessage = errors.New("client: this store knows no message of its own with this cmid")
	// ErrOffline is what a request without a place in the outbox gets when its
	// connection ends before the reply: it may be repeated.
	ErrOffline = errors.New("client: the connection ended before the reply")
)

// Client is one device. All methods may be called at the same time.
type Client struct {
	cfg    Config
	store  *store
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	owned  sync.WaitGroup // the goroutines that Close waits for
	closed sync.Once
	using  sync.RWMutex // held for reading while a method uses the store, for writing to close it

	wakeLink    chan struct{} // the outbox, or a read cursor, has changed
	wakeHandler chan struct{} // events are stored
	returnNow   chan struct{} // Reconnect was called
	calls       chan *call
	typing      chan impart.ConvID
	notes       notes

	pingHeard atomic.Pointer[time.Time] // when the server last sent a WebSocket ping, by the clock that nobody sets; nil: never

	mu      sync.Mutex // guards what follows
	status  Status
	fresh   map[impart.ConvID]bool // got an outbox item since the session looked
	changed chan struct{}          // closed and made anew when status changes, or an item is settled
}

// Open opens the local store and connects in the background, again and again,
// until Close. It returns once Send can be used, which needs no network. An error
// says what is wrong with the configuration or the store. ctx bounds only Open.
func Open(ctx context.Context, cfg Config) (*Client, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s, err := openStore(ctx, cfg.Store, cfg.User, cfg.Device)
	if err != nil {
		return nil, err
	}
	me, err := loadSelf(s.db)
	if err != nil {
		_ = s.close()
		return nil, err
	}
	c := &Client{
		cfg: cfg, store: s,
		wakeLink: make(chan struct{}, 1), wakeHandler: make(chan struct{}, 1), returnNow: make(chan struct{}, 1),
		calls: make(chan *call), typing: make(chan impart.ConvID, 8), notes: notes{wake: make(chan struct{}, 1)},
		status:  Status{State: Connecting, User: me.User, Device: me.Device, Epoch: me.Epoch},
		changed: make(chan struct{}), fresh: map[impart.ConvID]bool{},
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.owned.Go(c.runLink)
	c.owned.Go(c.runNotes)
	if cfg.Handler.Event != nil {
		c.owned.Go(c.runHandler)
	}
	return c, nil
}

// Close ends the connection, waits for a handler that is at work, and closes the
// store. What is in the outbox stays there for the next Open. It must not be
// called from a handler. A second call does nothing.
func (c *Client) Close() error {
	var err error
	c.closed.Do(func() {
		c.cancel()
		c.owned.Wait()
		c.setStatus(func(s *Status) { s.State, s.Err, s.RetryAt = Stopped, ErrClosed, time.Time{} })
		c.using.Lock()
		defer c.using.Unlock()
		err = c.store.close()
	})
	return err
}

// Reconnect tries to connect now instead of at [Status.RetryAt]: when the machine
// has a network again, or after the user has decided to take the device back from
// where it was superseded. It does nothing on a living connection.
func (c *Client) Reconnect() {
	c.setStatus(func(s *Status) {
		switch {
		case c.ctx.Err() != nil || s.State == CatchingUp || s.State == Online:
			return
		case s.State == Stopped:
			s.State = Connecting
		}
		poke(c.returnNow)
	})
}

// WaitOnline returns once the client is connected and has caught up, but for
// conversations that the server cannot read at present. The error is
// why it will not come back by itself, or ctx's.
func (c *Client) WaitOnline(ctx context.Context) error {
	return c.wait(ctx, func(s Status) (bool, error) {
		return s.State == Online, nil
	})
}

// WaitSettled returns once every item of the outbox has its final answer.
// Errors as in WaitOnline.
func (c *Client) WaitSettled(ctx context.Context) error {
	return c.wait(ctx, func(Status) (settled bool, err error) {
		err = c.read(ctx, func(q querier) error {
			return q.QueryRow("SELECT NOT EXISTS (SELECT 1 FROM outbox WHERE code = '')").Scan(&settled)
		})
		return settled, err
	})
}

// wait looks again after every change.
func (c *Client) wait(ctx context.Context, done func(Status) (bool, error)) error {
	for {
		c.mu.Lock()
		status, changed := c.status, c.changed
		c.mu.Unlock()
		ok, err := done(status)
		switch {
		case ok || err != nil:
			return err
		case status.State == Stopped:
			return status.Err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// poke wakes whoever waits on a channel of one place.
func poke(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

func now() impart.Millis { return impart.Millis(time.Now().UnixMilli()) }

// newCMID makes a cmid that rises with time, so that the server's index of them
// grows at its end (RFC 9562, version 7, without the dashes).
func newCMID() impart.CMID {
	var id [16]byte
	_, _ = rand.Read(id[6:]) // never fails
	var at [8]byte
	binary.BigEndian.PutUint64(at[:], uint64(now()))
	copy(id[:6], at[2:])
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return impart.CMID(hex.EncodeToString(id[:]))
}
