// Package gateway is the WebSocket edge: it accepts connections, answers their
// requests through impart.Logic, pushes what others have written, and sees to
// it that no device that is online lags unnoticed. Nothing in its memory is the
// truth: a gateway that dies loses only time, because cursors and heads are in
// the store. It never stores, never decides who may see what, and never waits
// for a slow reader.
//
// The road of a message through it: accept, receive, handle (then the store and
// the bus), push; retry and sweep lead back to push.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/pending"
)

// Config says what a gateway needs. A zero field means its default.
type Config struct {
	Logic   impart.Logic
	Bus     bus.Bus
	Pending pending.Set
	// Verify turns a token into an identity, or refuses it.
	Verify func(ctx context.Context, token string) (impart.Identity, error)
	// Allow says whether a handshake's Origin may connect. Nil: any may, so the
	// caller must have checked it.
	Allow func(*http.Request) bool
	// Create makes unknown users known by their hello (dev login).
	Create bool
	// Shared says that other nodes serve the same store: a device may say hello on any
	// of them.
	Shared bool
	// Apart says that Logic is in other processes, so that only the bus tells of what it
	// has stored.
	Apart bool

	MaxBody     int            // bytes of a message body, told in welcome; default 65,536
	RulesBody   func() int     // those that Logic takes at present, told instead where fewer; 0 or nil: it does not say
	MaxFrame    int            // bytes of a request; default 1 MiB, at most 4 MiB
	MaxInflight int            // requests of a connection without a reply; default 1,024
	MaxConns    int            // connections; default 100,000
	MaxRate     float64        // requests a second of one connection; default 20,000; negative: no limit
	QueueFrames int            // pushes that wait for one socket; default 1,024
	QueueBytes  int            // and their bytes; default 256 KiB
	AckEvery    int            // told in welcome; default 4
	Sweep       time.Duration  // default 5 s
	Compare     time.Duration  // full check of one connection, on average; default 3 min
	Ladder      pending.Ladder // default pending.DefaultLadder
	Heartbeat   time.Duration  // default 25 s
	HelloTime   time.Duration  // default 10 s
	RequestTime time.Duration  // default 15 s

	Log     *slog.Logger          // default: discards
	Metrics prometheus.Registerer // nil: none
}

