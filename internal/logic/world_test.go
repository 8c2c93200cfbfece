package logic_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/logic"
	"github.com/impart-im/impart/internal/store"
	"github.com/impart-im/impart/internal/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ana impart.UserID = "u-ana"
	ben impart.UserID = "u-ben"
	cy  impart.UserID = "u-cy"
	eve impart.UserID = "u-eve" // a stranger
)

// cmids makes every message's cmid new, over all worlds.
var cmids atomic.Int64

// world is a service on a store in memory, with everything it has published.
type world struct {
	*logic.Service
	t        *testing.T
	ctx      context.Context
	store    store.Store
	memory   *memstore.Store // the same, where a story holds or fails its commits
	bus      *recorder
	log      *lockedBuffer
	registry *prometheus.Registry
}

// newWorld starts a service; settings change its configuration.
func newWorld(t *testing.T, settings ...func(*logic.Config)) *world {
	t.Helper()
	return startWorld(t, openStore(t, nil), settings...)
}

// openStore opens an empty store with a clock (nil: the machine's), which
// whoever starts a world on it closes. The stories run on memory;
// TestTheRulesOnSQLite runs those again that need nothing but the contract.
var openStore = func(_ *testing.T, now func() impart.Millis) store.Store {
	return memstore.New(memstore.Options{Now: now})
}

// startWorld starts a service on a store, which is closed at the end.
func startWorld(t *testing.T, st store.Store, settings ...func(*logic.Config)) *world {
	t.Helper()
	w := &world{
		t: t, ctx: t.Context(), store: st, bus: &recorder{Local: bus.NewLocal()},
		log: &lockedBuffer{}, registry: prometheus.NewRegistry(),
	}
	w.memory, _ = st.(*memstore.Store)
	cfg := logic.Config{
		Store: st, Bus: w.bus, Metrics: w.registry,
		Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, set := range settings {
		set(&cfg)
	}
	service, err := logic.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.Service = service
	t.Cleanup(w.close)
	return w
}

func (w *world) close() {
	for _, err := range []error{w.Close(), w.bus.Close(), w.store.Close()} {
		if err != nil {
			w.t.Error(err)
		}
	}
}

// group creates a group; the first member is its admin.
func (w *world) group(conv impart.ConvID, users ...impart.UserID) {
	w.t.Helper()
	spec := impart.ConvSpec{Conv: conv, Kind: impart.Group}
	for i, user := range users {
		member := impart.Member{User: user}
		if i == 0 {
			member.Role = impart.RoleAdmin
		}
		spec.Members = append(spec.Members, member)
	}
	if _, _, err := w.PutConversation(w.ctx, spec); err != nil {
		w.t.Fatal(err)
	}
}

// message is a send with a cmid of its own.
func (w *world) message(user impart.UserID, conv impart.ConvID, body string) impart.Send {
	return impart.Send{Sender: user, Conv: conv, CMID: impart.CMID("m-" + strconv.FormatInt(cmids.Add(1), 10)), Body: body}
}

// try sends one message.
func (w *world) try(send impart.Send) impart.Sent { return w.Send(w.ctx, []impart.Send{send})[0] }

// say sends a message that must be stored.
func (w *world) say(user impart.UserID, conv impart.ConvID, body string) impart.Sent {
	w.t.Helper()
	sent := w.try(w.message(user, conv, body))
	if sent.Err != nil {
		w.t.Fatalf("%s could not say %q in %s: %v", user, body, conv, sent.Err)
	}
	return sent
}

// sayMany sends n messages.
func (w *world) sayMany(user impart.UserID, conv impart.ConvID, n int) {
	w.t.Helper()
	for i := range n {
		w.say(user, conv, "message "+strconv.Itoa(i))
	}
}

// device logs a device in.
func (w *world) device(user impart.UserID, device impart.DeviceID) impart.Session {
	w.t.Helper()
	return w.hello(impart.Hello{Identity: impart.Identity{User: user}, Device: device, Install: "first"}).Session
}

func (w *world) hello(hello impart.Hello) impart.Welcome {
	w.t.Helper()
	welcome, err := w.Hello(w.ctx, hello)
	if err != nil {
		w.t.Fatal(err)
	}
	return welcome
}

// ack acknowledges one conversation, which must succeed.
func (w *world) ack(session impart.Session, conv impart.ConvID, seq impart.Seq) impart.Seq {
	w.t.Helper()
	acked := w.Ack(w.ctx, impart.Ack{Session: session, Items: []impart.AckItem{{Conv: conv, Seq: seq}}})[0]
	if acked.Err != nil {
		w.t.Fatal(acked.Err)
	}
	return acked.Delivered
}

// log reads everything that a user may see of a conversation.
func (w *world) sees(user impart.UserID, conv impart.ConvID) []impart.Event {
	w.t.Helper()
	var events []impart.Event
	for after := impart.Seq(0); ; {
		page, err := w.Sync(w.ctx, impart.Sync{User: user, Conv: conv, After: &after, Limit: impart.MaxLimit})
		if err != nil {
			w.t.Fatal(err)
		}
		events = append(events, page.Events...)
		if !page.More {
			return events
		}
		after = page.Through
	}
}

// counts is the sum of a metric's series, as an operator reads it.
func (w *world) counts(name string) float64 {
	w.t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		sum := 0.0
		for _, metric := range family.GetMetric() {
			sum += metric.GetCounter().GetValue()
		}
		return sum
	}
	w.t.Fatalf("there is no metric %s", name)
	return 0
}

