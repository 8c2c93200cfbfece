package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/credentials"
)

// secured are credentials that ask for their settings at each connection, so that
// certificates and authorities may be renewed while the process runs.
type secured struct {
	credentials.TransportCredentials // for what is asked of no connection
	config                           func() *tls.Config
	host                             string // a node's, where the settings name none; "" at a server
	log                              *slog.Logger
	often                            *rate.Sometimes
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
		log: log, often: &rate.Sometimes{First: 10, Interval: time.Second},
	}
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
		s.often.Do(func() {
			s.log.Warn("a client was turned away: it has to show a certificate of the authority in IM_LOGIC_TLS_CA", "address", nc.RemoteAddr().String(), "err", err)
		})
	}
	return secure, info, err
}

// Clone implements [credentials.TransportCredentials].
func (s *secured) Clone() credentials.TransportCredentials {
	c := *s
	c.TransportCredentials = s.TransportCredentials.Clone()
	return &c
}