// Validate fills in defaults and returns all faults at once.
func (c *Config) Validate() error {
	var errs []error
	need := func(ok bool, what string) {
		if !ok {
			errs = append(errs, errors.New("gateway: "+what))
		}
	}
	need(c.Logic != nil, "Logic is missing")
	need(c.Bus != nil, "Bus is missing")
	need(c.Pending != nil, "Pending is missing")
	need(c.Verify != nil, "Verify is missing")
	defaultTo(&c.MaxBody, 64<<10)
	defaultTo(&c.MaxFrame, 1<<20)
	defaultTo(&c.MaxInflight, 1024)
	defaultTo(&c.MaxConns, 100_000)
	defaultTo(&c.MaxRate, 20_000)
	defaultTo(&c.QueueFrames, 1024)
	defaultTo(&c.QueueBytes, 256<<10)
	defaultTo(&c.AckEvery, 4)
	defaultTo(&c.Sweep, 5*time.Second)
	defaultTo(&c.Compare, 3*time.Minute)
	defaultTo(&c.Ladder, pending.DefaultLadder)
	defaultTo(&c.Heartbeat, 25*time.Second)
	defaultTo(&c.HelloTime, 10*time.Second)
	defaultTo(&c.RequestTime, 15*time.Second)
	need(c.MaxFrame >= 1024 && c.MaxFrame <= maxMessage, fmt.Sprintf("MaxFrame is %d, it must be 1,024 to %d", c.MaxFrame, maxMessage))
	need(c.MaxInflight >= 1, "MaxInflight must be at least 1")
	need(c.MaxConns >= 1, "MaxConns must be at least 1")
	need(c.MaxRate < 0 || c.MaxRate >= 1, "MaxRate must be at least 1 a second, or negative for no limit")
	need(c.QueueFrames >= 1 && c.QueueBytes >= 1, "QueueFrames and QueueBytes must be at least 1")
	need(c.Compare >= 10*time.Millisecond, "Compare must be at least 10 ms")
	need(c.HelloTime > 0, "HelloTime must not be negative")
	need(c.RequestTime > 0, "RequestTime must not be negative")
	need(c.Sweep >= 10*time.Millisecond, "Sweep must be at least 10 ms")
	need(c.Heartbeat >= 100*time.Millisecond, "Heartbeat must be at least 100 ms")
	for i, wait := range c.Ladder {
		need(wait >= 10*time.Millisecond, fmt.Sprintf("Ladder[%d] must be at least 10 ms", i))
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return errors.Join(errs...)
}

func defaultTo[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Gateway holds the connections of one node. It is an http.Handler for the
// WebSocket address.
type Gateway struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	conns   *registry
	turns   turns
	wakes   *wakes
	notes   chan bus.Message // receipts and typing; lossy
	sweepIn chan struct{}    // sweep now
	// selective is the bus where it can leave out what no connection here needs; nil
	// otherwise. narrows are connections whose conversations have not been read yet.
	selective bus.Selective
	narrows   chan *conn
	atOnce    context.Context // has ended: for who does not wait
	since     impart.Millis   // what the next sweep covers; of the sweep loop alone
	// checkedUpTo is the id of the last connection whose session was compared; of the
	// sweep loop alone.
	checkedUpTo uint64
	started     time.Time // when connections were last heard is counted from here

	nextID atomic.Uint64
	count  atomic.Int64 // connections, with or without hello
	epoch  atomic.Int64 // as last heard
	deaf   atomic.Bool  // the bus has missed something, maybe what no sweep of heads makes good

	ctx         context.Context // ends when the gateway is closed
	cancel      context.CancelFunc
	unsubscribe func()
	loops       sync.WaitGroup // sweep, retry, inherit, heartbeat, pushers, notes, narrow
	sockets     sync.WaitGroup // every goroutine of every connection
}

// New starts a gateway. Close it to end its goroutines.
func New(cfg Config) (*Gateway, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	g := &Gateway{
		cfg: cfg, log: cfg.Log, conns: newRegistry(), wakes: newWakes(),
		notes: make(chan bus.Message, 4096), sweepIn: make(chan struct{}, 1), started: time.Now(),
	}
	if cfg.Apart {
		g.cfg.Logic = telling{cfg.Logic, g}
	}
	ctx, cancel := context.WithTimeout(context.Background(), cfg.RequestTime)
	defer cancel()
	written, err := cfg.Logic.Written(ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("gateway: reading the store's clock and epoch: %w", err)
	}
	g.since = written.Next
	g.epoch.Store(int64(written.Epoch))
	g.metrics = newMetrics(cfg.Metrics, g)
	g.ctx, g.cancel = context.WithCancel(context.Background())
	if g.selective, _ = cfg.Bus.(bus.Selective); g.selective != nil {
		g.narrows = make(chan *conn, maxNarrow)
		ended, end := context.WithCancel(context.Background())
		end()
		g.atOnce = ended
		g.loops.Go(g.narrowLoop)
	}
	g.unsubscribe = cfg.Bus.Subscribe(g.hear)
	for range pushers() {
		g.loops.Go(g.pushLoop)
	}
	g.loops.Go(g.noteLoop)
	g.loops.Go(g.sweepLoop)
	g.loops.Go(g.retryLoop)
	g.loops.Go(g.heartbeatLoop)
	if heir, ok := cfg.Pending.(pending.Heir); ok {
		g.loops.Go(func() { g.inheritLoop(heir) })
	}
	return g, nil
}

// hear takes one message of the bus. It only sorts: the bus waits for it.
func (g *Gateway) hear(m bus.Message) {
	switch m.Kind {
	case bus.Wake:
		if !g.wakes.add(m.Conv, span{m.From, m.Head, m.Members}) {
			g.sweepSoon() // too many conversations at once: the sweep finds them
		}
	case bus.Receipt, bus.Typing:
		select {
		case g.notes <- m:
		default: // ephemeral, and the store knows
		}
	case bus.Takeover:
		g.supersede(m.User, m.Device, m.Session)
	case bus.Revoked:
		g.revoke(m.User, m.At)
	case bus.EpochRaised:
		g.resume(m.Epoch)
	case bus.Missed:
		g.deaf.Store(true) // the next sweep also looks for what no sweep of heads makes good
		g.sweepSoon()
	}
}

// Epoch is the store's epoch as this gateway last heard it.
func (g *Gateway) Epoch() impart.Epoch { return impart.Epoch(g.epoch.Load()) }

// Connections counts open connections, with or without a hello.
func (g *Gateway) Connections() int { return int(g.count.Load()) }

// Health is nil while the gateway takes connections.
func (g *Gateway) Health() error {
	if g.conns.isShut() {
		return errors.New("draining")
	}
	return nil
}

// Close cuts every connection and waits for all goroutines. Drain first to say
// goodbye.
func (g *Gateway) Close() error {
	g.conns.shut()
	g.unsubscribe()
	g.cancel()
	g.wakes.close()
	for _, c := range g.conns.all() {
		c.cut()
	}
	g.loops.Wait()
	g.sockets.Wait()
	return nil
}
