// Package pgbus is the bus of nodes that share a PostgreSQL database: LISTEN and
// NOTIFY. What a node publishes reaches its own subscribers at once, the other
// nodes by the database. It may lose what a bus may lose, and tells so: whenever a
// node could not hear, its subscribers get one Missed; whenever it could not speak,
// those of the others do. It never holds up or fails a publisher, whatever the
// database does; [Bus.Health] tells.
package pgbus

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/pgdial"
)

// Config of a bus. DSN is needed.
type Config struct {
	// DSN is the database's own address, postgres://…: a pooler in transaction mode
	// loses what one of its sessions listens to.
	DSN string
	// Origin is this node's name in payloads, by which it knows its own again; ""
	// makes a random one, see [Bus.Origin].
	Origin string
	// WakesInStore: the store tells the other nodes of what is new, inside the
	// transaction that stores it and under this bus's origin. A Wake that is published
	// then reaches this node alone.
	WakesInStore bool
	// Vouch refuses a server that is not the one that the store is at. Each connection is
	// asked when it is made, and again in each statement that relies on it.
	Vouch Vouch
	// Ping is how often the bus sends itself a notification. A connection on which
	// none comes back until the next is due is given up: a half-open one is found
	// after at most twice this time. 0 means 2 seconds.
	Ping time.Duration
	// MaxBackoff bounds the pause between two attempts to connect; 0 means a second.
	MaxBackoff time.Duration
	Log        *slog.Logger          // nil: nothing is logged
	Metrics    prometheus.Registerer // nil: nothing is counted
}

// Bus is a [bus.Bus] over a database. It holds two connections of its own: one that
// listens and one that publishes.
type Bus struct {
	cfg     Config
	db      *pgx.ConnConfig
	hosts   pgdial.Hosts
	log     *slog.Logger
	local   *bus.Local // takes messages to this node's subscribers
	metrics *metrics
	out     *bus.Outbox

	stop    context.CancelFunc // ends what follows
	running sync.WaitGroup

	mu       sync.Mutex // guards what follows
	deaf     error      // why nothing is heard; nil: all is well
	mute     error      // why nothing is told; nil: all is well
	backlog  float64    // how full the database's queue of notifications is, 0..1
	closed   bool
	unlisten func() // takes the metrics out
}

var _ bus.Bus = (*Bus)(nil)

// Open connects to the database, and returns when the bus listens: it hears what is
// published from then on. An address that does not answer, or does not deliver what
// it is told, is an error; no error repeats a password. Close ends the bus.
func Open(ctx context.Context, cfg Config) (*Bus, error) {
	db, err := pgx.ParseConfig(cfg.DSN)
	if err != nil {
		return nil, errors.New("the bus: the address of the database cannot be read; it should be postgres://USER:PASSWORD@HOST:PORT/DATABASE")
	}
	for name := range db.RuntimeParams {
		if strings.HasPrefix(name, "pool_") {
			delete(db.RuntimeParams, name) // the store's pool's, in an address for both
		}
	}
	if db.ValidateConnect == nil {
		// A standby refuses both LISTEN and NOTIFY, and the next host may be the primary.
		db.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	attrs := db.ValidateConnect
	db.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error { // the next host may be the right one
		if err := attrs(ctx, conn); err != nil {
			return err
		}
		return cfg.Vouch.ask(ctx, conn)
	}
	if cfg.Origin == "" {
		cfg.Origin = randomOrigin()
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
	b := &Bus{cfg: cfg, db: db, log: cfg.Log, local: bus.NewLocal(), metrics: newMetrics(), out: bus.NewOutbox(0)}
	if cfg.WakesInStore {
		b.out = bus.NewOutbox(bus.Wake)
	}
	b.hosts.Watch(&db.Config)
	first, err := b.listen(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the bus: %w", err), b.local.Close())
	}
	b.unlisten = b.metrics.register(cfg.Metrics, b)
	work, stop := context.WithCancel(context.Background())
	b.stop = stop
	b.running.Go(func() { b.hear(work, first) })
	b.running.Go(func() { b.tell(work) })
	return b, nil
}

func randomOrigin() string {
	var raw [6]byte
	_, _ = rand.Read(raw[:]) // never fails
	return hex.EncodeToString(raw[:])
}

// Origin is the name by which this node knows its own payloads. The store puts it
// into those that it sends.
func (b *Bus) Origin() string { return b.cfg.Origin }

// Publish implements [bus.Bus]. It neither waits for the database nor for room.
func (b *Bus) Publish(ctx context.Context, messages ...bus.Message) {
	b.local.Publish(ctx, messages...)
	b.out.Put(messages)
}

// Subscribe implements [bus.Bus].
func (b *Bus) Subscribe(handle func(bus.Message)) (cancel func()) { return b.local.Subscribe(handle) }

// fullBacklog is the part of the database's queue of notifications from which on
// its filling is a trouble: some session listens and does not read.
const fullBacklog = 0.5

// Health implements [bus.Bus].
func (b *Bus) Health() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return errors.New("the bus is closed")
	case b.deaf != nil:
		return fmt.Errorf("nothing is heard from other nodes: %w", b.deaf)
	case b.mute != nil:
		return fmt.Errorf("nothing is told to other nodes: %w", b.mute)
	case b.backlog >= fullBacklog:
		return fmt.Errorf("the database's queue of notifications is %.0f %% full: a session listens and does not read (pg_stat_activity)", 100*b.backlog)
	}
	return nil
}

// set notes how one of the two directions is.
func (b *Bus) set(direction *error, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*direction = err
}

// Close sends what is waiting, for a second at most, and ends the bus.
func (b *Bus) Close() error {
	b.mu.Lock()
	again := b.closed
	b.closed = true
	b.mu.Unlock()
	if again {
		return nil
	}
	b.out.Close(closeWithin)
	b.stop()
	b.running.Wait()
	b.unlisten()
	return b.local.Close()
}

// closeWithin bounds each step of closing.
const closeWithin = time.Second
