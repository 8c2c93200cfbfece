package rpc

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/lab/pipe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// logicAndAdmin is what a server serves.
type logicAndAdmin interface {
	impart.Logic
	impart.Admin
}

// network is addresses that lead to logic nodes in this process.
type network struct {
	t     testing.TB
	mu    sync.Mutex
	nodes map[string]*running
}

// running is one logic node.
type running struct {
	*Server
	addr   string
	ln     *pipe.Listener
	served chan struct{}

	mu    sync.Mutex // guards the rest
	conns []*valve
}

func newNetwork(t testing.TB) *network { return &network{t: t, nodes: map[string]*running{}} }

// serve starts a node at an address.
func (w *network) serve(addr string, logic logicAndAdmin, set ...func(*ServerConfig)) *running {
	w.t.Helper()
	cfg := ServerConfig{Logic: logic, Admin: logic, Name: addr, Version: "test", Log: slog.New(slog.DiscardHandler)}
	for _, change := range set {
		change(&cfg)
	}
	s, err := NewServer(cfg)
	must(w.t, err)
	n := &running{Server: s, addr: addr, ln: pipe.Listen("node"), served: make(chan struct{})}
	go func() { _ = s.Serve(n.ln); close(n.served) }()
	w.mu.Lock()
	w.nodes[addr] = n
	w.mu.Unlock()
	w.t.Cleanup(func() { w.stop(n) })
	return n
}

// stop ends a node as kill -9 would, as far as its clients can tell.
func (w *network) stop(n *running) {
	w.mu.Lock()
	if w.nodes[n.addr] == n {
		delete(w.nodes, n.addr)
	}
	w.mu.Unlock()
	n.ln.Close()
	n.mu.Lock()
	for _, nc := range n.conns {
		_ = nc.Close()
	}
	n.mu.Unlock()
	_ = n.Close()
	<-n.served
}

var errRefused = errors.New("connection refused")

func (w *network) dial(ctx context.Context, addr string) (net.Conn, error) {
	w.mu.Lock()
	n := w.nodes[addr]
	w.mu.Unlock()
	if n == nil {
		return nil, errRefused
	}
	here, end := net.Pipe()
	there := newValve(end)
	n.mu.Lock()
	n.conns = append(n.conns, there)
	n.mu.Unlock()
	if err := n.ln.Hand(ctx, there); errors.Is(err, net.ErrClosed) {
		return nil, errRefused
	} else if err != nil {
		return nil, err
	}
	return here, nil
}

// client connects to nodes, and is closed with the test.
func (w *network) client(addrs ...string) *Client {
	w.t.Helper()
	c, err := NewClient(ClientConfig{Nodes: addrs, Dial: w.dial, Name: "gw", Version: "test"})
	must(w.t, err)
	w.t.Cleanup(func() { must(w.t, c.Close()) })
	return c
}

// pair is a client of one node.
func pair(t testing.TB, logic logicAndAdmin) *Client {
	w := newNetwork(t)
	w.serve("node:1", logic)
	return w.client("node:1")
}

// node is the node at an address.
func (w *network) node(addr string) *running {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nodes[addr]
}

// nodeOf is the node that a client asks about a conversation.
func (w *network) nodeOf(c *Client, conv impart.ConvID) *running {
	w.t.Helper()
	s, err := c.pick(w.t.Context(), hashOf(conv), nil)
	must(w.t, err)
	defer s.release()
	return w.node(s.node.addr)
}

// freeze stops every byte to and from the node, as SIGSTOP does; thaw goes on.
func (n *running) freeze() { n.each((*valve).shut) }
func (n *running) thaw()   { n.each((*valve).open) }

func (n *running) each(do func(*valve)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, nc := range n.conns {
		do(nc)
	}
}

// valve is the node's end of a connection.
type valve struct {
	net.Conn
	mu sync.Mutex
	on chan struct{} // closed while bytes pass
}

func newValve(nc net.Conn) *valve {
	v := &valve{Conn: nc, on: make(chan struct{})}
	close(v.on)
	return v
}

func (v *valve) shut() { v.mu.Lock(); v.on = make(chan struct{}); v.mu.Unlock() }
func (v *valve) open() { v.mu.Lock(); close(v.on); v.mu.Unlock() }

func (v *valve) wait() {
	v.mu.Lock()
	on := v.on
	v.mu.Unlock()
	<-on
}

func (v *valve) Read(b []byte) (int, error) {
	n, err := v.Conn.Read(b)
	v.wait()
	return n, err
}

func (v *valve) Write(b []byte) (int, error) {
	v.wait()
	return v.Conn.Write(b)
}

// value is what a counter stands at.
func value(t testing.TB, c prometheus.Counter) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	must(t, registry.Register(c))
	families, err := registry.Gather()
	must(t, err)
	return families[0].GetMetric()[0].GetCounter().GetValue()
}

// observed is the sum and the count of a histogram with this label.
func observed(t testing.TB, c prometheus.Collector, label string) (sum float64, count int) {
	t.Helper()
	registry := prometheus.NewRegistry()
	must(t, registry.Register(c))
	families, err := registry.Gather()
	must(t, err)
	for _, m := range families[0].GetMetric() {
		if m.GetLabel()[0].GetValue() == label {
			return m.GetHistogram().GetSampleSum(), int(m.GetHistogram().GetSampleCount())
		}
	}
	return 0, 0
}
