// Package world is a whole server and the links of its clients inside one
// process, made to run in a testing/synctest bubble: the gateway and the rules are
// the server's own, the store is the one in memory that forgets what has not
// committed, and the network is pipes on which frames can be lost, held or cut.
// It promises nothing to users; tests of the SDK and the simulation live in it.
package world

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/gateway"
	"github.com/impart-im/impart/internal/lab/hop"
	"github.com/impart-im/impart/internal/lab/pipe"
	"github.com/impart-im/impart/internal/logic"
	"github.com/impart-im/impart/internal/pending"
	"github.com/impart-im/impart/internal/store/memstore"
)

// URL is the address that a client of a world dials; it stands for the world's
// network and nothing else.
const URL = "http://impart.world"

// World is a server that can crash, and its network.
type World struct {
	Store *memstore.Store
	Logic *logic.Service

	opts    Options
	gateway *gateway.Gateway
	hop     *hop.Hop // nil unless the roles are apart
	bus     bus.Bus
	server  *http.Server
	accept  *pipe.Listener
	closing sync.WaitGroup // servers that have crashed and are still going down

	mu    sync.Mutex // guards what follows
	down  bool
	links []*Link
}

// Options of a world. The zero value is a server with its defaults.
type Options struct {
	Gateway func(*gateway.Config) // changes the gateway's settings
	Logic   func(*logic.Config)
	Store   memstore.Options
	Apart   bool // the gateway reaches the rules over gRPC
	Log     *slog.Logger
}

// New starts a server with an empty store.
func New(opts Options) (*World, error) {
	w := &World{opts: opts, Store: memstore.New(opts.Store)}
	return w, w.start()
}

func (w *World) start() error {
	w.bus = bus.NewLocal()
	rules := logic.Config{Store: w.Store, Bus: w.bus, SendRate: -1, Log: w.opts.Log}
	if w.opts.Logic != nil {
		w.opts.Logic(&rules)
	}
	var err error
	if w.Logic, err = logic.New(rules); err != nil {
		return err
	}
	var port impart.Logic = w.Logic
	if w.opts.Apart {
		if w.hop, err = hop.New(w.Logic); err != nil {
			return err
		}
		port = w.hop
	}
	edge := gateway.Config{
		Logic: port, Bus: w.bus, Pending: pending.NewLocal(), Create: true, MaxRate: -1, Log: w.opts.Log, Verify: devToken,
	}
	if w.opts.Gateway != nil {
		w.opts.Gateway(&edge)
	}
	if w.gateway, err = gateway.New(edge); err != nil {
		return err
	}
	accept := pipe.Listen("world")
	server := &http.Server{Handler: w.gateway, ReadHeaderTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	w.closing.Go(func() { _ = server.Serve(accept) })
	w.mu.Lock()
	w.server, w.accept, w.down = server, accept, false
	w.mu.Unlock()
	return nil
}

// devToken accepts "dev:USER".
func devToken(_ context.Context, token string) (impart.Identity, error) {
	user, dev := strings.CutPrefix(token, "dev:")
	if !dev || user == "" {
		return impart.Identity{}, impart.Errorf(impart.Unauthenticated, "the token is not dev:USER")
	}
	return impart.Identity{User: impart.UserID(user)}, nil
}

// Crash ends the server as kill -9 would: what has not committed never does, and
// no client gets a goodbye. Go on with Restart.
func (w *World) Crash() {
	w.Store.Crash()
	w.stop()
	dead := w.parts()
	w.closing.Go(func() {
		for _, part := range dead {
			_ = part.Close()
		}
	})
}

// parts are what a server is made of, in the order in which they are closed.
func (w *World) parts() []io.Closer {
	if w.hop == nil {
		return []io.Closer{w.gateway, w.Logic, w.bus, w.Store}
	}
	return []io.Closer{w.gateway, w.hop, w.Logic, w.bus, w.Store}
}

// stop closes the network.
func (w *World) stop() {
	w.mu.Lock()
	w.down = true
	links := w.links
	w.mu.Unlock()
	for _, l := range links {
		l.Cut()
	}
	w.accept.Close()
	_ = w.server.Close()
}

// Restart starts a server on what the store of the crashed one has kept.
func (w *World) Restart() error {
	w.Store = w.Store.Reopen()
	return w.start()
}

// Shutdown stops the server as SIGTERM would; go on with Restart.
func (w *World) Shutdown() error {
	drain, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = w.gateway.Drain(drain) // what is left then is cut
	var errs []error
	for _, part := range w.parts() {
		errs = append(errs, part.Close())
	}
	w.stop()
	return errors.Join(errs...)
}

// Close ends everything and waits for it.
func (w *World) Close() error {
	var err error
	w.mu.Lock()
	down := w.down
	w.mu.Unlock()
	if !down {
		err = w.Shutdown()
	}
	w.closing.Wait()
	return err
}

// Conversation makes a group with these members.
func (w *World) Conversation(conv impart.ConvID, users ...impart.UserID) error {
	spec := impart.ConvSpec{Conv: conv, Kind: impart.Group}
	for _, u := range users {
		spec.Members = append(spec.Members, impart.Member{User: u})
	}
	_, _, err := w.Logic.PutConversation(context.Background(), spec)
	return err
}
