package api

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/auth"
)

const gatewayPath = "/v1/ws"

// contentPolicy lets a page load what this server serves and nothing else, run
// no inline script, and stand in nobody's frame.
const contentPolicy = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"

// secure sets the headers that every answer has.
func secure(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if r.TLS != nil {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// guard is what a request has to pass before anything of it counts. Pages (own
// false) may be looked at from anywhere; in dev login even they only under a
// loopback name.
func (s *server) guard(r *http.Request, own bool) error {
	if s.Auth != nil && s.Auth.Dev() && !auth.LoopbackHost(r) {
		return refuse(http.StatusForbidden, impart.BadFrame,
			"in dev login this server answers only as localhost, 127.0.0.1 or [::1]; set up a token key to serve other names")
	}
	if !own {
		return nil
	}
	if !s.Origins.Allow(r) {
		return refuse(http.StatusForbidden, impart.BadFrame, "pages of this origin may not call this server; the operator can list them in IM_ORIGINS")
	}
	return auth.TokenInURL(r)
}

// preflight lets pages of the listed origins use the send API, and nothing else
// of this server: it answers a browser's question about it, and marks what the
// page may read. It reports whether the request is answered.
func (s *server) preflight(w http.ResponseWriter, r *http.Request, byMethod map[string]*route) bool {
	if !slices.ContainsFunc(slices.Collect(maps.Values(byMethod)), func(rt *route) bool { return rt.access == bearer }) {
		return false
	}
	w.Header().Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" || !s.Origins.Lists(origin) {
		return false
	}
	w.Header().Set("Access-Control-Allow-Origin", origin)
	w.Header().Set("Access-Control-Expose-Headers", "Retry-After")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	w.Header().Set("Access-Control-Allow-Methods", allowed(byMethod))
	w.Header().Set("Access-Control-Allow-Headers", strings.Join([]string{"Authorization", "Content-Type", deviceHeader, installHeader}, ", "))
	w.Header().Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// serveGateway hands a WebSocket handshake on with the connection untouched:
// the gateway takes it over. A refusal is answered like any other.
func (s *server) serveGateway(w http.ResponseWriter, r *http.Request) {
	const name = http.MethodGet + " " + gatewayPath
	if s.Gateway != nil && r.Method == http.MethodGet && s.guard(r, true) == nil {
		defer s.recoverPanic(w, r, name, func() bool { return true })
		s.Gateway.ServeHTTP(w, r)
		return
	}
	s.observe(w, r, name, func(w http.ResponseWriter) {
		err := s.guard(r, true)
		switch {
		case err != nil:
		case s.Gateway == nil:
			err = refuse(http.StatusNotFound, impart.NotFound, "this process takes no connections")
		default:
			w.Header().Set("Allow", http.MethodGet)
			err = refuse(http.StatusMethodNotAllowed, impart.BadFrame, "this path takes GET with a WebSocket upgrade")
		}
		s.fail(w, r, name, err)
	})
}
