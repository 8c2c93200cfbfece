package rpc

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/impart-im/impart"
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
	ln     *pipes
	served chan error

	mu    sync.Mutex // guards the rest
	conns []net.Conn
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
	n := &running{Server: s, addr: addr, ln: &pipes{conns: make(chan net.Conn), done: make(chan struct{})}, served: make(chan error, 1)}
	go func() { n.served <- s.Serve(n.ln) }()
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
	here, there := net.Pipe()
	select {
	case n.ln.conns <- there:
		n.mu.Lock()
		n.conns = append(n.conns, there)
		n.mu.Unlock()
		return here, nil
	case <-n.ln.done:
		return nil, errRefused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
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

// pipes is a listener whose connections are made in this process.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case nc := <-p.conns:
		return nc, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "node", Net: "pipe"} }
