package rpc

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A gateway and a node on two buses look well, each for itself.
func TestANodeOnAnotherBusIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNetwork(t)
		on := func(bus string) func(*ServerConfig) { return func(c *ServerConfig) { c.Bus = bus } }
		w.serve("same:1", &fake{}, on("redis, database 3"))
		w.serve("silent:1", &fake{}) // of a version that does not tell
		other := w.serve("other:1", &fake{}, on("redis, database 0"))
		var log bytes.Buffer
		c, err := NewClient(ClientConfig{
			Nodes: []string{"same:1", "silent:1", "other:1"}, Dial: w.dial, Name: "gw", Version: "test", Bus: "redis, database 3",
			Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		must(t, err)
		time.Sleep(time.Second)
		if err := c.OtherBus(); err == nil || !strings.Contains(err.Error(), "other:1 is on another bus (redis, database 0)") {
			t.Errorf("told %v", err)
		}
		w.stop(other)
		time.Sleep(time.Second)
		if err := c.OtherBus(); err != nil {
			t.Errorf("still told %v when it is gone", err)
		}
		must(t, c.Close())
		if told := log.String(); strings.Count(told, "another bus") != 1 {
			t.Errorf("the log does not warn once:\n%s", told)
		}
	})
}

// What a client is promised must hold at every node that its message may come to.
func TestTheSmallestLimitOfTheNodesCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNetwork(t)
		takes := func(bytes int) func(*ServerConfig) { return func(c *ServerConfig) { c.MaxBody = bytes } }
		w.serve("wide:1", &fake{}, takes(1000))
		narrow := w.serve("narrow:1", &fake{}, takes(100))
		w.serve("silent:1", &fake{}) // of a version that does not tell
		var log bytes.Buffer
		c, err := NewClient(ClientConfig{
			Nodes: []string{"wide:1", "narrow:1", "silent:1"}, Dial: w.dial, Name: "gw", Version: "test", MaxBody: 1000,
			Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		must(t, err)
		if got := c.MaxBody(); got != 0 {
			t.Errorf("the limit is %d before any node has told one", got)
		}
		time.Sleep(time.Second)
		if got := c.MaxBody(); got != 100 {
			t.Errorf("the limit is %d, want 100", got)
		}
		w.stop(narrow)
		time.Sleep(time.Second)
		if got := c.MaxBody(); got != 1000 {
			t.Errorf("the limit is %d without the narrow node, want 1000", got)
		}
		must(t, c.Close())
		if told := log.String(); strings.Count(told, "IM_MAX_BODY") != 1 || !strings.Contains(told, "node=narrow:1 max_body=100 own=1000") {
			t.Errorf("the log does not name the one node with another limit:\n%s", told)
		}
	})
}
