package bench

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/gateway"
	"github.com/impart-im/impart/internal/logic"
	"github.com/impart-im/impart/internal/pending"
	"github.com/impart-im/impart/internal/store"
	"github.com/impart-im/impart/internal/store/sqlstore"
)

// stack is a whole server in this process, on SQLite in a temporary folder,
// listening on loopback.
type stack struct {
	store store.Store
	logic *logic.Service
	addr  string
}

func newStack(b *testing.B, opts sqlstore.Options, set func(*gateway.Config)) *stack {
	b.Helper()
	st, err := sqlstore.Open(context.Background(), "sqlite:"+filepath.Join(b.TempDir(), "impart.db"), opts)
	check(b, err)
	wakes := bus.NewLocal()
	rules, err := logic.New(logic.Config{Store: st, Bus: wakes, SendRate: -1})
	check(b, err)
	cfg := gateway.Config{
		Logic: rules, Bus: wakes, Pending: pending.NewLocal(), Create: true, MaxRate: -1,
		Verify: func(_ context.Context, token string) (impart.Identity, error) {
			return impart.Identity{User: impart.UserID(token)}, nil
		},
	}
	if set != nil {
		set(&cfg)
	}
	g, err := gateway.New(cfg)
	check(b, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(b, err)
	server := &http.Server{Handler: g, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(listener) }()
	b.Cleanup(func() {
		_ = server.Close()
		check(b, g.Close())
		check(b, rules.Close())
		check(b, wakes.Close())
		check(b, st.Close())
	})
	return &stack{store: st, logic: rules, addr: listener.Addr().String()}
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// conversation makes a group of the users.
func (s *stack) conversation(b *testing.B, conv impart.ConvID, users ...impart.UserID) {
	b.Helper()
	spec := impart.ConvSpec{Conv: conv, Kind: impart.Group}
	for _, u := range users {
		spec.Members = append(spec.Members, impart.Member{User: u})
	}
	_, _, err := s.logic.PutConversation(context.Background(), spec)
	check(b, err)
}

// users makes n user ids.
func users(n int) []impart.UserID {
	ids := make([]impart.UserID, n)
	for i := range ids {
		ids[i] = impart.UserID(fmt.Sprintf("u-%04d", i))
	}
	return ids
}

// rounds is how often each side of a comparison is measured.
const rounds = 3

// median of some figures.
func median(figures []float64) float64 {
	sorted := slices.Sorted(slices.Values(figures))
	return sorted[len(sorted)/2]
}

// percentile p (0..1) of durations.
func percentile(durations []time.Duration, p float64) time.Duration {
	sorted := slices.Sorted(slices.Values(durations))
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}
