package rpc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/rpc/impartpb"
)

// How soon a node that was lost is tried again: at first, and at most.
const (
	backoffFirst = 50 * time.Millisecond
	backoffMost  = time.Second
	// leaveWithin is how long a connection to a node that drains waits for its answers.
	leaveWithin = 10 * time.Second
)

var errSilent = fmt.Errorf("it has not been heard of for %v", silence)

// node is one address of a logic node, connected to again for as long as it is known.
type node struct {
	c      *Client
	addr   string // host:port
	host   string // that its certificate must be for
	hash   uint64
	cancel context.CancelFunc
	over   chan struct{} // closed when run has returned

	// c.mu guards what follows.
	session *session // nil: not connected
	retired bool     // no longer among the addresses
	err     error    // why it is not connected
}

// session is one connection to a node, from its first beat to its end.
type session struct {
	node       *node
	logic      impartpb.LogicServiceClient
	admin      impartpb.AdminServiceClient
	upstream   *lane[impartpb.UpstreamMsg, *impartpb.UpstreamAck, impartpb.UpstreamBatch, impartpb.UpstreamAckBatch]
	acks       *lane[impartpb.AckMsg, *impartpb.AckedMsg, impartpb.AckBatch, impartpb.AckedBatch]
	downstream *lane[impartpb.DownstreamRequest, *impartpb.DownstreamReply, impartpb.DownstreamBatch, impartpb.DownstreamReplyBatch]

	beat   atomic.Int64  // the newest that was heard
	active atomic.Int64  // calls that use it; raised under c.mu
	idle   chan struct{} // a token: active has come down to 0

	// c.mu guards what follows.
	state   impartpb.State
	maxBody int    // as in [ServerConfig]
	bus     string // the same
	over    bool   // it has ended, or is about to: no call may use it
}

