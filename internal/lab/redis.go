package lab

import (
	"errors"

	"github.com/impart-im/impart/internal/lab/redis"
)

// Redis is a Redis server of a check's own, which it may kill, freeze, wipe and cut
// off. What is done to it is on the timeline.
type Redis struct {
	b    *Bench
	name string
	*redis.Server
}

// Redis is the server that gateways and logic nodes of this run share. It is started
// for the first who asks.
func (b *Bench) Redis() *Redis {
	b.mu.Lock()
	have := b.redis
	b.mu.Unlock()
	if have != nil {
		return have
	}
	server, err := redis.Start(b.ctx, redis.Options{})
	b.mustRedis(err)
	b.Cleanup(func() { _ = server.Close() })
	r := &Redis{b: b, name: "redis", Server: server}
	b.Note(r.name, "started", "")
	b.mu.Lock()
	b.redis = r
	b.mu.Unlock()
	return r
}

// Sentinels are a Redis with a replica, under three Sentinels, which gateways and
// logic nodes of this run share instead of [Bench.Redis]. It comes before them.
func (b *Bench) Sentinels() *redis.Sentinel {
	sentinel, err := redis.StartSentinel(b.ctx, redis.SentinelOptions{})
	b.mustRedis(err)
	b.Cleanup(func() { _ = sentinel.Close() })
	b.Note("redis", "started", "a master with a replica, under three Sentinels")
	b.mu.Lock()
	defer b.mu.Unlock()
	b.redisAt = sentinel.URL()
	return sentinel
}

func (b *Bench) redisURL() string {
	b.mu.Lock()
	at := b.redisAt
	b.mu.Unlock()
	if at != "" {
		return at
	}
	return b.Redis().URL()
}

// mustRedis ends the run at an error; without a Redis as NOT_RUN.
func (b *Bench) mustRedis(err error) {
	if errors.Is(err, redis.ErrNotFound) {
		b.NotRun(err.Error())
	}
	b.Must(err)
}

// Kill ends it as a crash does; it starts empty.
func (r *Redis) Kill() {
	r.Server.Kill()
	r.b.Note(r.name, "killed", "SIGKILL")
}

// Start starts it again.
func (r *Redis) Start() {
	r.b.Must(r.Server.Start(r.b.ctx))
	r.b.Note(r.name, "started", "empty")
}

// Pause freezes it (SIGSTOP); Resume lets it go on.
func (r *Redis) Pause() {
	r.b.Must(r.Server.Pause())
	r.b.Note(r.name, "paused", "SIGSTOP")
}

// Resume lets a frozen one go on.
func (r *Redis) Resume() {
	r.b.Must(r.Server.Resume())
	r.b.Note(r.name, "resumed", "SIGCONT")
}

// Wipe takes all that it holds away.
func (r *Redis) Wipe() {
	r.b.Must(r.Server.Wipe(r.b.ctx))
	r.b.Note(r.name, "wiped", "FLUSHALL")
}

// Link puts a network between it and whoever is given its address: see [Redis.At].
func (r *Redis) Link() *Net { return r.b.LinkTo("link to redis", r.Addr) }

// At is the setting of a server that finds it at another address.
func (r *Redis) At(addr string) string { return "IM_REDIS=" + r.URLAt(addr) }
