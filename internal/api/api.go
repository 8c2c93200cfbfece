// Package api is Impart over HTTP: the send API and its siblings, the admin
// API, health, metrics and the OpenAPI document, with the checks that every
// request passes first. It promises the text of a message byte for byte and one
// shape of error; it decides no delivery rule, keeps no state, and never shows a
// body, a token or a stack.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/auth"
)

// Config is what the handler is made of. Logic, Admin and Auth are needed;
// everything else may be left at its zero value.
type Config struct {
	Logic impart.Logic
	Admin impart.Admin
	Auth  *auth.Verifier

	// AdminToken opens the admin API; "": it is closed, unless AdminOpen.
	AdminToken string
	// AdminOpen opens the admin API to whoever can reach it. It counts only in dev
	// login, where Host and Origin are loopback names.
	AdminOpen bool

	Gateway http.Handler // GET /v1/ws; nil: 404
	Web     http.Handler // every path that is not the API's; nil: 404

	// HealthOnly leaves out everything but health and metrics: then Logic, Admin and
	// Auth may be nil.
	HealthOnly bool

	// Ready says how the parts are; nil: always ready. It is called at each
	// /readyz, and its details are public: no address, credential or driver error.
	Ready func(ctx context.Context) []Check

	Gatherer   prometheus.Gatherer   // what /metrics shows; nil: only this package's own
	Registerer prometheus.Registerer // where this package's metrics go; nil: a registry of its own

	Origins auth.Origins  // beside the own host
	MaxBody int           // bytes of a message body, which Logic enforces and the OpenAPI document tells; 0: 65,536
	Timeout time.Duration // of one request; 0: 30 s
	Log     *slog.Logger  // nil: nothing is logged
	Version string        // shown in the OpenAPI document; "": dev
}

// Check is the state of one part of the server.
type Check struct {
	Name   string // "store", "bus", "gateway", "epoch", "durability" …
	State  State
	Detail string // what is wrong and what to do about it; public
}

// State is how a part is.
type State string

// The states of a part.
const (
	OK   State = "ok"
	Warn State = "warn" // works, but somebody should know: listed, and still ready
	Fail State = "fail" // not ready
)

// New makes the handler of every HTTP path. It panics when Logic, Admin or Auth
// is missing: no configuration of an operator can cause that.
func New(config Config) http.Handler {
	if !config.HealthOnly && (config.Logic == nil || config.Admin == nil || config.Auth == nil) {
		panic("api: Logic, Admin and Auth are needed")
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	if config.Timeout <= 0 {
		config.Timeout = 30 * time.Second
	}
	if config.MaxBody <= 0 {
		config.MaxBody = 64 << 10
	}
	if config.Version == "" {
		config.Version = "dev"
	}
	counted := newMetrics(&config)
	s := &server{Config: config, metrics: counted}
	s.paths = newPaths(s.routes())
	return s
}