// wantCode checks the code of an error, and that it is one that may cross a border.
func wantCode(t *testing.T, what string, err error, code impart.Code) {
	t.Helper()
	var e *impart.Error
	switch {
	case err == nil:
		t.Errorf("%s: no error, want %s", what, code)
	case !errors.As(err, &e):
		t.Errorf("%s: %v is no impart.Error", what, err)
	case e.Code != code:
		t.Errorf("%s: %v, want %s", what, err, code)
	case code == impart.Unavailable && e.RetryAfter <= 0:
		t.Errorf("%s: %v does not say when to come back", what, err)
	case e.Message == "":
		t.Errorf("%s: %s says nothing to people", what, code)
	}
}

func ptr[T any](v T) *T { return &v }

// recorder is a bus that remembers, in order, what was published on it.
type recorder struct {
	*bus.Local
	mu       sync.Mutex
	messages []bus.Message
}

func (r *recorder) Publish(ctx context.Context, messages ...bus.Message) {
	r.mu.Lock()
	r.messages = append(r.messages, messages...)
	r.mu.Unlock()
	r.Local.Publish(ctx, messages...)
}

// take is what was published of a kind since the last take of anything.
func (r *recorder) take(kind bus.Kind) []bus.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	var taken []bus.Message
	for _, m := range r.messages {
		if m.Kind == kind {
			taken = append(taken, m)
		}
	}
	r.messages = nil
	return taken
}

// lockedBuffer is a log that can be read while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) lines() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Count(b.buf.Bytes(), []byte("\n"))
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// faulty is a store whose pages can fail.
type faulty struct {
	store.Store
	page func(store.PageQuery) error // asked before each page; its error is the page's
}

func (f *faulty) Page(ctx context.Context, query store.PageQuery) (impart.Page, error) {
	if f.page != nil {
		if err := f.page(query); err != nil {
			return impart.Page{}, err
		}
	}
	return f.Store.Page(ctx, query)
}

// clock is a clock that tests turn by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Millis() impart.Millis { return impart.Millis(c.Now().UnixMilli()) }

func (c *clock) turn(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(by)
}

// clocked starts a world in which the service and the store share a clock.
func clocked(t *testing.T, settings ...func(*logic.Config)) (*world, *clock) {
	t.Helper()
	c := newClock()
	return startWorld(t, openStore(t, c.Millis), append(settings, func(cfg *logic.Config) { cfg.Now = c.Now })...), c
}
