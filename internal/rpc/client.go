package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/rpc/impartpb"
)

// ClientConfig says what a client needs. A zero field means its default.
type ClientConfig struct {
	// Nodes are the addresses of logic nodes: host:port, or dns:///host:port for all
	// that the name leads to, now and later. At least one.
	Nodes []string
	// TLS is how nodes are met; its ServerName, if any, must be in the certificate of
	// each, instead of its host. It is asked for each connection. Nil: in plain text.
	TLS func() *tls.Config
	// Patience is how long a call waits for a node when there is none; default 2 s.
	Patience time.Duration
	Name     string // of this gateway, for logs
	Version  string // of the program, for people
	MaxBody  int    // of this gateway, in bytes, to warn of nodes with another; 0: any will do
	Bus      string // that this gateway hears, likewise; empty: any will do

	// Dial connects to host:port; nil: over TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// Resolve looks a name up; nil: as the system does.
	Resolve func(ctx context.Context, host string) ([]string, error)

	Log     *slog.Logger          // nil: nothing is logged
	Metrics prometheus.Registerer // nil: none
}

// Client implements [impart.Logic] and [impart.Admin] on the logic nodes that it
// knows. Its methods are safe for concurrent use. What concerns one conversation
// goes to one node as long as that serves, so that its sends share commits.
type Client struct {
	cfg       ClientConfig
	targets   []target
	log       *slog.Logger
	metrics   *clientMetrics
	audiences *audiences
	epoch     atomic.Int64 // the highest seen

	ctx     context.Context // ends when the client is closed
	cancel  context.CancelFunc
	running sync.WaitGroup
	again   chan struct{} // a token: look names up now

	mu      sync.Mutex // guards the rest
	nodes   map[string]*node
	ready   []*session    // those that take calls
	changed chan struct{} // closed and replaced when ready changes
}

var (
	_ impart.Logic = (*Client)(nil)
	_ impart.Admin = (*Client)(nil)
)

// NewClient makes a client, which connects in the background: calls wait for that,
// for [ClientConfig.Patience] at most.
func NewClient(cfg ClientConfig) (*Client, error) {
	c := &Client{cfg: cfg, log: cfg.Log, nodes: map[string]*node{}, changed: make(chan struct{}), again: make(chan struct{}, 1)}
	var faults []error
	for _, addr := range cfg.Nodes {
		t, err := parseTarget(addr)
		c.targets, faults = append(c.targets, t), append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	if len(c.targets) == 0 {
		return nil, errors.New("rpc: a client needs the address of a logic node")
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.cfg.Patience == 0 {
		c.cfg.Patience = 2 * time.Second
	}
	if c.cfg.Dial == nil {
		c.cfg.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		}
	}
	if c.cfg.Resolve == nil {
		c.cfg.Resolve = net.DefaultResolver.LookupHost
	}
	c.metrics = newClientMetrics(cfg.Metrics)
	c.audiences = newAudiences(cachedMembers)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.running.Go(c.resolve)
	return c, nil
}

// Close ends every connection. Calls under way are UNAVAILABLE.
func (c *Client) Close() error {
	c.cancel()
	c.running.Wait()
	c.mu.Lock()
	nodes := c.nodes
	c.mu.Unlock()
	for _, n := range nodes {
		<-n.over
	}
	c.metrics.unregister()
	return nil
}

// Health is nil while a node takes calls; otherwise it says what is wrong with each.
func (c *Client) Health() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ready) > 0 {
		return nil
	}
	return c.whyNone()
}

// Trouble says what is wrong with the nodes that are not connected; nil: nothing.
func (c *Client) Trouble() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trouble()
}

// trouble is Trouble. c.mu is held.
func (c *Client) trouble() error {
	var parts []string
	for _, n := range c.nodes {
		if n.session == nil {
			parts = append(parts, n.addr+": "+plainly(n.err))
		}
	}
	if len(parts) == 0 {
		return nil
	}
	slices.Sort(parts)
	return errors.New(strings.Join(parts, "; "))
}

// Nodes counts the nodes that serve, those that answer and cannot reach their store,
// and all that are known.
func (c *Client) Nodes() (fit, unfit, all int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		switch {
		case n.session == nil:
		case n.session.state == impartpb.State_STATE_SERVING:
			fit++
		case n.session.state == impartpb.State_STATE_UNFIT:
			unfit++
		}
	}
	return fit, unfit, len(c.nodes)
}

// whyNone says what is wrong with each node. c.mu is held.
func (c *Client) whyNone() error {
	if len(c.nodes) == 0 {
		return errors.New("no address of a logic node is known: does the name resolve?")
	}
	if err := c.trouble(); err != nil {
		return err
	}
	return errDraining
}

