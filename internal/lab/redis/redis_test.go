package redis_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/impart-im/impart/internal/lab/redis"
)

// closed closes what a test started.
func closed(t *testing.T, it interface{ Close() error }, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := it.Close(); err != nil {
			t.Error(err)
		}
	})
}

func do(t *testing.T, s *redis.Server, args ...string) string {
	t.Helper()
	out, err := s.Do(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAServerIsKilledPausedAndWiped(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: needs Redis")
	}
	t.Parallel()
	s, err := redis.Start(t.Context(), redis.Options{Password: "open-sesame", Settings: [][2]string{{"maxmemory", "64mb"}}})
	closed(t, s, err)
	do(t, s, "SET", "a", "1")
	if got := do(t, s, "GET", "a"); got != "1" {
		t.Errorf("GET gives %q", got)
	}
	if got := do(t, s, "CONFIG", "GET", "maxmemory"); !strings.HasSuffix(got, "67108864") {
		t.Errorf("the setting is %q", got)
	}
	if err := s.Wipe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := do(t, s, "DBSIZE"); got != "0" {
		t.Errorf("%s keys are left", got)
	}
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if out, err := s.Do(ctx, "PING"); err == nil {
		t.Errorf("a paused server answers %q", out)
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	do(t, s, "SET", "a", "2")
	s.Kill()
	if _, err := net.DialTimeout("tcp", s.Addr(), time.Second); err == nil {
		t.Error("a killed server listens")
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := do(t, s, "DBSIZE"); got != "0" {
		t.Errorf("%s keys survived a kill", got)
	}
	if _, err := s.Do(t.Context(), "NONSENSE"); err == nil {
		t.Error("nonsense is no error")
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if s.Start(t.Context()) == nil {
		t.Error("a closed server starts")
	}
}

func TestSentinelsReplaceAMaster(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: needs Redis")
	}
	t.Parallel()
	s, err := redis.StartSentinel(t.Context(), redis.SentinelOptions{Password: "open-sesame", SentinelPassword: "who-goes-there"})
	closed(t, s, err)
	s.Master.Kill()
	if err := s.AwaitFailover(t.Context(), s.Master); err != nil {
		t.Fatal(err)
	}
	do(t, s.Replica, "SET", "a", "1") // it takes writes now
}

func TestAClusterReplacesAMaster(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: needs Redis")
	}
	t.Parallel()
	c, err := redis.StartCluster(t.Context())
	closed(t, c, err)
	do(t, c.Nodes[0], "SET", "a", "1")
	do(t, c.Nodes[0], "SET", "b", "2")
	c.Nodes[0].Kill()
	if err := c.AwaitWhole(t.Context()); err != nil {
		t.Fatal(err)
	}
	do(t, c.Nodes[1], "SET", "a", "3")
	do(t, c.Nodes[1], "SET", "b", "4")
}
