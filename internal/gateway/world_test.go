package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobwas/ws"
	"go.uber.org/goleak"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/lab/hop"
	"github.com/impart-im/impart/internal/logic"
	"github.com/impart-im/impart/internal/pending"
	"github.com/impart-im/impart/internal/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is one gateway over the real rules and an in-memory store, inside a
// bubble of virtual time.
type world struct {
	t     *testing.T
	store *memstore.Store
	logic *logic.Service
	bus   *deafBus
	g     *Gateway
	reads *readCounter // where a story has several nodes
}

// deafBus is a bus that can be made to lose every message of one kind.
type deafBus struct {
	bus.Bus
	lose atomic.Int32 // a bus.Kind
	down atomic.Bool  // it says that messages do not flow
}

func (b *deafBus) Health() error {
	if b.down.Load() {
		return errors.New("no messages flow")
	}
	return b.Bus.Health()
}

func (b *deafBus) Subscribe(handle func(bus.Message)) func() {
	return b.Bus.Subscribe(func(m bus.Message) {
		if int32(m.Kind) != b.lose.Load() {
			handle(m)
		}
	})
}

// inWorld runs a story in a fresh world whose gateway has the given settings.
func inWorld(t *testing.T, set func(*Config), story func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, store: memstore.New(memstore.Options{}), bus: &deafBus{Bus: bus.NewLocal()}}
		var err error
		w.logic, err = logic.New(logic.Config{Store: w.store, Bus: w.bus})
		must(t, err)
		rules, ends := rulesOf(t, w.logic)
		cfg := Config{Logic: rules, Bus: w.bus, Pending: pending.NewLocal(), Verify: devToken, Create: true}
		if set != nil {
			set(&cfg)
		}
		w.g, err = New(cfg)
		must(t, err)
		defer func() { // also when the story ends early
			for _, closer := range append(append([]io.Closer{w.g}, ends...), w.bus, w.store) {
				if err := closer.Close(); err != nil {
					t.Error(err)
				}
			}
		}()
		w.conversation("c-ab", "u-ana", "u-ben")
		story(w)
	})
}

// rulesOf is how a gateway reaches the rules, and what is to be closed afterwards, in
// order: they themselves, or where IMPART_SHAPE is roles what leads to them over gRPC.
func rulesOf(t *testing.T, rules *logic.Service) (impart.Logic, []io.Closer) {
	if !apart() {
		return rules, []io.Closer{rules}
	}
	h, err := hop.New(rules)
	must(t, err)
	return h, []io.Closer{h, rules}
}

// apart reports whether the stories are told over the hop.
func apart() bool { return os.Getenv("IMPART_SHAPE") == "roles" }

// devToken accepts "dev:USER", or "dev:USER:TTL" with an end.
func devToken(_ context.Context, token string) (impart.Identity, error) {
	var user, ttl string
	for i, part := range split(token) {
		switch i {
		case 1:
			user = part
		case 2:
			ttl = part
		}
	}
	if user == "" {
		return impart.Identity{}, impart.Errorf(impart.Unauthenticated, "no such token")
	}
	id := impart.Identity{User: impart.UserID(user)}
	if d, err := time.ParseDuration(ttl); err == nil {
		id.Expires = impart.Millis(time.Now().Add(d).UnixMilli())
	}
	return id, nil
}

func split(token string) []string {
	var parts []string
	start := 0
	for i := range len(token) + 1 {
		if i == len(token) || token[i] == ':' {
			parts = append(parts, token[start:i])
			start = i + 1
		}
	}
	return parts
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) conversation(conv impart.ConvID, users ...impart.UserID) {
	w.t.Helper()
	spec := impart.ConvSpec{Conv: conv, Kind: impart.Group}
	for _, u := range users {
		spec.Members = append(spec.Members, impart.Member{User: u})
	}
	_, _, err := w.logic.PutConversation(w.t.Context(), spec)
	must(w.t, err)
}

// frame is a frame as a client reads it.
type frame map[string]any

func (f frame) t() string { s, _ := f["t"].(string); return s }

func (f frame) num(key string) impart.Seq { n, _ := f[key].(float64); return impart.Seq(n) }

// ev is the event inside an event frame.
func (f frame) ev() frame { m, _ := f["ev"].(map[string]any); return m }

