package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// secured are credentials that ask for their settings at each connection, so that
// certificates and authorities may be renewed while the process runs.
type secured struct {
	credentials.TransportCredentials // for what is asked of no connection
	config                           func() *tls.Config
	host                             string // a node's, where the settings name none; "" at a server
	log                              *slog.Logger
	often                            *often
}

// securedClient are a client's, for nodes whose certificate must be for host.
func securedClient(config func() *tls.Config, host string) credentials.TransportCredentials {
	s := &secured{config: config, host: host}
	s.TransportCredentials = credentials.NewTLS(s.now())
	return s
}

// securedServer are a server's. They log who was turned away, and why: the client
// mostly learns no more than that its connection broke.
func securedServer(config func() *tls.Config, log *slog.Logger) credentials.TransportCredentials {
	return &secured{
		TransportCredentials: credentials.NewTLS(config()), config: config,
		log: log, often: &often{last: map[string]time.Time{}},
	}
}

// Of the log of clients that get no connection: how often the same is said of one
// host, which dials again and again, and of how many hosts.
const (
	sayAgain = time.Minute
	sayHosts = 256
)

// often says the same of one host now and then.
type often struct {
	mu   sync.Mutex
	last map[string]time.Time // when it was said: by host and what
}

func (o *often) may(what string, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if last, said := o.last[what]; said && now.Sub(last) < sayAgain {
		return false
	}
	if len(o.last) >= sayHosts {
		maps.DeleteFunc(o.last, func(_ string, last time.Time) bool { return now.Sub(last) >= sayAgain })
	}
	if len(o.last) >= sayHosts {
		return false
	}
	o.last[what] = now
	return true
}

// now are the settings of the next connection.
func (s *secured) now() *tls.Config {
	config := s.config()
	if config.ServerName == "" && s.host != "" {
		config = config.Clone()
		config.ServerName = s.host
	}
	return config
}

// ClientHandshake implements [credentials.TransportCredentials].
func (s *secured) ClientHandshake(ctx context.Context, authority string, nc net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(s.now()).ClientHandshake(ctx, authority, nc)
}

// ServerHandshake implements [credentials.TransportCredentials].
func (s *secured) ServerHandshake(nc net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, info, err := credentials.NewTLS(s.now()).ServerHandshake(nc)
	if err != nil && !errors.Is(err, io.EOF) {
		s.tell(nc.RemoteAddr().String(), err)
	}
	return secure, info, err
}

// tell logs why a client got no connection, with the advice for the side that has to
// be mended: an alert that comes from the client says that it refused this node.
func (s *secured) tell(address string, err error) {
	said := "a client was turned away: it has to show a certificate of the authority in IM_LOGIC_TLS_CA"
	if remoteAlert(err) {
		said = "a client refused this node's certificate: IM_LOGIC_TLS_CA at the client has to name the authority of the one in IM_LOGIC_TLS_CERT here, and that has to be for the host that the client dials, or its IM_LOGIC_TLS_NAME"
	}
	host, _, splitErr := net.SplitHostPort(address)
	if splitErr != nil {
		host = address
	}
	// Its port is another one each time.
	if s.often.may(host+" "+said, time.Now()) {
		s.log.Warn(said, "address", address, "err", err)
	}
}

// remoteAlert reports whether the other side ended the handshake.
func remoteAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// Clone implements [credentials.TransportCredentials].
func (s *secured) Clone() credentials.TransportCredentials {
	c := *s
	c.TransportCredentials = s.TransportCredentials.Clone()
	return &c
}
