// Package logic is every rule of delivery: it implements [impart.Logic] and
// [impart.Admin] on a store and a bus. It promises that nothing is answered or
// published before its transaction has committed, and that one bad request of a
// batch fails alone. What it publishes and what it caches may be lost at any
// moment: both are rebuilt from the store. It knows no socket and no frame.
package logic

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/dedup"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/store"
)

// Service implements [impart.Logic] and [impart.Admin]. Its methods are safe
// for concurrent use.
type Service struct {
	cfg     Config
	store   store.Store
	bus     bus.Bus
	dedup   dedup.Cache
	log     *slog.Logger
	metrics *metrics

	budgets   *budgets
	users     *cache[impart.UserID, knownUser]
	audiences *cache[impart.ConvID, knownAudience]
	epoch     knownEpoch
	ledger    ledger
	failover  *failover
	clock     clock
	mids      mids
	born      time.Time

	failures rate.Sometimes // keeps a broken store from flooding the log

	stop    context.CancelFunc // ends the background work
	running sync.WaitGroup     // the background work
	closing sync.Once
	unlearn func() // ends the subscription
}

var (
	_ impart.Logic = (*Service)(nil)
	_ impart.Admin = (*Service)(nil)
)

// New starts a service; the error says what is wrong with the configuration.
func New(cfg Config) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("logic: %w", err)
	}
	cfg = cfg.withDefaults()
	s := &Service{
		cfg:       cfg,
		store:     cfg.Store,
		bus:       cfg.Bus,
		dedup:     cfg.Dedup,
		log:       cfg.Log,
		metrics:   newMetrics(cfg.Store),
		budgets:   newBudgets(cfg.SendRate, cfg.SendBurst),
		users:     newCache[impart.UserID, knownUser](cachedUsers),
		audiences: newCache[impart.ConvID, knownAudience](cachedMembers),
		failures:  rate.Sometimes{First: 10, Interval: time.Second},
		born:      time.Now(),
	}
	s.epoch.reading = make(chan struct{}, 1)
	s.clock.machine = s.now
	s.failover = newFailover(s)
	s.failover.state.State = impart.HistoryAccepted
	if err := s.metrics.register(cfg.Metrics); err != nil {
		return nil, fmt.Errorf("logic: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.unlearn = s.bus.Subscribe(s.learn)
	s.followClock(ctx)
	s.startCleaning(ctx)
	s.running.Go(func() { s.failover.run(ctx) })
	return s, nil
}

// Close ends the background work and returns when it has ended. Requests under
// way are not waited for: stop what calls the service first, and close the bus
// and the store after it.
func (s *Service) Close() error {
	s.closing.Do(func() {
		s.stop()
		s.unlearn()
		s.running.Wait()
		s.metrics.unregister()
	})
	return nil
}

// learn keeps the caches honest with what other nodes have done.
func (s *Service) learn(m bus.Message) {
	switch m.Kind {
	case bus.Revoked:
		s.users.drop(m.User)
	case bus.EpochRaised:
		s.epoch.saw(m.Epoch)
		s.audiences.clear() // members may have been another history's
	case bus.Missed:
		s.users.clear()
		s.epoch.forget()
	case bus.Wake, bus.Receipt, bus.Typing, bus.Takeover:
		// Nothing is kept here that these would change.
	}
}

// now is this machine's time, which somebody may set while the service runs.
func (s *Service) now() impart.Millis { return impart.Millis(fault.Wall(s.cfg.Now()).UnixMilli()) }

// age is how long the service has run, by a clock that nobody sets: for ages that no
// other node compares. A history of the store that is another has another clock too.
func (s *Service) age() impart.Millis { return millisOf(time.Since(s.born)) }

// stamp is the id and the time of a new event, by the store's clock.
func (s *Service) stamp() (impart.MID, impart.Millis) {
	now := s.clock.now()
	return s.mids.next(now), now
}

// publish tells every node. A caller that has gone away does not stop it: what
// has committed is news to everybody else.
func (s *Service) publish(ctx context.Context, messages ...bus.Message) {
	if len(messages) == 0 {
		return
	}
	s.bus.Publish(context.WithoutCancel(ctx), messages...)
	for i := range messages {
		switch messages[i].Kind {
		case bus.Wake:
			s.metrics.wakes.Inc()
		case bus.Receipt:
			s.metrics.receipts.Inc()
		default:
			// The others are as rare as what causes them, or counted where they end.
		}
	}
}

// answer is err as it leaves the service: nil, or an [impart.Error]. What the
// store could not carry out is logged here, once, and nowhere else.
func (s *Service) answer(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	e := impart.AsError(err)
	s.metrics.refused.WithLabelValues(op, string(e.Code)).Inc()
	switch e.Code {
	case impart.EpochChanged:
		s.epoch.saw(e.Epoch)
	case impart.Unavailable:
		s.unfinished(ctx, op, err)
	default:
		// A refusal is between the server and who asked.
	}
	return s.patient(e)
}

// How long a client is told to wait when the store did not finish its request, and
// when it could not write lately at all; up to twice as long, so that not all of
// them come back at once.
const (
	retrySoon  = 200 * time.Millisecond
	retryLater = time.Second
)

// patient is e, which says when to come back if it is UNAVAILABLE.
func (s *Service) patient(e *impart.Error) *impart.Error {
	if e.Code != impart.Unavailable || e.RetryAfter != 0 {
		return e
	}
	wait := retrySoon
	if s.store.Stats().Failing {
		wait = retryLater
	}
	told := *e
	told.RetryAfter = wait + rand.N(wait)
	return &told
}

// unfinished logs that the store did not finish a request. A caller that went
// away is no news.
func (s *Service) unfinished(ctx context.Context, op string, err error) {
	s.failover.kick()
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	s.failures.Do(func() {
		s.log.LogAttrs(ctx, slog.LevelWarn, "the store did not finish a request", slog.String("op", op), slog.Any("err", err))
	})
}
