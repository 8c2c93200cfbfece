package random

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/impart"
	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// conversation is one that the run has created.
type conversation struct {
	id       string
	history  string
	founders []string
}

// auditor is a founder of every conversation, who sees everything.
const auditor = "u-audit"

// world is one run: a server, users with devices, and a schedule drawn from a
// seed. Everything that must hold is collected in wrong.
type world struct {
	t      *testing.T
	rng    *rand.Rand
	server *impart.Server
	users  []string
	convs  []conversation
	phones []*phone
	made   int // bodies and cmids

	mu       sync.Mutex
	seen     map[string]map[eventKey]string // by user: events that frames showed, with their kind
	recalled map[string]bool                // bodies whose recall was answered
	receipts []rawclient.Receipt
	wrong    []string
}

type eventKey struct {
	conv string
	seq  int64
}

// phone is a device behind a link of its own.
type phone struct {
	*rawclient.Device
	user, device string
	installs     int
	link         *impart.Proxy
	backup       *rawclient.Device
}

func newWorld(t *testing.T, seed uint64, binary string, env ...string) *world {
	env = append(env, "IM_SWEEP_MS=150", "IM_RETRY_MS=100,150,200,250", "IM_LOG_LEVEL=warn")
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), users: []string{"a", "a:b", "u-cleo", "u-dan"},
		seen: map[string]map[eventKey]string{}, recalled: map[string]bool{},
		server: impart.StartWith(t, impart.Config{Env: env, Binary: binary}),
	}
	w.create("c-all", "from_join", append([]string{auditor}, w.users...))
	w.create("c-join", "from_join", []string{auditor, "a", "a:b"})
	w.create("c-hist", "all", []string{auditor, "a"})
	for i, user := range []string{"a", "a", "a:b", "u-cleo", "u-dan"} {
		p := &phone{user: user, device: fmt.Sprint("d", i), link: impart.NewProxy(t, w.server.Addr)}
		p.Device = w.device(p)
		p.Start()
		w.phones = append(w.phones, p)
	}
	t.Cleanup(func() {
		for _, p := range w.phones {
			p.Stop()
		}
	})
	return w
}

// device makes a device with an empty store, a new install.
func (w *world) device(p *phone) *rawclient.Device {
	p.installs++
	return rawclient.NewDevice(rawclient.DeviceOptions{
		User: p.user, Device: p.device, Token: "dev:" + p.user, Install: fmt.Sprint("i", p.installs),
		Address: p.link.Addr, ResendAfter: 600 * time.Millisecond, PageLimit: 3 + w.rng.IntN(20),
		OnFrame: func(f rawclient.Frame) { w.look(p.user, f) },
	})
}

func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) < 20 {
		w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
	}
}

// look keeps what a frame showed to a user.
func (w *world) look(user string, f rawclient.Frame) {
	var events []rawclient.Object
	switch f.T() {
	case "event":
		events = []rawclient.Object{f.Obj("ev")}
	case "synced":
		events = f.List("events")
	case "pulled":
		for _, page := range f.List("convs") {
			events = append(events, page.List("events")...)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[user] == nil {
		w.seen[user] = map[eventKey]string{}
	}
	for _, o := range events {
		ev := rawclient.ParseEvent(o)
		w.seen[user][eventKey{ev.Conv, ev.Seq}] = ev.Kind
	}
}

func (w *world) create(id, history string, founders []string) {
	w.convs = append(w.convs, conversation{id, history, founders})
	w.server.Admin(w.t, http.MethodPut, "conversations/"+id, map[string]any{"kind": "group", "history": history, "members": founders})
}

// body is a text that no other message has.
func (w *world) body() string {
	w.made++
	return fmt.Sprintf("body-%d-%s", w.made, strings.Repeat("x", w.rng.IntN(60)))
}

// admin asks the admin API. The server may be down or go down: that is no fault.
func (w *world) admin(method, path string) {
	_, _ = w.server.TryRequest(method, "/admin/v1/"+path, nil, nil)
}

func pick[T any](w *world, from []T) T { return from[w.rng.IntN(len(from))] }

// probe is a raw connection of a user on a device of its own, for questions
// whose answers are known; nil while the server is away.
func (w *world) probe(user string) *rawclient.Conn {
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
	defer cancel()
	c, _, err := rawclient.Login(ctx, w.server.Addr(), rawclient.NewHello("dev:"+user, "probe", "i"), rawclient.DialOptions{})
	if err != nil {
		return nil
	}
	return c
}

// ask is a question on a probe: the answer, or false when there was none.
func (w *world) ask(c *rawclient.Conn, rid string, frame map[string]any) (rawclient.Frame, bool) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
	defer cancel()
	f, err := c.Ask(ctx, rid, frame)
	return f, err == nil
}

// log reads a whole conversation as the auditor sees it. That it cannot be read
// is a finding: its creation had been answered, and the server is up.
func (w *world) log(conv string) []Event {
	c := w.probe(auditor)
	if c == nil {
		w.fail("D1: the auditor cannot log in")
		return nil
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	events, _, err := rawclient.Fetch(ctx, c, conv, 0, 500)
	if err != nil {
		w.fail("D1: the auditor cannot read %s: %v", conv, err)
	}
	return events
}

// sents are all receipts of all devices, past installs included.
func (w *world) sents() []rawclient.Receipt {
	w.mu.Lock()
	all := slices.Clone(w.receipts)
	w.mu.Unlock()
	for _, p := range w.phones {
		all = append(all, p.Receipts()...)
	}
	return all
}

// retire keeps what must outlive a device whose store is given up.
func (w *world) retire(d *rawclient.Device) {
	receipts, wrong := d.Receipts(), d.Wrong()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.receipts = append(w.receipts, receipts...)
	w.wrong = append(w.wrong, wrong...)
}

// findings is everything that was wrong, without doubles.
func (w *world) findings() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	unique := map[string]bool{}
	for _, f := range w.wrong {
		unique[f] = true
	}
	return slices.Sorted(maps.Keys(unique))
}

func memberPath(conv, user string) string {
	return "conversations/" + conv + "/members/" + url.PathEscape(user)
}