// options are how a node is dialled, whose certificate must be for host.
func (c *Client) options(host string) []grpc.DialOption {
	creds := insecure.NewCredentials()
	if c.cfg.TLS != nil {
		creds = securedClient(c.cfg.TLS, host)
	}
	return []grpc.DialOption{
		grpc.WithTransportCredentials(creds), grpc.WithContextDialer(c.cfg.Dial), grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
		grpc.WithInitialWindowSize(windowStream), grpc.WithInitialConnWindowSize(windowConn),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReply), grpc.MaxCallSendMsgSize(maxRequest)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: silence, PermitWithoutStream: true}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: backoffFirst, Multiplier: 2, Jitter: 0.2, MaxDelay: backoffMost}, MinConnectTimeout: silence,
		}),
	}
}

// joined lets calls go to a node.
func (c *Client) joined(s *session, first *impartpb.NodeState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.over {
		return
	}
	s.state, s.maxBody, s.bus = first.State, int(first.MaxBody), first.Bus
	if s.node.retired {
		s.state = impartpb.State_STATE_DRAINING
	}
	s.node.session, s.node.err = s, nil
	c.log.Info("connected to a logic node", "node", s.node.addr, "name", first.Name, "version", first.Version)
	c.otherSettings(s)
	c.refresh()
}

// heard takes note of a node's state; leaving says that it gets no more calls.
func (c *Client) heard(s *session, state impartpb.State) (leaving bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.node.retired || s.state == impartpb.State_STATE_DRAINING {
		state = impartpb.State_STATE_DRAINING
	}
	if state != s.state {
		s.state = state
		c.log.Info("a logic node has changed its state", "node", s.node.addr, "state", stateWords[state])
		c.refresh()
	}
	return state == impartpb.State_STATE_DRAINING
}

var stateWords = map[impartpb.State]string{
	impartpb.State_STATE_SERVING: "serving", impartpb.State_STATE_UNFIT: "unfit", impartpb.State_STATE_DRAINING: "draining",
}

// left stops calls to a connection that has ended, whose error comes to disconnected.
func (c *Client) left(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.over = true
	if s.node.session == s {
		s.node.session = nil
		s.node.err = errors.New("the connection has ended")
	}
	c.refresh()
}

// disconnected notes why there is no connection, and tells when that is news.
func (c *Client) disconnected(n *node, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n.retired {
		c.forget(n)
		return
	}
	news := plainly(n.err) != plainly(err)
	n.err = err
	switch {
	case errors.Is(err, errDraining):
		return
	case news:
		c.metrics.lost.WithLabelValues(n.addr).Inc()
		c.log.Warn("no connection to a logic node", "node", n.addr, "err", plainly(err))
	}
	signal(c.again)
}

// forget ends a node whose address is no more. c.mu is held.
func (c *Client) forget(n *node) {
	n.cancel()
	delete(c.nodes, n.addr)
	c.metrics.up.DeleteLabelValues(n.addr)
}

// refresh finds out which connections take calls. c.mu is held.
func (c *Client) refresh() {
	var fit, unfit []*session
	for _, n := range c.nodes {
		up := 0.0
		if s := n.session; s != nil {
			switch s.state {
			case impartpb.State_STATE_SERVING:
				fit, up = append(fit, s), 1
			case impartpb.State_STATE_UNFIT:
				unfit = append(unfit, s)
			default:
				// It drains, or is of a version that knows more states than this one.
			}
		}
		c.metrics.up.WithLabelValues(n.addr).Set(up)
	}
	if c.ready = fit; len(fit) == 0 {
		c.ready = unfit // whose own answer says more than none
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// pick is the connection for what concerns key, in use until its release: that of
// the same node as long as the same nodes take calls. avoid, if it is not nil, is
// taken only where there is no other.
func (c *Client) pick(ctx context.Context, key uint64, avoid *node) (*session, error) {
	var late <-chan time.Time
	for {
		c.mu.Lock()
		if s := c.best(key, avoid); s != nil {
			s.active.Add(1)
			c.mu.Unlock()
			return s, nil
		}
		changed, why := c.changed, c.whyNone()
		c.mu.Unlock()
		if late == nil {
			timer := time.NewTimer(c.cfg.Patience)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-changed:
		case <-late:
			return nil, nobody(why)
		case <-ctx.Done():
			return nil, nobody(fmt.Errorf("%w; %w", ctx.Err(), why))
		case <-c.ctx.Done():
			return nil, nobody(errors.New("the client is closed"))
		}
	}
}

// best is the connection with the highest rank for key. c.mu is held.
func (c *Client) best(key uint64, avoid *node) *session {
	var best *session
	var highest uint64
	for _, s := range c.ready {
		if s.node == avoid && len(c.ready) > 1 {
			continue
		}
		if rank := mix(s.node.hash ^ key); best == nil || rank > highest {
			best, highest = s, rank
		}
	}
	return best
}

// hashOf is FNV-1a of 64 bits: the same in every process, so that all gateways send
// what concerns one conversation to the same node.
func hashOf[T ~string](s T) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// mix spreads a hash over all its bits (the finalizer of splitmix64).
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// saw takes note of an epoch.
func (c *Client) saw(epoch impart.Epoch) {
	for {
		known := c.epoch.Load()
		if int64(epoch) <= known {
			return
		}
		if c.epoch.CompareAndSwap(known, int64(epoch)) {
			return
		}
	}
}