// run connects to the node, and again, until ctx ends.
func (n *node) run(ctx context.Context) {
	defer close(n.over)
	wait := backoffFirst
	for {
		began := time.Now()
		err := n.connected(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > 2*silence {
			wait = backoffFirst
		}
		n.c.disconnected(n, err)
		select {
		case <-time.After(wait/2 + rand.N(wait)):
		case <-ctx.Done():
			return
		}
		wait = min(2*wait, backoffMost)
	}
}

// connected holds one connection until it ends, and says why it did. nil: the node
// drains, and has answered everything.
func (n *node) connected(ctx context.Context) error {
	conn, err := n.c.dial(n)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer quiet.Stop()
	s := &session{
		node: n, logic: impartpb.NewLogicServiceClient(conn), admin: impartpb.NewAdminServiceClient(conn), idle: make(chan struct{}, 1),
	}
	watch, err := s.logic.Watch(ctx, &impartpb.WatchRequest{
		Protocol: newestProtocol, Oldest: oldestProtocol, Version: n.c.cfg.Version, Name: n.c.cfg.Name,
	})
	if err != nil {
		return err
	}
	first, err := watch.Recv()
	if err != nil {
		return n.c.refused(because(ctx, err))
	}
	if first.State == impartpb.State_STATE_DRAINING {
		return errDraining
	}
	if first.Protocol < oldestProtocol || first.Protocol > newestProtocol {
		return fmt.Errorf("it would speak protocol version %d, and this gateway speaks %s: upgrade the older one", first.Protocol, span(oldestProtocol, newestProtocol))
	}
	var lanes sync.WaitGroup
	defer lanes.Wait()
	defer func() { _ = conn.Close() }() // before the lanes are waited for
	if err := s.open(ctx, &lanes, func(err error) {
		n.c.left(s) // before anybody learns of it and looks for another
		cancel(fmt.Errorf("a stream broke: %w", err))
	}); err != nil {
		return because(ctx, err)
	}
	s.beat.Store(first.Beat)
	n.c.joined(s, first)
	defer n.c.left(s)
	leaving := false
	for {
		state, err := watch.Recv()
		if err != nil {
			if leaving && s.active.Load() == 0 {
				return errDraining
			}
			return because(ctx, err)
		}
		quiet.Reset(silence)
		s.beat.Store(state.Beat)
		if n.c.heard(s, state.State) && !leaving {
			leaving = true
			lanes.Go(func() { s.leave(ctx, cancel) })
		}
	}
}

// refused is why a first answer did not come. In TLS 1.3 a node refuses a certificate
// after the client believes the connection to stand.
func (c *Client) refused(err error) error {
	if c.cfg.TLS == nil || status.Code(err) != codes.Unavailable ||
		strings.Contains(plainly(err), "handshake") || strings.Contains(plainly(err), "refused") {
		return err
	}
	return fmt.Errorf("%s; if the node refuses this gateway's certificate, its log says so", plainly(err))
}

var errDraining = errors.New("it is shutting down")

// because is why a connection ended: the cause of ctx's end, if it has ended.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// leave ends the connection once every call that uses it is answered.
func (s *session) leave(ctx context.Context, cancel context.CancelCauseFunc) {
	late := time.NewTimer(leaveWithin)
	defer late.Stop()
	for s.active.Load() > 0 {
		select {
		case <-s.idle:
		case <-late.C:
			cancel(errDraining)
			return
		case <-ctx.Done():
			return
		}
	}
	cancel(errDraining)
}

// release ends a use that [Client.pick] has begun.
func (s *session) release() {
	if s.active.Add(-1) == 0 {
		signal(s.idle)
	}
}

// open starts the lanes.
func (s *session) open(ctx context.Context, running *sync.WaitGroup, ended func(error)) error {
	shared := s.node.c.metrics.items
	upstream, err := s.logic.Upstream(ctx)
	if err != nil {
		return err
	}
	acks, err := s.logic.Acks(ctx)
	if err != nil {
		return err
	}
	downstream, err := s.logic.Downstream(ctx)
	if err != nil {
		return err
	}
	s.upstream = &lane[impartpb.UpstreamMsg, *impartpb.UpstreamAck, impartpb.UpstreamBatch, impartpb.UpstreamAckBatch]{
		stream: upstream, shared: shared.WithLabelValues("upstream"),
		pack: func(id uint64, timeout time.Duration, items []*impartpb.UpstreamMsg) *impartpb.UpstreamBatch {
			return &impartpb.UpstreamBatch{Id: id, TimeoutMs: timeout.Milliseconds(), Messages: items}
		},
		unpack: (*impartpb.UpstreamAckBatch).GetAcks,
		size: func(m *impartpb.UpstreamMsg) int {
			return 64 + len(m.Sender) + len(m.Device) + len(m.ConvId) + len(m.ClientMsgId) + len(m.Prev) + len(m.Type) + len(m.Body) + len(m.Ext)
		},
	}
	s.acks = &lane[impartpb.AckMsg, *impartpb.AckedMsg, impartpb.AckBatch, impartpb.AckedBatch]{
		stream: acks, shared: shared.WithLabelValues("acks"),
		pack: func(id uint64, timeout time.Duration, items []*impartpb.AckMsg) *impartpb.AckBatch {
			return &impartpb.AckBatch{Id: id, TimeoutMs: timeout.Milliseconds(), Acks: items}
		},
		unpack: (*impartpb.AckedBatch).GetAcked,
		size:   func(m *impartpb.AckMsg) int { return 64 + len(m.Items)*impart.MaxID },
	}
	s.downstream = &lane[impartpb.DownstreamRequest, *impartpb.DownstreamReply, impartpb.DownstreamBatch, impartpb.DownstreamReplyBatch]{
		stream: downstream, shared: shared.WithLabelValues("downstream"),
		pack: func(id uint64, timeout time.Duration, items []*impartpb.DownstreamRequest) *impartpb.DownstreamBatch {
			return &impartpb.DownstreamBatch{Id: id, TimeoutMs: timeout.Milliseconds(), Requests: items}
		},
		unpack: (*impartpb.DownstreamReplyBatch).GetReplies,
		size:   func(*impartpb.DownstreamRequest) int { return 64 + impart.MaxID },
	}
	s.upstream.start(ctx, running, ended)
	s.acks.start(ctx, running, ended)
	s.downstream.start(ctx, running, ended)
	return nil
}

// plainly is an error of a connection for people.
func plainly(err error) string {
	if err == nil {
		return "not connected yet"
	}
	if st, ok := status.FromError(err); ok && st.Code() != codes.OK {
		return st.Message()
	}
	return err.Error()
}

// dial makes a connection, which is not yet open.
func (c *Client) dial(n *node) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+n.addr, c.options(n.host)...)
}
