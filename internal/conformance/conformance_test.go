package conformance_test

import (
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/conformance"
	"github.com/impart-im/impart/internal/pending"
	"github.com/impart-im/impart/internal/store"
	"github.com/impart-im/impart/internal/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(opts memstore.Options) func(*testing.T) conformance.Subject {
	opts.Shared = true
	return func(*testing.T) conformance.Subject {
		s := memstore.New(opts)
		var nodes []*memstore.Store
		return conformance.Subject{
			Store:       s,
			DedupWrites: s.DedupWrites,
			OnCommit:    s.OnCommit,
			Replace: func(*testing.T) {
				standby := s.Standby()
				standby.Promote()
				for _, node := range append(nodes, s) {
					node.Reach(standby)
				}
			},
			Second: func(*testing.T) store.Store {
				n := s.Node()
				nodes = append(nodes, n)
				return n
			},
			Reopen: func(t *testing.T) store.Store {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = s.Reopen()
				return s
			},
			Crash: func(*testing.T) store.Store {
				s.Crash()
				s = s.Reopen()
				return s
			},
		}
	}
}

// TestMemoryStore runs the suite on the in-memory store, or on one that lacks
// the guard that the environment names.
func TestMemoryStore(t *testing.T) {
	var opts memstore.Options
	if b := os.Getenv(breakEnv); b != "" && !strings.Contains(b, ":") {
		opts.Breaks = []memstore.Break{memstore.Break(b)}
	}
	conformance.SharedStore(t, open(opts))
}

func TestLocalBus(t *testing.T) {
	if os.Getenv(breakEnv) != "" {
		conformance.Impatient()
	}
	conformance.Bus(t, func(*testing.T) conformance.BusSubject {
		return conformance.BusSubject{Bus: brokenBus(bus.NewLocal())}
	})
}

func TestLocalPending(t *testing.T) {
	conformance.PendingInBubble(t, func(*testing.T) pending.Set { return brokenPending(pending.NewLocal()) })
}
