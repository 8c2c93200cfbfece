package impart

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/impart-im/impart/internal/lab/redis"
)

// redisKind is "" for none beside the servers that a story starts without naming what they need, "cluster" for a
// Cluster of three with a replica each, and anything else for one server.
var redisKind = os.Getenv("IMPART_REDIS")

// Redis is one server, or a Cluster, that one story uses.
type Redis struct {
	server  *redis.Server
	cluster *redis.Cluster // nil: one server
	broken  bool
}

// newRedis gives one that is empty.
func newRedis(ctx context.Context) (*Redis, error) {
	if redisKind == "cluster" {
		c, err := clusters.take(ctx)
		return &Redis{cluster: c}, err
	}
	s, err := redis.Start(ctx, redis.Options{})
	return &Redis{server: s}, err
}

// URL is its address as a setting has it.
func (r *Redis) URL() string {
	if r.cluster != nil {
		return r.cluster.URL()
	}
	return r.server.URL()
}

// Wipe removes all that it holds.
func (r *Redis) Wipe(t testing.TB) {
	t.Helper()
	wipe := r.server.Wipe
	if r.cluster != nil {
		wipe = r.cluster.Wipe
	}
	if err := wipe(context.Background()); err != nil {
		t.Error(err)
	}
}

// Kill ends it as a crash does: all servers of a Cluster at once.
func (r *Redis) Kill() {
	r.broken = true
	for _, s := range r.servers() {
		s.Kill()
	}
}

// Start starts it again after Kill, empty, and waits until it serves.
func (r *Redis) Start(t testing.TB) {
	t.Helper()
	for _, s := range r.servers() {
		if err := s.Start(context.Background()); err != nil {
			t.Error(err)
		}
	}
	if r.cluster == nil {
		return
	}
	if err := r.cluster.AwaitWhole(context.Background()); err != nil {
		t.Error(err)
	}
}

func (r *Redis) servers() []*redis.Server {
	if r.cluster != nil {
		return r.cluster.Nodes
	}
	return []*redis.Server{r.server}
}

func (r *Redis) close() error {
	if r.cluster == nil {
		return r.server.Close()
	}
	return clusters.give(r.cluster, !r.broken)
}

// clusters are those that stories have used and others may use again: it takes seconds to make one.
var clusters pool

type pool struct {
	mu   sync.Mutex // guards what follows
	free []*redis.Cluster
	all  []*redis.Cluster
}

func (p *pool) take(ctx context.Context) (*redis.Cluster, error) {
	p.mu.Lock()
	if n := len(p.free); n > 0 {
		c := p.free[n-1]
		p.free = p.free[:n-1]
		p.mu.Unlock()
		return c, nil
	}
	p.mu.Unlock()
	c, err := redis.StartCluster(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, c)
	return c, nil
}

// give takes back one that nobody uses any more.
func (p *pool) give(c *redis.Cluster, whole bool) error {
	if whole && c.Wipe(context.Background()) == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.free = append(p.free, c)
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = slices.DeleteFunc(p.all, func(other *redis.Cluster) bool { return other == c })
	return c.Close()
}

func (p *pool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, c := range p.all {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
