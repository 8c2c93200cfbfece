package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/impart-im/impart/internal/store"
)

// How often the store's clock and settings are looked at, how long a look may take,
// and how far this machine's clock may be from the store's before that is told.
const (
	watchEvery     = 15 * time.Second
	watchWithin    = 5 * time.Second
	maxClockOffset = time.Second
)

// durability is the store's settings, with what the operator vouches for held
// against them.
func durability(ctx context.Context, s store.Store, replication string) ([]store.Setting, error) {
	settings, err := s.Settings(ctx)
	return vouched(settings, replication), err
}

func unsafeOf(settings []store.Setting) []store.Setting {
	var bad []store.Setting
	for _, s := range settings {
		if !s.Safe {
			bad = append(bad, s)
		}
	}
	return bad
}

// watch looks at the store's clock and settings now and then: both can change under
// a running server.
func (p *parts) watch(log *slog.Logger, registry prometheus.Registerer) {
	registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "im_store_unsafe_settings", Help: "Settings of the store under which a sent message can be lost.",
		}, func() float64 { return float64(len(unsafeOf(*p.settings.Load()))) }),
	)
	if p.shared {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "im_store_clock_offset_seconds", Help: "How far this machine's clock is ahead of the store's.",
		}, func() float64 { return float64(p.offset.Load()) / 1000 }))
	}
	ctx, stop := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	p.look(ctx, log)
	watching.Go(func() {
		every := time.NewTicker(watchEvery)
		defer every.Stop()
		for {
			select {
			case <-every.C:
				p.look(ctx, log)
			case <-ctx.Done():
				return
			}
		}
	})
	p.closers = append(p.closers, func() error { stop(); watching.Wait(); return nil })
}

// look is one look at the store; what it cannot see stays as it was.
func (p *parts) look(ctx context.Context, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, watchWithin)
	defer cancel()
	if offset, err := clockOffset(ctx, p.store); p.shared && err == nil {
		was := time.Duration(p.offset.Swap(offset.Milliseconds())) * time.Millisecond
		if offset.Abs() > maxClockOffset && was.Abs() <= maxClockOffset {
			log.Warn("this machine's clock differs from the store's: run a time service on both", "ahead", offset)
		}
	}
	settings, err := durability(ctx, p.store, p.replication)
	if err != nil {
		return
	}
	before := unsafeOf(*p.settings.Swap(&settings))
	if now := unsafeOf(settings); fmt.Sprint(now) != fmt.Sprint(before) {
		for _, s := range now {
			log.Error("the store can lose messages that are answered with sent from now on", "setting", s.Name, "value", s.Value, "want", s.Want)
		}
	}
}

// clockOffset is how far this machine's clock is ahead of the store's, to within
// the time that asking takes.
func clockOffset(ctx context.Context, s store.Store) (time.Duration, error) {
	before := time.Now()
	written, err := s.Written(ctx, 0, 1)
	if err != nil {
		return 0, err
	}
	took := time.Since(before)
	offset := before.Add(took / 2).Sub(time.UnixMilli(int64(written.Now)))
	if offset.Abs() <= took/2+time.Millisecond {
		return 0, nil // within what can be told
	}
	return offset, nil
}
