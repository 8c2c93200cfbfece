package logic

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/dedup"
	"github.com/impart-im/impart/internal/store"
)

// Defaults of [Config], and the bounds that [Config.Validate] keeps.
const (
	DefaultMaxBody      = 64 << 10
	DefaultRecallWindow = 24 * time.Hour
	DefaultSendRate     = 10_000

	// HighestMaxBody is such that one event, however its body must be escaped, fits
	// into a reply frame of [impart.MaxPage] bytes.
	HighestMaxBody = 160 << 10
)

// Config is what a [Service] is made of. A zero field has its default.
type Config struct {
	// Store is the truth; required. The service does not close it.
	Store store.Store
	// Bus carries wake-ups; required. The service does not close it.
	Bus bus.Bus
	// Dedup keeps answers to sends in front of the store's unique key; nil: one
	// inside the process, with its defaults.
	Dedup dedup.Cache
	// DedupShared says that other nodes read what is kept in Dedup.
	DedupShared bool
	// MaxBody is the largest body in bytes; 0: [DefaultMaxBody].
	MaxBody int
	// RecallWindow is how long after its storing a message can be recalled; 0:
	// [DefaultRecallWindow], negative: for ever.
	RecallWindow time.Duration
	// SendRate is how many sends and recalls one user may make per second; 0:
	// [DefaultSendRate], negative: any number.
	SendRate float64
	// SendBurst is how many of them may come at once; 0: twice the rate.
	SendBurst int
	// Retention is the age at which events are removed; 0: never.
	Retention time.Duration
	// DedupRetention is the age at which dedup rows are removed, those of recalled
	// messages excepted; 0: never.
	DedupRetention time.Duration
	// Node is what this process is called where nodes are told apart, in logs and in
	// the database; "": node.
	Node string
	// Vouched says that the operator vouches for a replication that loses nothing that
	// was acknowledged (IM_REPLICATION=sync): then a failover that was verified keeps
	// the epoch.
	Vouched bool
	// Log takes what a caller is not told; nil: nothing is logged.
	Log *slog.Logger
	// Metrics takes the service's metrics; nil: none.
	Metrics prometheus.Registerer
	// Now is the clock; nil: [time.Now].
	Now func() time.Time
}

// Validate reports every fault of the configuration at once, nil if there is none.
func (c Config) Validate() error {
	var faults []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	fault(c.Store == nil, "Store is missing: give the store to keep messages in")
	fault(c.Bus == nil, "Bus is missing: give the bus that the gateways listen to")
	fault(c.MaxBody < 0 || c.MaxBody > HighestMaxBody,
		"MaxBody is %d bytes: it must be 1..%d, so that one message fits into a frame", c.MaxBody, HighestMaxBody)
	fault(c.SendBurst < 0, "SendBurst is %d: it must be at least 1, or 0 for twice the rate", c.SendBurst)
	fault(math.IsNaN(c.SendRate), "SendRate is not a number")
	fault(c.Retention < 0, "Retention is %v: it must be positive, or 0 to keep events for ever", c.Retention)
	fault(c.DedupRetention < 0, "DedupRetention is %v: it must be positive, or 0 to keep dedup rows for ever", c.DedupRetention)
	return errors.Join(faults...)
}

// withDefaults is c with its zero fields filled in.
func (c Config) withDefaults() Config {
	if c.MaxBody == 0 {
		c.MaxBody = DefaultMaxBody
	}
	if c.RecallWindow == 0 {
		c.RecallWindow = DefaultRecallWindow
	}
	if c.SendRate == 0 {
		c.SendRate = DefaultSendRate
	}
	if c.SendBurst == 0 {
		c.SendBurst = max(1, int(min(2*c.SendRate, 1e9)))
	}
	if c.Node == "" {
		c.Node = "node"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Dedup == nil {
		c.Dedup = dedup.NewLocal(dedup.Options{Now: c.Now})
	}
	return c
}
