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

// How often the store's settings are looked at, and how long a look may take.
const (
	watchEvery  = 15 * time.Second
	watchWithin = 5 * time.Second
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

// watch looks at the store's settings, its clock and its standbys now and then: all of
// them can change under a running server.
func (p *parts) watch(log *slog.Logger, registry prometheus.Registerer) {
	registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "im_store_unsafe_settings", Help: "Settings of the store under which a sent message can be lost.",
		}, func() float64 { return float64(len(unsafeOf(*p.settings.Load()))) }),
	)
	ctx, stop := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	if p.shared {
		p.registerVitals(registry)
		watching.Go(func() { p.feelPulse(ctx, log) })
	}
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
