package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	lab "github.com/impart-im/impart/internal/lab/redis"
)

// The servers that tests have in common. Who breaks one starts one of its own.
var (
	single = shared[*lab.Server]{start: func(ctx context.Context) (*lab.Server, error) {
		return lab.Start(ctx, lab.Options{Password: "open-sesame"})
	}}
	cluster = shared[*lab.Cluster]{start: lab.StartCluster}
)

// shared is a server that the first who needs it starts.
type shared[S interface{ Close() error }] struct {
	start func(context.Context) (S, error)

	once   sync.Once
	server S
	up     bool
	err    error
}

func (s *shared[S]) get(t testing.TB) S {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: needs Redis")
	}
	s.once.Do(func() {
		s.server, s.err = s.start(context.Background())
		s.up = s.err == nil
	})
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.server
}

func (s *shared[S]) close() error {
	if !s.up {
		return nil
	}
	return s.server.Close()
}

// suite runs the tests and closes what they share.
type suite struct{ m *testing.M }

func (s suite) Run() int {
	code := s.m.Run()
	if err := errors.Join(single.close(), cluster.close()); err != nil {
		fmt.Fprintln(os.Stderr, "closing the shared servers:", err)
		return max(code, 1)
	}
	return code
}

// refreshing is what the client library still does when the client has been closed: for
// five seconds about the connections to a Cluster's former servers, and for one second
// before it would look at the Cluster again.
var refreshing = []goleak.Option{
	goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
	goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(suite{m}, refreshing...) }

// world is a Redis with the words that stories are told in.
type world struct {
	*testing.T
	url     string
	metrics *prometheus.Registry
}

func newWorld(t *testing.T, url string) *world {
	return &world{T: t, url: url, metrics: prometheus.NewRegistry()}
}

// log goes where the test's own words go.
func (w *world) log() *slog.Logger { return slog.New(slog.NewTextHandler(w.Output(), nil)) }

// client opens a client that is closed with the test.
func (w *world) client() *Client {
	w.Helper()
	c, err := Open(w.Context(), Config{URL: w.url, Log: w.log()})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := c.Close(); err != nil {
			w.Error(err)
		}
	})
	return c
}

var serial atomic.Int64

// fresh is a name that no other test has.
func fresh(of string) string { return fmt.Sprintf("%s-%d", of, serial.Add(1)) }

// soon bounds what should take a moment, on a machine that does much else.
const soon = 30 * time.Second

// until waits until is is true.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	every := time.NewTicker(5 * time.Millisecond)
	defer every.Stop()
	for late := time.After(soon); !is(); {
		select {
		case <-every.C:
		case <-late:
			t.Fatalf("waiting for %s: %v are over", what, soon)
		}
	}
}
