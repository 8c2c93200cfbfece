package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
	"github.com/impart-im/impart/internal/lab/world"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ab = impart.ConvID("c-ab")

// story runs in a bubble of virtual time with a server and the conversation c-ab
// of u-ana and u-ben.
func story(t *testing.T, tell func(t *testing.T, w *server)) {
	storyWith(t, world.Options{}, tell)
}

func storyWith(t *testing.T, opts world.Options, tell func(t *testing.T, w *server)) {
	t.Helper()
	opts.Apart = os.Getenv("IMPART_SHAPE") == "roles"
	synctest.Test(t, func(t *testing.T) {
		inner, err := world.New(opts)
		must(t, err)
		w := &server{World: inner, t: t}
		must(t, w.Conversation(ab, "u-ana", "u-ben"))
		defer func() { // also when the story ends early
			for _, a := range w.apps {
				a.stop()
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		}()
		tell(t, w)
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type server struct {
	*world.World
	t    *testing.T
	apps []*app
}

// app is an application on the SDK: it writes down what it is handed.
type app struct {
	t    *testing.T
	link *world.Link
	cfg  client.Config
	*client.Client

	mu      sync.Mutex // guards what follows
	handed  map[impart.ConvID][]impart.Event
	rewound []string
	settled []client.Settled
	refuse  func(ev impart.Event) error // what the handler returns
}

// app opens a client for a user; its store is a file, so that it can be opened again.
func (w *server) app(user string, set ...func(*client.Config)) *app {
	w.t.Helper()
	return w.appOn(w.Link(), user, w.t.TempDir()+"/store.db", set...)
}

func (w *server) appOn(link *world.Link, user, path string, set ...func(*client.Config)) *app {
	w.t.Helper()
	a := &app{t: w.t, link: link, handed: map[impart.ConvID][]impart.Event{}}
	a.cfg = client.Config{
		URL: world.URL, Device: impart.DeviceID("d-" + user), Store: path,
		Token: client.StaticToken("dev:u-" + user), HTTPClient: a.link.HTTPClient(),
		Handler: client.Handler{
			Event: a.take,
			Rewound: func(conv impart.ConvID, after impart.Seq) {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.rewound = append(a.rewound, fmt.Sprintf("%s after %d", conv, after))
				a.handed[conv] = slices.DeleteFunc(a.handed[conv], func(ev impart.Event) bool { return ev.Seq > after })
			},
			Settled: func(s client.Settled) {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.settled = append(a.settled, s)
			},
		},
	}
	for _, each := range set {
		each(&a.cfg)
	}
	w.apps = append(w.apps, a)
	a.start()
	return a
}

func (a *app) take(_ context.Context, ev impart.Event) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refuse != nil {
		if err := a.refuse(ev); err != nil {
			return err
		}
	}
	a.handed[ev.Conv] = append(a.handed[ev.Conv], ev)
	return nil
}

func (a *app) start() {
	a.t.Helper()
	c, err := client.Open(a.t.Context(), a.cfg)
	must(a.t, err)
	a.Client = c
}

// stop ends the client as a crash would, as far as its store can tell: nothing is
// written in farewell.
func (a *app) stop() {
	if err := a.Client.Close(); err != nil {
		a.t.Error(err)
	}
}

func (a *app) restart() {
	a.t.Helper()
	a.stop()
	a.start()
}

func (a *app) send(conv impart.ConvID, body string) impart.CMID {
	a.t.Helper()
	cmid, err := a.Send(a.t.Context(), client.Draft{Conv: conv, Body: body})
	must(a.t, err)
	return cmid
}

func (a *app) online() {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), 2*time.Minute)
	defer cancel()
	if err := a.WaitOnline(ctx); err != nil {
		a.t.Fatalf("not online: %v; the status is %+v", err, a.Status())
	}
}

// through waits until the outbox is empty.
func (a *app) through() {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), 5*time.Minute)
	defer cancel()
	if err := a.WaitSettled(ctx); err != nil {
		list, _ := a.Outbox(a.t.Context())
		a.t.Fatalf("the outbox is not through: %v; the status is %+v, %d items wait: %v", err, a.Status(), len(list), list)
	}
}

// wants waits until the application was handed these texts, and nothing else.
func (a *app) wants(conv impart.ConvID, bodies ...string) {
	a.t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for {
		got := a.bodies(conv)
		if slices.Equal(got, bodies) {
			return
		}
		if time.Now().After(deadline) {
			a.t.Fatalf("%s was handed %q, not %q; the status is %+v", a.cfg.Device, got, bodies, a.Status())
		}
		time.Sleep(50 * time.Millisecond) // virtual
	}
}

// bodies are the texts handed over, a recall as "-TARGET".
func (a *app) bodies(conv impart.ConvID) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var texts []string
	for _, ev := range a.handed[conv] {
		if ev.Kind == impart.KindRecall {
			texts = append(texts, fmt.Sprintf("-%d", ev.Target))
			continue
		}
		texts = append(texts, ev.Body)
	}
	return texts
}

// log is the server's log of a conversation as u-ana sees it, as texts.
func (w *server) log(conv impart.ConvID) []string {
	w.t.Helper()
	var texts []string
	after := impart.Seq(0)
	for {
		page, err := w.Logic.Sync(w.t.Context(), impart.Sync{User: "u-ana", Conv: conv, After: &after, Limit: impart.MaxLimit})
		must(w.t, err)
		for i, ev := range page.Events {
			if ev.Seq != after+impart.Seq(i)+1 {
				w.t.Fatalf("the log has a hole before %d", ev.Seq)
			}
			text := ev.Body
			if ev.Kind == impart.KindRecall {
				text = fmt.Sprintf("-%d", ev.Target)
			}
			texts = append(texts, text)
		}
		after = page.Through
		if !page.More {
			return texts
		}
	}
}

func (w *server) wantsLog(conv impart.ConvID, bodies ...string) {
	w.t.Helper()
	if got := w.log(conv); !slices.Equal(got, bodies) {
		w.t.Fatalf("the log is %q, not %q", got, bodies)
	}
}

// numbered is prefix1, prefix2 … prefixN.
func numbered(prefix string, n int) []string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprintf("%s%d", prefix, i+1)
	}
	return texts
}

// losing drops every frame of these types from the server.
func losing(types ...string) world.Rule {
	return func(f world.Frame) world.Fate {
		if f.FromServer && slices.Contains(types, f.T) {
			return world.Drop
		}
		return world.Pass
	}
}

func codeOf(err error) impart.Code {
	var refusal *impart.Error
	if errors.As(err, &refusal) {
		return refusal.Code
	}
	return ""
}
