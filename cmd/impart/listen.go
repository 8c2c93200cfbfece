package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Limits of the HTTP side. A connection that became a WebSocket leaves them and
// is counted by the gateway.
const (
	headerTimeout  = 5 * time.Second
	requestTimeout = time.Minute
	idleTimeout    = 90 * time.Second
	maxHeader      = 32 << 10
)

// listen opens the address that a flag names; the error says what to do.
func listen(flag, addr string) (net.Listener, error) {
	ln, err := net.Listen("tcp", addr)
	name := "IM_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_")) + " (--" + flag + ")"
	switch {
	case err == nil:
		return ln, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s: the address %s is in use: stop the other server, or choose another one, such as --%s 127.0.0.1:0 for any free port", name, addr, flag)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("%s: %s needs a right that this user does not have: choose a port from 1024, or give the binary cap_net_bind_service", name, addr)
	default:
		return nil, fmt.Errorf("%s: %s cannot be listened on: %w", name, addr, err)
	}
}

// hopListener is where a logic node serves gateways; the zero value is none.
type hopListener struct{ net.Listener }

// String is what the ready line says of it.
func (h hopListener) String() string {
	if h.Listener == nil {
		return ""
	}
	return " grpc://" + h.Addr().String()
}

func (h hopListener) Close() error {
	if h.Listener == nil {
		return nil
	}
	return h.Listener.Close()
}

// listeners opens the addresses of a process: one for HTTP, and that of the hop for a
// logic node.
func listeners(c *config) (net.Listener, hopListener, error) {
	ln, err := listen("listen", c.Listen)
	if err != nil || c.role != roleLogic {
		return ln, hopListener{}, err
	}
	hop, err := listen("logic-listen", c.LogicListen)
	if err != nil {
		return nil, hopListener{}, errors.Join(err, ln.Close())
	}
	return ln, hopListener{hop}, nil
}

// newHTTPServer serves handler within the limits above. conns is the number of
// connections that are not, or not yet, WebSockets.
func newHTTPServer(handler http.Handler, conns int, log *slog.Logger) *http.Server {
	gate := &connGate{limit: int64(conns)}
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      requestTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ConnState:         gate.state,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// connGate closes new connections past a limit.
type connGate struct {
	limit int64
	count atomic.Int64
}

func (g *connGate) state(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if g.count.Add(1) > g.limit {
			_ = c.Close()
		}
	case http.StateHijacked, http.StateClosed:
		g.count.Add(-1)
	case http.StateActive, http.StateIdle:
	}
}

// tlsConfig is how HTTP is served; nil: in plain text.
func tlsConfig(c *config, log *slog.Logger) (*tls.Config, error) {
	if c.TLSCert == "" {
		return nil, nil
	}
	cert, err := renewedPair(c.TLSCert, c.TLSKey, log)
	if err != nil {
		return nil, usagef("IM_TLS_CERT and IM_TLS_KEY (--tls-cert, --tls-key): should be PEM files that belong together: %w", err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return cert.get(), nil },
	}, nil
}

// profiles serves Go's profiles on an address of their own.
func profiles(addr string, log *slog.Logger) (*http.Server, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("IM_PPROF (--pprof): %s cannot be listened on: %w", addr, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: headerTimeout}
	go func() { _ = server.Serve(ln) }()
	log.Info("profiles", "address", "http://"+ln.Addr().String()+"/debug/pprof/")
	return server, nil
}
