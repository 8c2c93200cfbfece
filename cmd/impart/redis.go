package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/api"
	"github.com/impart-im/impart/internal/dedup"
	"github.com/impart-im/impart/internal/pending"
	"github.com/impart-im/impart/internal/redis"
)

// redisReader reads the address of a Redis, which may hold a password.
func redisReader(field *string) reader {
	r := text(field, "redis://HOST:PORT")
	r.kind = addressKind
	return r
}

func (c *config) validateRedis(add func(string, ...any)) {
	if c.Redis == "" {
		if c.Bus == "redis" {
			add("IM_BUS (--bus): redis needs IM_REDIS, the address of a Redis")
		}
		return
	}
	if _, err := redis.ParseURL(c.Redis); err != nil {
		add("IM_REDIS (--redis): %w", err)
	}
}

// redisWithin bounds the first attempt to reach Redis at the start.
const redisWithin = 3 * time.Second

// openRedis connects to Redis, if there is to be one. One that is down holds up
// nothing; one that refuses the password stops the start.
func (p *parts) openRedis(ctx context.Context, c *config, log *slog.Logger, registry prometheus.Registerer) error {
	if c.Redis == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, redisWithin)
	defer cancel()
	client, err := redis.Open(ctx, redis.Config{URL: c.Redis, Log: log, Metrics: registry})
	if err != nil {
		return fmt.Errorf("IM_REDIS (--redis): %w", err)
	}
	p.redis = client
	p.closers = append(p.closers, client.Close)
	return nil
}

// openRedisBus starts the bus over Redis. A logic node needs to hear of no conversation,
// a gateway of those of its readers.
func (p *parts) openRedisBus(ctx context.Context, log *slog.Logger, registry prometheus.Registerer) {
	opened := redis.NewBus(ctx, p.redis, redis.BusConfig{Origin: p.origin, Selective: true, Log: log, Metrics: registry})
	p.bus = opened
	p.closers = append(p.closers, opened.Close)
}

// openPending is the set of unacknowledged flows: in Redis if there is one, where it
// outlives this process, or else inside it.
func (p *parts) openPending(c *config, log *slog.Logger, registry prometheus.Registerer) pending.Set {
	if p.redis == nil {
		return pending.NewLocal()
	}
	set := redis.NewPending(p.redis, redis.PendingConfig{Gateway: c.gatewayID(), Log: log, Metrics: registry})
	p.pending = set
	p.closers = append(p.closers, set.Close)
	return set
}

// openAnswers are the layers in front of the store's unique key, with Redis as the one
// that nodes share.
func (p *parts) openAnswers(log *slog.Logger, registry prometheus.Registerer) dedup.Cache {
	far := redis.NewAnswers(p.redis)
	filter := dedup.NewFilter(p.recentKeys, nil)
	layers := dedup.NewLayers(dedup.NewLocal(dedup.Options{}), filter, far)
	registry.MustRegister(layers.Collectors()...)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	once := rate.Sometimes{First: 1, Interval: time.Minute}
	running.Go(func() {
		filter.Run(ctx, func(err error) {
			once.Do(func() {
				log.Warn("the filter of known messages is not up to date: some resends cost a write of the store", "err", err)
			})
		})
	})
	p.closers = append(p.closers, func() error { stop(); running.Wait(); return far.Close() })
	return layers
}

// recentKeys is what the filter is made from.
func (p *parts) recentKeys(ctx context.Context, since impart.Millis, limit int) ([]dedup.Recent, error) {
	keys, err := p.store.DedupKeys(ctx, since, limit)
	recent := make([]dedup.Recent, len(keys))
	for i, k := range keys {
		recent[i] = dedup.Recent(k)
	}
	return recent, err
}

// redisCheck only warns: without Redis everything goes on, some of it later.
func (p *parts) redisCheck() api.Check {
	if err := p.redis.Health(); err != nil {
		return api.Check{Name: "redis", State: api.Warn,
			Detail: "does not answer: lost pushes are repaired by the sweep instead of the retries, and resends are answered by the store; the log says why"}
	}
	switch {
	case p.pending == nil:
	case p.pending.Namesake():
		return api.Check{Name: "redis", State: api.Warn,
			Detail: "another process has this one's name: the one that started later has the set of unacknowledged pushes, and lost pushes of the other are repaired by the sweep; give each its own IM_GATEWAY_ID"}
	case p.pending.Trouble() != nil:
		return api.Check{Name: "redis", State: api.Warn,
			Detail: "it answers, and does not take the set of unacknowledged pushes: lost ones are repaired by the sweep instead of the retries; the log says why"}
	}
	return api.Check{Name: "redis", State: api.OK, Detail: p.redis.Shape()}
}

// redisBusFinding judges the bus where Redis carries it.
func redisBusFinding(ctx context.Context, c *config) finding {
	ctx, cancel := context.WithTimeout(ctx, redisWithin)
	defer cancel()
	if _, err := redis.Inspect(ctx, c.Redis); err != nil {
		return finding{
			Check: "bus", Verdict: warn, Found: "over redis, which is not to be had, see there",
			Advice: "until it is, no wake-ups flow between the nodes: messages that come through another node wait for the sweep (IM_SWEEP_MS)",
		}
	}
	return finding{Check: "bus", Verdict: good, Found: "over redis, see there"}
}

// redisFindings look at Redis as a server would use it.
func redisFindings(ctx context.Context, c *config) []finding {
	if c.Redis == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, redisWithin)
	defer cancel()
	found, err := redis.Inspect(ctx, c.Redis)
	f := finding{Check: "redis", Verdict: good, Found: fmt.Sprintf("%s at %s, version %s, answers in %v", found.Shape, redis.Hosts(c.Redis), found.Version, found.Took.Round(10*time.Microsecond))}
	var refusal redis.RefusedError
	switch {
	case errors.As(err, &refusal):
		f.Verdict, f.Found, f.Advice = fail, flat(err), "a server would not start: "+refusal.Advice()
	case err != nil:
		f.Verdict, f.Found, f.Advice = warn, flat(err), "a server would start, and go on without it: lost pushes are then repaired by the sweep"
	case found.Replica:
		f.Verdict, f.Advice = warn, "it is a replica, which takes no writes: IM_REDIS should name its master, or the Sentinels that know it"
	case found.Old:
		f.Verdict, f.Advice = warn, "use Redis 7 or newer, or Valkey: older ones have no sharded channels and are not tested"
	case found.Took > 20*time.Millisecond:
		f.Verdict, f.Advice = warn, "it is far away or busy: every answer that takes more than 250 ms counts as none"
	}
	findings := []finding{f}
	if !openWay(c.Redis) || found.TLS {
		return findings
	}
	return append(findings, finding{
		Check: "way to redis", Verdict: warn, Found: "over a network, without TLS",
		Advice: "use rediss://, or be sure of the network: who can write there can delay messages and close connections",
	})
}
