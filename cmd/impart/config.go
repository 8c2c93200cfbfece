package main

import (
	"log/slog"
	"time"

	"github.com/impart-im/impart/internal/pending"
)

// config is the effective configuration of a server. It is only ever filled
// from the table in settings.go, which holds the defaults.
type config struct {
	Listen         string // host:port; port 0 picks a free one
	AllowPlaintext bool
	TLSCert        string // path of a PEM file, or ""
	TLSKey         string
	Origins        []string // scheme://host[:port]
	Pprof          string   // host:port on loopback, or ""

	role        role     // "": the whole server; not a setting
	Logic       []string // addresses of logic nodes, of a gateway
	LogicListen string   // host:port for gateways, of a logic node
	LogicCert   string   // path of a PEM file, or "": in plain text; all three or none
	LogicKey    string
	LogicCA     string
	LogicName   string // that the certificate of every logic node is for; "": their host

	Store          string // sqlite:PATH, postgres://… or mysql://…
	ListenStore    string // postgres://…, or "": as Store
	Redis          string // redis://…, or "": none
	Bus            string // auto, local, postgres or redis
	Replication    string // none or sync
	AllowUnsafe    bool
	Retention      time.Duration // 0: for ever
	DedupRetention time.Duration // 0: for ever

	Auth       authConfig
	AdminToken string

	MaxBody      int // bytes
	MaxInflight  int // requests without a reply, per connection
	MaxConns     int // 0: as many as the process may have file descriptors
	RateSend     int // messages per second and user; 0: no limit
	RateBurst    int
	RecallWindow time.Duration

	Sweep     time.Duration
	Retry     pending.Ladder
	Heartbeat time.Duration
	GatewayID string // "": host name and random

	LogLevel  slog.Level
	LogFormat string // auto, text or json
	Fault     string

	// noGroupCommit gives every message a transaction of its own. No setting leads
	// here: it is what `impart bench` compares with.
	noGroupCommit bool
}

// busKind is what carries wake-ups between the nodes: local, postgres or redis.
func (c *config) busKind() string {
	if c.Bus != "auto" {
		return c.Bus
	}
	if c.Redis != "" {
		return "redis"
	}
	if onPostgres(c.busStore()) {
		return "postgres"
	}
	return "local"
}

// listenStore is where the bus listens.
func (c *config) listenStore() string {
	if c.ListenStore != "" {
		return c.ListenStore
	}
	return c.Store
}

// busStore is the database that auto takes the bus from: a gateway has no other.
func (c *config) busStore() string {
	if c.role == roleGateway {
		return c.ListenStore
	}
	return c.Store
}

// authConfig says whose tokens are believed. The zero value is the open dev
// login, which is only for loopback.
type authConfig struct {
	HMACSecret string
	PublicKey  string // PEM text, or the path of a PEM file
	JWKSURL    string
	Issuer     string
	Audience   string
}

// devLogin reports whether nothing is set that could check a token.
func (a authConfig) devLogin() bool {
	return a.HMACSecret == "" && a.PublicKey == "" && a.JWKSURL == ""
}
