package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/impart-im/impart/internal/api"
	"github.com/impart-im/impart/internal/redis"
	"github.com/impart-im/impart/internal/rpc"
)

// openClient connects a gateway to its logic nodes.
func (p *parts) openClient(c *config, log *slog.Logger, registry *prometheus.Registry) error {
	secure, err := hopTLS(c, log)
	if err != nil {
		return err
	}
	p.client, err = rpc.NewClient(rpc.ClientConfig{
		Nodes: c.Logic, TLS: secure, Name: c.gatewayID(), MaxBody: c.MaxBody, Bus: c.busName(), Version: buildInfo().String(), Log: log, Metrics: registry,
	})
	if err != nil {
		return err
	}
	p.rules = p.client
	p.closers = append(p.closers, p.client.Close)
	return nil
}

// openServer makes what a logic node serves: the rules to gateways, and its health.
func (p *parts) openServer(c *config, log *slog.Logger, registry *prometheus.Registry) error {
	secure, err := hopTLS(c, log)
	if err != nil {
		return err
	}
	p.rpc, err = rpc.NewServer(rpc.ServerConfig{
		Logic: p.rules, Admin: p.rules, Fit: p.fit, TLS: secure, Name: c.gatewayID(), MaxBody: c.MaxBody, Bus: c.busName(), Version: buildInfo().String(), Log: log, Metrics: registry,
	})
	if err != nil {
		return err
	}
	p.closers = append(p.closers, p.rpc.Close)
	p.handler = api.New(api.Config{
		HealthOnly: true, Ready: p.ready, Gatherer: registry, Registerer: registry, Log: log, Version: buildInfo().String(),
	})
	return nil
}

// fit says whether this logic node can do its work.
func (p *parts) fit(ctx context.Context) error {
	if err := p.store.Ping(ctx); err != nil {
		return err
	}
	if p.shared && p.historyCheck(ctx).State == api.Fail {
		return errors.New("the database's history waits for its judgement")
	}
	return nil
}

// nodesCheck says how many logic nodes a gateway reaches. With none it can do nothing.
func (p *parts) nodesCheck() api.Check {
	fit, unfit, all := p.client.Nodes()
	c := api.Check{Name: "logic", State: api.OK, Detail: fmt.Sprintf("%d of %d nodes serve", fit, all)}
	switch {
	case fit == 0 && unfit > 0:
		c.State, c.Detail = api.Fail, "no logic node can reach its store: the logs of the nodes say why"
	case fit == 0:
		c.State, c.Detail = api.Fail, "no logic node answers: the log says why; it is tried again by itself"
	case fit < all:
		c.State = api.Warn
		c.Detail += ": the log says what is wrong with the others"
	}
	if err := p.client.OtherBus(); err != nil && c.State != api.Fail {
		c.State = api.Warn
		c.Detail += "; " + err.Error() + ": messages come with the sweep, give both the same IM_BUS and IM_REDIS"
	}
	return c
}

// busName names the bus, as far as two can be told apart by their settings: one server
// may have several addresses.
func (c *config) busName() string {
	if kind := c.busKind(); kind != "redis" {
		return kind
	}
	return fmt.Sprintf("redis, database %d", redis.Database(c.Redis))
}

// hopSecrets are the files by which the two roles know each other.
type hopSecrets struct {
	pair        *renewed[*tls.Certificate]
	authorities *renewed[*x509.CertPool]
	role        role
	name        string // of logic nodes, where it is not their host
}

// hopSecretsOf reads them; nil: the roles meet in plain text.
func hopSecretsOf(c *config, log *slog.Logger) (*hopSecrets, error) {
	if c.LogicCert == "" {
		return nil, nil
	}
	s := &hopSecrets{role: c.role, name: c.LogicName}
	var err error
	if s.pair, err = renewedPair(c.LogicCert, c.LogicKey, log); err != nil {
		return nil, usagef("IM_LOGIC_TLS_CERT and IM_LOGIC_TLS_KEY (--logic-tls-cert, --logic-tls-key): should be PEM files that belong together: %w", err)
	}
	if s.authorities, err = renewedAuthorities(c.LogicCA, log); err != nil {
		return nil, usagef("IM_LOGIC_TLS_CA (--logic-tls-ca): should be a PEM file with certificates: %w", err)
	}
	return s, nil
}

