package chat

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
	"github.com/impart-im/impart/internal/lab/world"
)

func TestMain(m *testing.M) {
	time.Local = time.UTC // what the screen shows is in local time
	goleak.VerifyTestMain(m)
}

const ab = impart.ConvID("c-ab")

// story runs in a bubble of virtual time with a server and the conversation c-ab
// of u-ana and u-ben.
func story(t *testing.T, tell func(t *testing.T, w *city)) {
	synctest.Test(t, func(t *testing.T) {
		inner, err := world.New(world.Options{})
		must(t, err)
		w := &city{World: inner, t: t}
		must(t, w.Conversation(ab, "u-ana", "u-ben"))
		defer func() {
			for _, s := range w.screens {
				s.cancel()
				s.ran.Wait()
			}
			for _, c := range w.chats {
				must(t, c.Close())
			}
			must(t, w.Close())
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

// city is a server and those who chat with it.
type city struct {
	*world.World
	t       *testing.T
	chats   []*Chat
	screens []*screen
}

// person is a user with a store and a network, who may start a chat again and again.
type person struct {
	w    *city
	link *world.Link
	cfg  Config
}

func (w *city) person(user impart.UserID) *person {
	link := w.Link()
	return &person{w: w, link: link, cfg: Config{Conv: ab, Client: client.Config{
		URL: world.URL, Device: "d-" + impart.DeviceID(user), User: user, Store: w.t.TempDir() + "/deep/store.db",
		Token: client.StaticToken("dev:" + string(user)), HTTPClient: link.HTTPClient(),
	}}}
}

// start opens a chat; the end of the story closes it, or stop.
func (p *person) start() *Chat {
	p.w.t.Helper()
	c, err := Open(p.w.t.Context(), p.cfg)
	must(p.w.t, err)
	p.w.chats = append(p.w.chats, c)
	return c
}

// pipe is one run of the scripted form: what it wrote on both streams, and its error.
func (p *person) pipe(lines string, timeout time.Duration) (string, error) {
	p.w.t.Helper()
	c := p.start()
	var out bytes.Buffer
	err := c.Pipe(p.w.t.Context(), strings.NewReader(lines), &Lines{Out: &out, Err: &out}, timeout)
	must(p.w.t, c.Close())
	return out.String(), err
}

// follower is a Follow that runs, and what it has written.
type follow struct {
	t      *testing.T
	cancel context.CancelFunc
	done   chan error

	mu  sync.Mutex
	out bytes.Buffer
}

func (f *follow) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out.Write(p)
}

func (f *follow) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out.String()
}

func (p *person) follow(in io.Reader, asJSON bool, since Since) *follow {
	ctx, cancel := context.WithCancel(p.w.t.Context())
	f := &follow{t: p.w.t, cancel: cancel, done: make(chan error, 1)}
	c := p.start()
	go func() { f.done <- c.Follow(ctx, in, &Lines{Out: f, Err: f, JSON: asJSON}, since) }()
	return f
}

// wants waits until the output has a text.
func (f *follow) wants(text string) {
	f.t.Helper()
	wait(f.t, func() string { return f.text() }, text)
}

// ends leaves and wants no error.
func (f *follow) ends() {
	f.t.Helper()
	f.cancel()
	must(f.t, <-f.done)
}

// wait waits in virtual time until what is seen has a text.
func wait(t *testing.T, see func() string, text string) {
	t.Helper()
	for range 1200 {
		if strings.Contains(see(), text) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("there is no %q in\n%s", text, see())
}

// has wants texts in this order.
func has(t *testing.T, got string, texts ...string) {
	t.Helper()
	rest := got
	for _, text := range texts {
		_, after, found := strings.Cut(rest, text)
		if !found {
			t.Fatalf("there is no %q (in this place) in\n%s", text, got)
		}
		rest = after
	}
}

// log is what the server has stored, as texts.
func (w *city) log() []string {
	w.t.Helper()
	after := impart.Seq(0)
	page, err := w.Logic.Sync(w.t.Context(), impart.Sync{User: "u-ana", Conv: ab, After: &after, Limit: impart.MaxLimit})
	must(w.t, err)
	var texts []string
	for _, ev := range page.Events {
		texts = append(texts, ev.Body)
	}
	return texts
}
