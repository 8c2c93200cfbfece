package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/impart-im/impart/internal/bus"
)

// BusConfig of a bus. Its zero value hears everything.
type BusConfig struct {
	// Origin is this node's name in payloads, by which it knows its own again; ""
	// makes a random one.
	Origin string
	// Selective: what is about a conversation is heard from other nodes only while
	// there is an interest in it (see [bus.Selective]).
	Selective bool
	// Ping is how often each connection that listens proves that it hears. A half-open
	// one is found after at most twice this time. 0 means 2 seconds.
	Ping time.Duration
	// MaxBackoff bounds the pause between two attempts to connect; 0 means a second.
	MaxBackoff time.Duration
	Log        *slog.Logger          // nil: nothing is logged
	Metrics    prometheus.Registerer // nil: nothing is counted
}

// Bus is a [bus.Bus] over Redis: a message goes through one channel of many, chosen by
// its conversation, or through the one that every node hears. Where Redis is a
// Cluster, the channels are sharded ones. It may lose what a bus may lose, and tells
// so: whenever a node could not hear, its subscribers get one Missed; whenever it could
// not speak, those of the others do, as soon as it can again. It never holds up or
// fails a publisher.
type Bus struct {
	cfg   BusConfig
	c     *Client
	names names
	local *bus.Local // takes messages to this node's subscribers
	wants wants
	out   *bus.Outbox

	stop    context.CancelFunc // ends what follows
	running sync.WaitGroup
	up      chan struct{} // closed when every line has heard itself for the first time
	late    atomic.Bool   // the bus is in use: a line that comes up now has missed something

	mu       sync.Mutex // guards what follows
	lines    []*line    // none before Redis has answered
	mute     error      // why nothing is told; nil: all is well
	closed   bool
	unlisten func()
}

var _ bus.Selective = (*Bus)(nil)

// busWithin is how long NewBus waits for Redis.
const busWithin = time.Second

// NewBus starts a bus. It hears what is published from its return on, or, when Redis
// does not answer in a second, as soon as it does; subscribers are told then that they
// missed something. Close ends it.
func NewBus(ctx context.Context, c *Client, cfg BusConfig) *Bus {
	return newBus(ctx, c, cfg, namesIn(&c.opts))
}

func newBus(ctx context.Context, c *Client, cfg BusConfig, names names) *Bus {
	if cfg.Origin == "" {
		cfg.Origin = randomName()
	}
	if cfg.Ping == 0 {
		cfg.Ping = 2 * time.Second
	}
	if cfg.MaxBackoff == 0 {
		cfg.MaxBackoff = time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	b := &Bus{cfg: cfg, c: c, names: names, local: bus.NewLocal(), out: bus.NewOutbox(0), up: make(chan struct{})}
	b.wants.turn = make(chan struct{})
	if !cfg.Selective {
		b.wants.all = 1
	}
	b.unlisten = b.register()
	work, stop := context.WithCancel(context.Background())
	b.stop = stop
	b.running.Go(func() { b.start(work) })
	b.running.Go(func() { b.tell(work) })
	timer := time.NewTimer(busWithin)
	defer timer.Stop()
	select {
	case <-b.up:
	case <-timer.C:
	case <-ctx.Done():
	}
	b.late.Store(true)
	return b
}

// register makes the metrics known.
func (b *Bus) register() (unregister func()) {
	m := b.c.metrics
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	return registerAll(b.cfg.Metrics, m.told, m.heard, m.missed, m.breaks,
		gauge("im_bus_up", "1 while messages flow between the nodes.", func() float64 { return upness(b.Health()) }),
		gauge("im_bus_queue", "Messages that wait to be told to the other nodes.", func() float64 { return float64(b.out.Len()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "im_bus_dropped_total", Help: "Messages that were never told to the other nodes: too many waited, or they could not be sent."},
			func() float64 { return float64(b.out.Dropped()) }),
		gauge("im_bus_channels", "Channels of conversations that this node listens to.", func() float64 { return float64(b.wants.count()) }))
}

// start makes the lines once the shape of Redis is known: one for each group of
// channels in a Cluster, one for all elsewhere.
func (b *Bus) start(ctx context.Context) {
	select {
	case <-b.c.ready:
	case <-ctx.Done():
		return
	}
	var lines []*line
	if b.c.clustered() {
		for g := range groups {
			lines = append(lines, newLine(b, g, g))
		}
	} else {
		lines = append(lines, newLine(b, 0, groups-1))
	}
	b.mu.Lock()
	b.lines = lines
	b.mu.Unlock()
	var first sync.WaitGroup
	first.Add(len(lines))
	for _, l := range lines {
		b.running.Go(func() { l.run(ctx, sync.OnceFunc(first.Done)) })
	}
	first.Wait()
	close(b.up)
}

// Publish implements [bus.Bus]. It neither waits for Redis nor for room.
func (b *Bus) Publish(ctx context.Context, messages ...bus.Message) {
	b.local.Publish(ctx, messages...)
	b.out.Put(messages)
}

// Subscribe implements [bus.Bus].
func (b *Bus) Subscribe(handle func(bus.Message)) (cancel func()) { return b.local.Subscribe(handle) }

// Health implements [bus.Bus].
func (b *Bus) Health() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return errors.New("the bus is closed")
	case len(b.lines) == 0:
		return errDown
	case b.mute != nil:
		return fmt.Errorf("nothing is told to other nodes: %w", b.mute)
	}
	for _, l := range b.lines {
		if err := l.health(); err != nil {
			return fmt.Errorf("nothing is heard from other nodes: %w", err)
		}
	}
	return nil
}

// setMute notes why nothing is told.
func (b *Bus) setMute(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mute = err
}

// missed tells this node's subscribers that something may have been missed.
func (b *Bus) missed() {
	b.c.metrics.missed.Inc()
	b.local.Publish(context.Background(), bus.Message{Kind: bus.Missed})
}

// Close tells what waits, for a second at most, and ends the bus.
func (b *Bus) Close() error {
	b.mu.Lock()
	again := b.closed
	b.closed = true
	b.mu.Unlock()
	if again {
		return nil
	}
	b.out.Close(time.Second)
	b.stop()
	b.running.Wait()
	b.unlisten()
	return b.local.Close()
}
