package api

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/impart-im/impart"
)

// server is the handler behind [New]. It is not changed after that.
type server struct {
	Config
	metrics *metrics
	paths   paths // this package's; the rest is Web's
}

// access says what opens a route.
type access int

const (
	public access = iota
	bearer        // a user's token
	admin         // the operator's token, or the dev login on loopback
)

// route is one operation: how it is reached, what it answers, and what the
// OpenAPI document says of it.
type route struct {
	method, path string // {name} in the path stands for one segment
	access       access
	handle       func(*server, *call) error
	doc          doc
}

// name labels the route in metrics and logs: bounded, whatever is asked for.
func (rt *route) name() string { return rt.method + " " + rt.path }

// ownPaths are the roots under which an unknown path is answered here and not by
// the web pages.
var ownPaths = []string{"/api/", "/admin/", "/v1/"}

func ownPath(p string) bool {
	return slices.ContainsFunc(ownPaths, func(root string) bool { return strings.HasPrefix(p+"/", root) })
}

// ServeHTTP answers any request: the security headers first, then the checks
// that need no body, then the route.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w, r)
	escaped := r.URL.EscapedPath()
	if escaped == gatewayPath {
		s.serveGateway(w, r)
		return
	}
	if found, values := s.paths.find(escaped); found != nil {
		for name, value := range values {
			r.SetPathValue(name, value)
		}
		s.dispatch(w, r, found.routes)
		return
	}
	own := ownPath(escaped)
	s.observe(w, r, otherRoute, func(w http.ResponseWriter) {
		switch err := s.guard(r, own); {
		case err != nil:
			s.fail(w, r, otherRoute, err)
		case own || s.Web == nil:
			s.fail(w, r, otherRoute, refuse(http.StatusNotFound, impart.NotFound, "there is nothing at this path; /openapi.json lists what there is"))
		default:
			s.Web.ServeHTTP(w, r)
		}
	})
}

// dispatch runs the route of the request's method.
func (s *server) dispatch(w http.ResponseWriter, r *http.Request, byMethod map[string]*route) {
	method := r.Method
	if _, own := byMethod[http.MethodHead]; method == http.MethodHead && !own {
		method = http.MethodGet // net/http leaves the body out
	}
	rt := byMethod[method]
	name := otherRoute
	if rt != nil {
		name = rt.name()
	}
	s.observe(w, r, name, func(w http.ResponseWriter) {
		if err := s.guard(r, true); err != nil {
			s.fail(w, r, name, err)
			return
		}
		if s.preflight(w, r, byMethod) {
			return
		}
		if rt == nil {
			w.Header().Set("Allow", allowed(byMethod))
			s.fail(w, r, name, refuse(http.StatusMethodNotAllowed, impart.BadFrame, "this path takes %s", allowed(byMethod)))
			return
		}
		s.run(w, r, rt)
	})
}

// run opens the route and carries it out.
func (s *server) run(w http.ResponseWriter, r *http.Request, rt *route) {
	ctx, cancel := context.WithTimeout(r.Context(), s.Timeout)
	defer cancel()
	c := &call{w: w, r: r.WithContext(ctx), server: s, route: rt}
	err := c.open()
	if err == nil {
		err = rt.handle(s, c)
	}
	if err != nil {
		s.fail(w, r, rt.name(), err)
	}
}

// allowed lists the methods of a path for the Allow header.
func allowed(byMethod map[string]*route) string {
	names := slices.Sorted(maps.Keys(byMethod))
	if byMethod[http.MethodGet] != nil && byMethod[http.MethodHead] == nil {
		names = append(names, http.MethodHead)
	}
	return strings.Join(names, ", ")
}