// config is how the next connection is made.
func (s *hopSecrets) config() *tls.Config {
	if s.role == roleLogic {
		return &tls.Config{
			MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*s.pair.get()},
			ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: s.authorities.get(),
		}
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: s.authorities.get(), ServerName: s.name,
		// It is shown whatever the node asks for, so that its log says what is wrong with it.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return s.pair.get(), nil },
	}
}

// hopTLS is how the two roles know each other; nil: not at all, in plain text.
func hopTLS(c *config, log *slog.Logger) (func() *tls.Config, error) {
	secrets, err := hopSecretsOf(c, log)
	if secrets == nil {
		return nil, err
	}
	return secrets.config, nil
}

// validateHop checks the settings between the roles.
func (c *config) validateHop(add func(string, ...any)) {
	if c.role != roleGateway && c.role != roleLogic {
		return
	}
	if count := countSet(c.LogicCert, c.LogicKey, c.LogicCA); count != 0 && count != 3 {
		add("IM_LOGIC_TLS_CERT, IM_LOGIC_TLS_KEY and IM_LOGIC_TLS_CA (--logic-tls-cert, --logic-tls-key, --logic-tls-ca): all three or none should be set")
	}
	plain := c.LogicCert == "" && !c.AllowPlaintext
	const advice = "should have IM_LOGIC_TLS_CERT, IM_LOGIC_TLS_KEY and IM_LOGIC_TLS_CA with it: whoever reaches it in plain text may send as anybody; " +
		"where the network itself keeps others away, set IM_ALLOW_PLAINTEXT=true"
	if c.role == roleLogic {
		if plain && !loopback(c.LogicListen) {
			add("IM_LOGIC_LISTEN (--logic-listen): %q "+advice, c.LogicListen)
		}
		if c.busKind() == "local" {
			add("IM_STORE (--store): impart logic should have postgres://ROLE:PASSWORD@HOST:PORT/DATABASE, or IM_REDIS beside the store: gateways hear of new messages through one of them")
		}
		return
	}
	if len(c.Logic) == 0 {
		add("IM_LOGIC (--logic): impart gateway should have the addresses of its logic nodes, such as 127.0.0.1:9090 or dns:///logic.example.com:9090")
	}
	for _, addr := range c.Logic {
		if plain && !loopback(strings.TrimPrefix(addr, "dns:///")) {
			add("IM_LOGIC (--logic): %q "+advice, addr)
			break
		}
	}
	switch {
	case c.busKind() == "local":
		add("IM_LISTEN_STORE (--listen-store): impart gateway should have the address of the logic nodes' database, postgres://ROLE:PASSWORD@HOST:PORT/DATABASE, or IM_REDIS the address of theirs: it hears there of new messages")
	case c.ListenStore == "" && c.busKind() == "postgres":
		add("IM_LISTEN_STORE (--listen-store): IM_BUS=postgres needs the address of the logic nodes' database, postgres://ROLE:PASSWORD@HOST:PORT/DATABASE")
	case c.ListenStore != "":
		c.validateListenStore(add)
	}
}

// logKey is what log lines call this process.
func (c *config) logKey() string {
	if c.role == roleLogic {
		return "node"
	}
	return "gateway"
}

// told is what the log says of a process that starts.
func (c *config) told(conns int) []any {
	switch c.role {
	case roleGateway:
		return []any{"logic", strings.Join(c.Logic, ","), "connections", conns}
	case roleLogic:
		return []any{"store", shownStore(c.Store)}
	default:
		return []any{"store", shownStore(c.Store), "connections", conns}
	}
}
