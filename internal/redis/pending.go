package redis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/pending"
)

// PendingConfig of a set. Gateway is needed.
type PendingConfig struct {
	// Gateway names the set, and no other living gateway: the one that starts later
	// takes the name's set from the other.
	Gateway string
	// Lease is how long the set stays this gateway's when it is not heard of; 0 means
	// 5 seconds. After that another gateway takes over what is in it.
	Lease   time.Duration
	Log     *slog.Logger          // nil: nothing is logged
	Metrics prometheus.Registerer // nil: nothing is counted

	now func() int64 // Unix ms, instead of Redis' clock; nil but in tests
}

// Bounds of one exchange, and of what waits.
const (
	maxChanges = 512     // flows in one call of a script
	maxWaiting = 1 << 16 // flows that Redis has not been told of
)

// Pending is a gateway's [pending.Set] in Redis, where it outlives the gateway. Its
// methods note what has changed and return: one goroutine tells Redis, in order, as
// much as there is at a time. So no push waits for Redis, and no acknowledgement
// overtakes the registration that it settles. Due and Len ask Redis, after all that
// was noted before them.
//
// While Redis does not answer, every method says so at once. What was noted then is
// told later, once for each flow.
type Pending struct {
	cfg   PendingConfig
	c     *Client
	keys  setKeys
	token string // under which this process holds the lease

	stop    context.CancelFunc // ends what follows
	running sync.WaitGroup
	more    chan struct{} // holds one token while there may be something to tell
	talk    chan struct{} // held by who talks with Redis

	mu       sync.Mutex // guards what follows
	waiting  map[pending.Key]change
	byConn   map[uint64][]pending.Key // of every flow that may be in the set
	trouble  error                    // why Redis is not asked; nil: it is
	retryAt  time.Time
	failures int
	silent   []string // gateways that may have died
	namesake bool     // another process lives under this gateway's name
	closed   bool
	unlisten func()
}

var (
	_ pending.Set  = (*Pending)(nil)
	_ pending.Heir = (*Pending)(nil)
)

// change is what Redis has to be told about a flow.
type change struct {
	way way
	pending.Entry
}

// way says how a flow changes, as the script has it.
type way string

const (
	register way = "register"
	moved    way = "moved"
	anew     way = "anew" // settled and registered again
	settle   way = "settle"
)

// then is the one change that does what c and after it next would do.
func (c change) then(next change) change {
	gone := c.way == settle
	switch next.way {
	case register:
		if gone {
			next.way = anew
			return next
		}
		c.Seq = max(c.Seq, next.Seq)
		return c
	case moved:
		if gone {
			next.way = anew
			return next
		}
		next.Seq = max(c.Seq, next.Seq)
		if c.way == anew {
			next.way = anew
		}
		return next
	default:
		return next
	}
}

// NewPending makes the gateway's set, with the lease of it as soon as Redis answers.
// What an earlier process of that name left in it is dropped: its connections are gone.
func NewPending(c *Client, cfg PendingConfig) *Pending {
	if cfg.Lease == 0 {
		cfg.Lease = 5 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	p := &Pending{
		cfg: cfg, c: c, keys: keysOf(cfg.Gateway), token: randomName(),
		more: make(chan struct{}, 1), talk: make(chan struct{}, 1),
		waiting: map[pending.Key]change{}, byConn: map[uint64][]pending.Key{},
	}
	p.unlisten = registerAll(cfg.Metrics, c.metrics.inherited, c.metrics.leases,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "im_pending_untold", Help: "Changes of unacknowledged flows that Redis has not been told of."}, func() float64 {
			p.mu.Lock()
			defer p.mu.Unlock()
			return float64(len(p.waiting))
		}))
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.take(ctx)
	p.running.Go(func() { p.tell(ctx) })
	p.running.Go(func() { p.beat(ctx) })
	return p
}

func randomName() string {
	var raw [6]byte
	_, _ = rand.Read(raw[:]) // never fails
	return hex.EncodeToString(raw[:])
}

// Register implements [pending.Set].
func (p *Pending) Register(_ context.Context, entries ...pending.Entry) error {
	return p.put(register, entries)
}

// Moved implements [pending.Set].
func (p *Pending) Moved(_ context.Context, entries ...pending.Entry) error {
	return p.put(moved, entries)
}

func (p *Pending) put(how way, entries []pending.Entry) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		p.note(change{how, *e})
		if flows := p.byConn[e.Conn]; !slices.Contains(flows, e.Key) {
			p.byConn[e.Conn] = append(flows, e.Key)
		}
	}
	return p.trouble
}

// Settle implements [pending.Set].
func (p *Pending) Settle(_ context.Context, keys ...pending.Key) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range keys {
		p.note(change{settle, pending.Entry{Key: key}})
		p.forget(key)
	}
	return p.trouble
}

// Drop implements [pending.Set].
func (p *Pending) Drop(_ context.Context, conn uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range p.byConn[conn] {
		p.note(change{settle, pending.Entry{Key: key}})
	}
	delete(p.byConn, conn)
	return p.trouble
}

