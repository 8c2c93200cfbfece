package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/rpc/impartpb"
)

// ServerConfig says what a server needs. A zero field means its default.
type ServerConfig struct {
	Logic impart.Logic // required
	Admin impart.Admin // required
	// Fit is nil while the node can do its work; an error makes clients prefer other
	// nodes. It is asked every second. Nil: always fit.
	Fit func(ctx context.Context) error
	// TLS is how clients are met, who show a certificate if it says so. It is asked for
	// each connection. Nil: in plain text.
	TLS     func() *tls.Config
	Name    string // of the node, for logs
	Version string // of the program, for people
	// MaxBody is the largest body of a message that Logic takes, in bytes; 0: gateways
	// are not told.
	MaxBody int
	// Bus names what wake-ups travel by, such as "redis, database 0"; empty: gateways
	// are not told.
	Bus string

	Log     *slog.Logger          // nil: nothing is logged
	Metrics prometheus.Registerer // nil: none
}

// Server serves the rules of one node to gateways.
type Server struct {
	cfg     ServerConfig
	grpc    *grpc.Server
	health  *health.Server
	metrics *serverMetrics
	born    time.Time // beats are counted from here

	ctx     context.Context // ends when the server is closed
	cancel  context.CancelFunc
	looking sync.WaitGroup

	clients atomic.Int64 // streams of Watch

	mu      sync.Mutex // guards the rest
	state   impartpb.State
	changed chan struct{} // closed and replaced when the state changes
}

// NewServer makes a server; Serve starts it, and Close ends it.
func NewServer(cfg ServerConfig) (*Server, error) {
	if cfg.Logic == nil || cfg.Admin == nil {
		return nil, errors.New("rpc: a server needs Logic and Admin")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		cfg: cfg, health: health.NewServer(), born: time.Now(), state: impartpb.State_STATE_SERVING, changed: make(chan struct{}),
	}
	s.metrics = newServerMetrics(cfg.Metrics, s)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxRequest), grpc.MaxConcurrentStreams(8192),
		grpc.InitialWindowSize(windowStream), grpc.InitialConnWindowSize(windowConn),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 15 * time.Second, Timeout: 10 * time.Second}),
		grpc.UnaryInterceptor(s.count), grpc.WaitForHandlers(true),
	}
	if cfg.TLS != nil {
		options = append(options, grpc.Creds(securedServer(cfg.TLS, cfg.Log)))
	}
	s.grpc = grpc.NewServer(options...)
	impartpb.RegisterLogicServiceServer(s.grpc, &logicService{Server: s})
	impartpb.RegisterAdminServiceServer(s.grpc, &adminService{Server: s})
	grpc_health_v1.RegisterHealthServer(s.grpc, s.health)
	if cfg.Fit != nil {
		s.looking.Go(s.look)
	}
	return s, nil
}

// Serve serves on ln until Drain or Close; it returns nil then.
func (s *Server) Serve(ln net.Listener) error {
	if err := s.grpc.Serve(ln); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("rpc: serving: %w", err)
	}
	return nil
}

// Clients counts the clients that watch this node.
func (s *Server) Clients() int { return int(s.clients.Load()) }

// Drain tells every client to turn to other nodes, and returns once they have what
// they had asked for and are gone, or ctx ends. Close afterwards.
func (s *Server) Drain(ctx context.Context) {
	s.set(impartpb.State_STATE_DRAINING)
	s.health.Shutdown()
	for s.clients.Load() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	done := make(chan struct{})
	go func() { s.grpc.GracefulStop(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		s.grpc.Stop()
		<-done
	}
}

// Close cuts what is left, and returns when nothing of the server runs.
func (s *Server) Close() error {
	s.cancel()
	s.grpc.Stop()
	s.looking.Wait()
	s.metrics.unregister()
	return nil
}

// set changes the state, unless the node is draining: that is the last one.
func (s *Server) set(state impartpb.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == state || s.state == impartpb.State_STATE_DRAINING {
		return
	}
	s.state = state
	close(s.changed)
	s.changed = make(chan struct{})
	serving := grpc_health_v1.HealthCheckResponse_SERVING
	if state != impartpb.State_STATE_SERVING {
		serving = grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	s.health.SetServingStatus("", serving)
}

// now is the state and what tells of the next change.
func (s *Server) now() (impartpb.State, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.changed
}

// beat is the time on the node's own clock, never 0. It goes on while the process
// is frozen.
func (s *Server) beat() int64 { return int64(time.Since(s.born)) + 1 }

// look asks now and then whether the node is fit.
func (s *Server) look() {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		ctx, cancel := context.WithTimeout(s.ctx, time.Second)
		err := s.cfg.Fit(ctx)
		cancel()
		switch {
		case s.ctx.Err() != nil:
			return
		case err != nil:
			s.set(impartpb.State_STATE_UNFIT)
		default:
			s.set(impartpb.State_STATE_SERVING)
		}
		select {
		case <-every.C:
		case <-s.ctx.Done():
			return
		}
	}
}

// fresh refuses what would be carried out long after its client gave this node up,
// as the last words of a connection to a process that was frozen are.
func (s *Server) fresh(beat int64) error {
	if beat != 0 && time.Duration(s.beat()-beat) > stale {
		return unavailable("the request was too long on its way; send it again", nil)
	}
	return nil
}

// count counts calls that are not of a stream.
func (s *Server) count(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	reply, err := handler(ctx, req)
	code := "OK"
	if e, ok := fromStatus(err); ok {
		code = string(e.Code)
	} else if err != nil {
		code = string(impart.Unavailable)
	}
	s.metrics.served.WithLabelValues(info.FullMethod, code).Inc()
	return reply, err
}
