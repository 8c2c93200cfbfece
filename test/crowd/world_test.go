package crowd

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	im "github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
	"github.com/impart-im/impart/test/blackbox/impart"
)

// world is two gateways on two logic nodes, behind a balancer.
type world struct {
	*testing.T
	gateways []*impart.Server
	logic    []*impart.Server
	open     atomic.Int64 // the gateway that the balancer gives
}

func newWorld(t *testing.T, d *impart.Deployment, env ...string) *world {
	w := &world{T: t}
	env = append(d.Env(), env...)
	for range 2 {
		w.logic = append(w.logic, impart.StartWith(t, impart.Config{Args: []string{"logic"}, Store: d.Store, Env: env}))
	}
	return w
}

// gateway starts the next one.
func (w *world) gateway(d *impart.Deployment, env ...string) {
	w.gateways = append(w.gateways, impart.StartWith(w.T, impart.Config{
		Args: []string{"gateway"}, Store: d.Store, Logic: w.logic, Env: append(d.Env(), env...),
	}))
}

// balance makes the balancer give this gateway to whoever connects.
func (w *world) balance(gateway int) { w.open.Store(int64(gateway)) }

func (w *world) target() string { return w.gateways[w.open.Load()].Addr() }

func (w *world) conv(id im.ConvID, members ...im.UserID) {
	w.Helper()
	w.gateways[0].Admin(w, http.MethodPut, "conversations/"+string(id), map[string]any{"kind": "group", "members": members})
}

// reads is how many transactions the logic nodes have read in.
func (w *world) reads() (n float64) {
	for _, l := range w.logic {
		sum, _ := l.Metric(w, "im_store_reads_total", "")
		n += sum
	}
	return n
}

// app is an application, and what was seen of it.
type app struct {
	*client.Client
	w    *world
	user im.UserID

	mu      sync.Mutex // guards what follows
	changed chan struct{}
	events  map[im.ConvID][]im.Event
	waits   []wait
	dials   []time.Time
}

// wait is one between two attempts to connect, as the application was told of it.
type wait struct {
	began, until time.Time
	why          error
}

// app opens one for a user, behind the balancer.
func (w *world) app(user im.UserID) *app {
	w.Helper()
	a := &app{w: w, user: user, changed: make(chan struct{}), events: map[im.ConvID][]im.Event{}}
	link := impart.NewProxy(w, func() string { // asked for each connection
		a.note(func() { a.dials = append(a.dials, time.Now()) })
		return w.target()
	})
	c, err := client.Open(w.Context(), client.Config{
		URL: "http://" + link.Addr(), Device: "phone", Token: client.StaticToken("dev:" + string(user)),
		Handler: client.Handler{
			Event: func(_ context.Context, ev im.Event) error {
				a.note(func() { a.events[ev.Conv] = append(a.events[ev.Conv], ev) })
				return nil
			},
			Status: func(s client.Status) {
				if s.State == client.Waiting {
					a.note(func() { a.waits = append(a.waits, wait{time.Now(), s.RetryAt, s.Err}) })
				}
			},
		},
	})
	if err != nil {
		w.Fatal(err)
	}
	a.Client = c
	w.Cleanup(func() {
		if err := c.Close(); err != nil {
			w.Error(err)
		}
	})
	return a
}

func (a *app) note(what func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	what()
	close(a.changed)
	a.changed = make(chan struct{})
}

// patience bounds the waits for what must come.
const patience = 2 * time.Minute

// has waits until the application was given so many events of a conversation, and demands that they are its first ones,
// each once and in order.
func (a *app) has(conv im.ConvID, n int) {
	a.w.Helper()
	for late := time.After(patience); ; {
		a.mu.Lock()
		events, changed := slices.Clone(a.events[conv]), a.changed
		a.mu.Unlock()
		for i, ev := range events {
			if ev.Seq != im.Seq(i+1) {
				a.w.Fatalf("%s was given seq %d of %s at place %d", a.user, ev.Seq, conv, i+1)
			}
		}
		if len(events) >= n {
			return
		}
		select {
		case <-changed:
		case <-late:
			a.w.Fatalf("%s was given %d of %d events of %s within %v; %+v", a.user, len(events), n, conv, patience, a.Status())
		}
	}
}

func (a *app) online() {
	a.w.Helper()
	ctx, cancel := context.WithTimeout(a.w.Context(), patience)
	defer cancel()
	if err := a.WaitOnline(ctx); err != nil {
		a.w.Fatalf("%s is not online: %v; %+v", a.user, err, a.Status())
	}
}

func (a *app) send(conv im.ConvID, n int) {
	a.w.Helper()
	for i := range n {
		if _, err := a.Send(a.w.Context(), client.Draft{Conv: conv, Body: fmt.Sprint("m", i)}); err != nil {
			a.w.Fatal(err)
		}
	}
}

// since is what was noted after a moment.
func (a *app) since(began time.Time) (waits []wait, dials []time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.waits {
		if w.began.After(began) {
			waits = append(waits, w)
		}
	}
	for _, d := range a.dials {
		if d.After(began) {
			dials = append(dials, d)
		}
	}
	return waits, dials
}