// note adds a change to those that Redis is told of. p.mu is held.
func (p *Pending) note(next change) {
	if p.closed {
		return
	}
	if before, ok := p.waiting[next.Key]; ok {
		next = before.then(next)
	} else if len(p.waiting) >= maxWaiting {
		// The set is worth less than the memory: flows that are forgotten here are found
		// by the sweep, and those that stay in Redis by mistake are found when they are due.
		p.c.metrics.dropped.WithLabelValues(partPending).Add(float64(len(p.waiting)))
		clear(p.waiting)
	}
	p.waiting[next.Key] = next
	signal(p.more)
}

// forget removes a flow from those of its connection. p.mu is held.
func (p *Pending) forget(key pending.Key) {
	flows := p.byConn[key.Conn]
	at := slices.Index(flows, key)
	switch {
	case at < 0:
	case len(flows) == 1:
		delete(p.byConn, key.Conn)
	default:
		p.byConn[key.Conn] = slices.Delete(flows, at, at+1)
	}
}

// Due implements [pending.Set].
func (p *Pending) Due(ctx context.Context, limit int) ([]pending.Entry, error) {
	if limit <= 0 {
		return nil, nil
	}
	due, err := ask(ctx, p, func(ctx context.Context) ([]pending.Entry, error) {
		values, err := dueScript.Exec(ctx, p.c.get(), p.keys, []string{p.token, p.time(), strconv.Itoa(limit), strconv.Itoa(pending.Attempts)}).AsStrSlice()
		return parseFlows(values), err
	})
	if fault.Planted(fault.RetriesForEver) {
		return due, errors.Join(err, p.again(ctx, due))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range due {
		if due[i].Attempts > pending.Attempts {
			p.forget(due[i].Key)
		}
	}
	return due, err
}

// again is what a set does that lacks D10: it never gives up.
func (p *Pending) again(ctx context.Context, due []pending.Entry) (err error) {
	for i := range due {
		if due[i].Attempts > pending.Attempts {
			due[i].Attempts = pending.Attempts
			err = errors.Join(err, p.Moved(ctx, due[i]))
		}
	}
	return err
}

// Len implements [pending.Set].
func (p *Pending) Len(ctx context.Context) (int, error) {
	n, err := ask(ctx, p, func(ctx context.Context) (int64, error) {
		conn := p.c.get()
		return conn.Do(ctx, conn.B().Zcard().Key(p.keys[0]).Build()).AsInt64()
	})
	return int(n), err
}

// time is the time as the scripts take it: 0 means by Redis' clock.
func (p *Pending) time() string {
	if fault.Planted(fault.DueByOwnClock) {
		return strconv.FormatInt(fault.Wall(time.Now()).UnixMilli(), 10)
	}
	if p.cfg.now == nil {
		return "0"
	}
	return strconv.FormatInt(p.cfg.now(), 10)
}

// ask tells Redis what waits and then does do, unless it is nil, twice if the lease had
// to be got again in between. While Redis does not answer it says so at once.
//
// The work goes on when ctx ends, until its own time-outs end it: the client library
// may wait for a connection that is being made for longer than it was told to.
func ask[T any](ctx context.Context, p *Pending, do func(context.Context) (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	var none T
	if err := p.resting(); err != nil {
		return none, err
	}
	select {
	case p.talk <- struct{}{}:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	done := make(chan outcome, 1)
	go func() {
		defer func() { <-p.talk }()
		var o outcome
		asked := true
		if p.c.get() == nil {
			o.err = errDown
		} else if asked, o.err = p.flush(); o.err == nil && do != nil {
			o.value, o.err = leased(p, do)
			asked = true
		}
		if asked { // or else nobody knows more about Redis than before
			o.err = p.outcome(o.err)
		}
		done <- o
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// leased does do, and once more when the lease had ended and could be got again. Each
// exchange has its own [patience].
func leased[T any](p *Pending, do func(context.Context) (T, error)) (T, error) {
	value, err := exchange(do)
	if !isLost(err) {
		return value, err
	}
	p.c.metrics.leases.WithLabelValues("lost").Inc()
	if _, e := exchange(func(ctx context.Context) (none, error) { return none{}, p.lease(ctx, false) }); e != nil {
		return value, e
	}
	return exchange(do)
}

// none is what an exchange gives that gives nothing.
type none struct{}

func exchange[T any](do func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return do(ctx)
}

// resting is why Redis is not asked now; nil: it is.
func (p *Pending) resting() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.New("the pending set is closed")
	}
	if p.trouble != nil && time.Now().Before(p.retryAt) {
		return p.trouble
	}
	return nil
}

// outcome notes how an exchange with Redis went. After a failure it is left in peace
// for a while, so that nobody waits for it again and again.
func (p *Pending) outcome(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.trouble, p.failures = nil, 0
		return nil
	}
	p.c.metrics.failed.WithLabelValues(partPending).Inc()
	p.trouble = fmt.Errorf("the pending set in redis: %w", err)
	p.retryAt = time.Now().Add(min(2*time.Second, patience<<min(p.failures, 10)))
	p.failures++
	return p.trouble
}
