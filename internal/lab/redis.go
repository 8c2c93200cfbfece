package lab

import (
	"strings"

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
	if err != nil && strings.Contains(err.Error(), redis.ErrNotFound.Error()) {
		b.NotRun(err.Error())
	}
	b.Must(err)
	b.Cleanup(func() { _ = server.Close() })
	r := &Redis{b: b, name: "redis", Server: server}
	b.Note(r.name, "started", "")
	b.mu.Lock()
	b.redis = r
	b.mu.Unlock()
	return r
}

func (b *Bench) redisURL() string { return b.Redis().URL() }