// client is a raw client on a pipe.
type client struct {
	w    *world
	nc   net.Conn
	gate chan struct{} // holds a token while the client reads

	mu     sync.Mutex
	frames []frame
	pings  int
	status ws.StatusCode // of the close frame
	mute   bool          // does not answer pings
	rude   bool          // does not answer a close frame
	done   chan struct{}
}

// dial connects without a hello.
func (w *world) dial() *client {
	server, nc := net.Pipe()
	cl := &client{w: w, nc: nc, gate: make(chan struct{}, 1), done: make(chan struct{})}
	cl.gate <- struct{}{}
	w.g.count.Add(1)
	if !w.g.start(server, nil) {
		w.t.Fatal("the gateway takes no connection")
	}
	go cl.read()
	w.t.Cleanup(func() { _ = nc.Close() })
	return cl
}

// connect says hello and sub for a user's device.
func (w *world) connect(user, device string) *client {
	w.t.Helper()
	cl := w.dial()
	cl.send(`{"t":"hello","rid":"h","token":"dev:%s","device":"%s","install":"i-%s","proto":1}`, user, device, device)
	cl.wants("welcome")
	cl.send(`{"t":"sub","rid":"s"}`)
	cl.wants("subbed")
	return cl
}

func (cl *client) read() {
	defer close(cl.done)
	for {
		<-cl.gate
		cl.gate <- struct{}{}
		f, err := readServerFrame(cl.nc)
		if err != nil {
			return
		}
		cl.mu.Lock()
		switch f.Header.OpCode {
		case ws.OpText:
			var decoded frame
			if err := json.Unmarshal(f.Payload, &decoded); err != nil {
				cl.w.t.Errorf("not JSON: %q", f.Payload)
			}
			cl.frames = append(cl.frames, decoded)
		case ws.OpPing:
			cl.pings++
			if !cl.mute {
				go cl.write(ws.NewPongFrame(f.Payload))
			}
		case ws.OpClose:
			cl.status, _ = ws.ParseCloseFrameData(f.Payload)
			if !cl.rude {
				go func() { cl.write(ws.NewCloseFrame(f.Payload)); _ = cl.nc.Close() }()
			}
		}
		cl.mu.Unlock()
	}
}

func (cl *client) write(f ws.Frame) { _ = ws.WriteFrame(cl.nc, ws.MaskFrame(f)) }

func (cl *client) send(format string, args ...any) {
	cl.write(ws.NewTextFrame(fmt.Appendf(nil, format, args...)))
}

// take returns what has arrived since the last take, once everything has
// settled at this instant.
func (cl *client) take() []frame {
	synctest.Wait()
	cl.mu.Lock()
	defer cl.mu.Unlock()
	frames := cl.frames
	cl.frames = nil
	return frames
}

// wants takes exactly the given types of frames, and returns the last.
func (cl *client) wants(types ...string) frame {
	cl.w.t.Helper()
	frames := cl.take()
	var got []string
	for _, f := range frames {
		got = append(got, f.t())
	}
	if fmt.Sprint(got) != fmt.Sprint(types) {
		cl.w.t.Fatalf("got %v, want frames %v", frames, types)
	}
	if len(frames) == 0 {
		return nil
	}
	return frames[len(frames)-1]
}

// only takes what has arrived and keeps the frames of one type.
func (cl *client) only(kind string) []frame {
	var kept []frame
	for _, f := range cl.take() {
		if f.t() == kind {
			kept = append(kept, f)
		}
	}
	return kept
}

// says sends a message and wants it stored.
func (cl *client) says(conv, cmid, body string) frame {
	cl.w.t.Helper()
	cl.send(`{"t":"send","rid":"%s","conv":"%s","cmid":"%s","body":"%s"}`, cmid, conv, cmid, body)
	for _, f := range cl.take() {
		if f.t() == "sent" && f["rid"] == cmid {
			return f
		}
	}
	cl.w.t.Fatalf("%s was not sent", cmid)
	return nil
}

// acks acknowledges and swallows the answer.
func (cl *client) acks(conv string, seq impart.Seq) {
	cl.w.t.Helper()
	cl.send(`{"t":"ack","rid":"a","conv":"%s","seq":%d}`, conv, seq)
	for _, f := range cl.take() {
		if f.t() == "acked" {
			return
		}
	}
	cl.w.t.Fatalf("ack %s %d was not answered", conv, seq)
}
