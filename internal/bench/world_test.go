package bench

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/gateway"
	"github.com/impart-im/impart/internal/logic"
	"github.com/impart-im/impart/internal/pending"
	"github.com/impart-im/impart/internal/store"
	"github.com/impart-im/impart/internal/store/sqlstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a bench against whole servers in this process, on SQLite.
type world struct {
	*Env
	t     *testing.T
	spoil func(store.Store) store.Store // puts a fault between the rules and the store; nil: none
	rate  float64                       // sends a second of one user; 0: no limit
	beat  time.Duration                 // of the gateway; 0: its default

	hangUp func() // ends the connections of the server that was started last
}

func newWorld(t *testing.T) *world {
	w := &world{t: t}
	w.Env = &Env{Report: &Report{Bench: t.Name(), Machine: Describe()}, Start: w.start, OpenStore: w.open}
	return w
}

func (w *world) open(ctx context.Context) (store.Store, error) {
	return sqlstore.Open(ctx, "sqlite:"+filepath.Join(w.t.TempDir(), "impart.db"), sqlstore.Options{})
}

// hearing is a listener that remembers its connections.
type hearing struct {
	net.Listener
	mu    sync.Mutex // guards conns
	conns []net.Conn
}

func (h *hearing) Accept() (net.Conn, error) {
	nc, err := h.Listener.Accept()
	if err == nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.conns = append(h.conns, nc)
	}
	return nc, err
}

func (h *hearing) hangUp() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, nc := range h.conns {
		_ = nc.Close()
	}
}

func (w *world) start(ctx context.Context, naive bool) (*Target, error) {
	st, err := sqlstore.Open(ctx, "sqlite:"+filepath.Join(w.t.TempDir(), "impart.db"), sqlstore.Options{NoGroupCommit: naive})
	if err != nil {
		return nil, err
	}
	if w.spoil != nil {
		st = w.spoil(st)
	}
	wakes := bus.NewLocal()
	rules, err := logic.New(logic.Config{Store: st, Bus: wakes, SendRate: cmp.Or(w.rate, -1), SendBurst: 5})
	if err != nil {
		return nil, err
	}
	g, err := gateway.New(gateway.Config{
		Logic: rules, Bus: wakes, Pending: pending.NewLocal(), Create: true, MaxRate: -1, Heartbeat: w.beat,
		Verify: func(_ context.Context, token string) (impart.Identity, error) {
			return impart.Identity{User: impart.UserID(token)}, nil
		},
	})
	if err != nil {
		return nil, err
	}
	server := httptest.NewUnstartedServer(http.Handler(g))
	listener := &hearing{Listener: server.Listener}
	server.Listener, w.hangUp = listener, listener.hangUp
	server.Start()
	w.t.Cleanup(func() {
		server.Close()
		for _, closing := range []func() error{g.Close, rules.Close, wakes.Close, st.Close} {
			if err := closing(); err != nil {
				w.t.Error(err)
			}
		}
	})
	return &Target{
		URL: server.URL,
		User: func(i int) (impart.UserID, string, error) {
			user := fmt.Sprintf("u-%03d", i)
			return impart.UserID(user), user, nil
		},
		PutConversation: func(ctx context.Context, conv impart.ConvID, members []impart.UserID) error {
			spec := impart.ConvSpec{Conv: conv, Kind: impart.Group}
			for _, m := range members {
				spec.Members = append(spec.Members, impart.Member{User: m})
			}
			_, _, err := rules.PutConversation(ctx, spec)
			return err
		},
	}, nil
}

// wants checks that the report holds, or fails in the check of the name given.
func (w *world) wants(err error, failing string) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	if failed := w.Report.Failed(); failed != (failing != "") {
		w.t.Errorf("failed: %v", failed)
	}
	var names []string
	for _, c := range w.Report.Checks {
		if !c.OK {
			names = append(names, c.Name)
			if failing == "" {
				w.t.Errorf("%s: %s", c.Name, c.Detail)
			}
		}
	}
	if failing != "" && !strings.Contains(strings.Join(names, "\n"), failing) {
		w.t.Errorf("%q fails, and should %q", names, failing)
	}
}

// run finds a run by the beginning of its name.
func (w *world) run(prefix string) *Run {
	w.t.Helper()
	for i := range w.Report.Runs {
		if strings.HasPrefix(w.Report.Runs[i].Name, prefix) {
			return &w.Report.Runs[i]
		}
	}
	w.t.Fatalf("no run %q in the report", prefix)
	return nil
}

// check finds a check by its name.
func (w *world) check(name string) Check {
	w.t.Helper()
	for _, c := range w.Report.Checks {
		if c.Name == name {
			return c
		}
	}
	w.t.Fatalf("no check %q in the report", name)
	return Check{}
}
