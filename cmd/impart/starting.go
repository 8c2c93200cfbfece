package main

import (
	"context"
	"net/http"

	"github.com/impart-im/impart/internal/api"
)

// door is what answers from the first moment on. Until the server's parts are there it
// says that the process lives and is not ready, and lets other requests wait: whoever
// starts everything at once need not come again.
type door struct {
	opened   chan struct{} // closed once inside is set
	inside   http.Handler
	starting http.Handler
}

func newDoor(c *config) *door {
	state := api.Check{Name: "server", State: api.Fail, Detail: "starting"}
	if c.role != roleGateway && onServer(c.Store) {
		state.Detail = "starting: the database is awaited; the log says why"
	}
	return &door{opened: make(chan struct{}), starting: api.New(api.Config{
		HealthOnly: true, Ready: func(context.Context) []api.Check { return []api.Check{state} },
	})}
}

// open lets requests in. It may be called once.
func (d *door) open(inside http.Handler) {
	d.inside = inside
	close(d.opened)
}

// ServeHTTP implements [http.Handler].
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-d.opened:
		d.inside.ServeHTTP(w, r)
		return
	default:
	}
	if r.URL.Path == "/livez" || r.URL.Path == "/readyz" {
		d.starting.ServeHTTP(w, r)
		return
	}
	select {
	case <-d.opened:
		d.inside.ServeHTTP(w, r)
	case <-r.Context().Done():
	}
}
