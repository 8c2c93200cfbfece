package client_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
)

// Reconnect on a living connection is not kept for later, when the user may have
// taken the device elsewhere.
func TestAnEarlierReconnectDoesNotUndoAFinalBye(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		s.empty()
		a.online()
		a.Reconnect()
		s.say(`{"t":"bye","code":"SUPERSEDED","reconnect_after_ms":0,"final":true}`)
		later(t, "the bye is not seen", func() bool { return a.Status().State != client.Online })
		select {
		case <-s.conns:
			t.Fatal("the client has come back by itself")
		case <-time.After(10 * time.Minute):
		}
		if st := a.Status(); st.State != client.Stopped {
			t.Errorf("%+v", st)
		}
		a.Reconnect()
		s.welcome(0)
		s.empty()
		a.online()
	})
}

// A handler may ask the server about what was settled, however much was.
func TestASettledHandlerMayAskTheServer(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		var asked atomic.Int64
		var a *app
		a = w.app("ana", func(cfg *client.Config) {
			cfg.Handler.Settled = func(s client.Settled) {
				time.Sleep(10 * time.Millisecond) // virtual
				if _, err := a.Who(t.Context(), s.Conv, s.Seq, ""); err == nil {
					asked.Add(1)
				}
			}
		})
		a.online()
		a.link.Off()
		n := crowd(1500)
		for i := range n {
			a.send(ab, fmt.Sprint(i))
		}
		a.link.On()
		later(t, "the handler and the connection wait for each other", func() bool { return asked.Load() == int64(n) })
		a.through()
	})
}

// A handler that never returns delays nothing but the hand-over, whichever it is.
func TestAStuckHandlerDelaysOnlyTheHandOver(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		stuck := make(chan struct{})
		ana := w.app("ana", func(cfg *client.Config) {
			cfg.Handler.Settled = func(client.Settled) { <-stuck }
			cfg.Handler.Status = func(client.Status) { <-stuck }
			cfg.Handler.Typing = func(impart.ConvID, impart.UserID) { <-stuck }
		})
		defer func() { close(stuck) }()
		ben := w.app("ben")
		ben.online()
		ana.online()
		for i := range crowd(1500) {
			ana.send(ab, fmt.Sprint("a", i+1))
		}
		time.Sleep(time.Minute)
		for i := range 10 {
			ben.send(ab, fmt.Sprint("b", i+1))
		}
		ben.through()
		later(t, "ben's messages are not handed over", func() bool {
			texts := ana.bodies(ab)
			return len(texts) > 0 && texts[len(texts)-1] == "b10"
		})
	})
}

// What is no JSON object is no ext, whatever it would make of the frame.
func TestAnExtIsOneObject(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana := w.app("ana")
		for _, ext := range []string{`{},"prev":"x"`, `{},"zz":1`, `{} `, `null`, `1`, `{`, `{"a":1,"a":2}`, `[]`} {
			if _, err := ana.Send(t.Context(), client.Draft{Conv: ab, Body: "x", Ext: []byte(ext)}); codeOf(err) != impart.BadFrame {
				t.Errorf("ext %s: %v", ext, err)
			}
		}
		ext := `{"a" : [1, 2]}`
		_, err := ana.Send(t.Context(), client.Draft{Conv: ab, Body: "x", Ext: []byte(ext)})
		must(t, err)
		ana.through()
		ana.wants(ab, "x")
		if got := string(ana.handed[ab][0].Ext); got != ext {
			t.Errorf("ext came back as %s", got)
		}
	})
}

// Two devices of a user that count their messages alike: the second one's is
// refused, and not taken for the first one's.
func TestAnotherDevicesMessageSettlesNothing(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		phone := w.app("ana")
		desk := w.app("ana", func(cfg *client.Config) { cfg.Device = "d-desk" })
		phone.online()
		desk.online()
		desk.link.Off()
		_, err := phone.Send(t.Context(), client.Draft{Conv: ab, Body: "from the phone", CMID: "m-1"})
		must(t, err)
		phone.through()
		_, err = desk.Send(t.Context(), client.Draft{Conv: ab, Body: "from the desk", CMID: "m-1"})
		must(t, err)
		desk.link.On()
		desk.through()
		list, err := desk.Refused(t.Context())
		must(t, err)
		if len(list) != 1 || list[0].Body != "from the desk" || list[0].Err.Code != impart.CMIDReused {
			t.Errorf("refused: %+v; settled: %+v", list, desk.settled)
		}
	})
}

// Close may come while other goroutines are in any method. They get an answer or
// ErrClosed, and the store is free afterwards.
func TestCloseRacesEverything(t *testing.T) {
	cfg := client.Config{URL: "http://127.0.0.1:1", Device: "d", Token: client.StaticToken("x"), Store: t.TempDir() + "/s.db"}
	for range 10 {
		c, err := client.Open(t.Context(), cfg)
		must(t, err)
		var all sync.WaitGroup
		ctx := t.Context()
		for range 4 {
			all.Go(func() {
				for {
					cmid, err := c.Send(ctx, client.Draft{Conv: ab, Body: "hi"})
					for _, each := range []func() error{
						func() error { return err },
						func() error { _, err := c.Outbox(ctx); return err },
						func() error { _, err := c.Conversations(ctx); return err },
						func() error { _, err := c.Events(ctx, ab, 0, 10); return err },
						func() error { _, err := c.Cancel(ctx, cmid); return err },
						func() error { c.Reconnect(); c.Typing(ab); return nil },
					} {
						switch err := each(); {
						case errors.Is(err, client.ErrClosed):
							return
						case err != nil:
							t.Error(err)
							return
						}
					}
				}
			})
		}
		for range 20 {
			_, _ = c.Outbox(ctx)
		}
		must(t, c.Close())
		again, err := client.Open(t.Context(), cfg)
		if err != nil {
			t.Fatalf("Close has returned, and yet: %v", err)
		}
		must(t, again.Close())
		all.Wait()
		if st := c.Status(); st.State != client.Stopped {
			t.Errorf("after Close: %+v", st)
		}
	}
}

// A call that is given up leaves the store as it was, and in the hands of its client.
func TestGivenUpCallsKeepTheStore(t *testing.T) {
	cfg := client.Config{URL: "http://127.0.0.1:1", Device: "d", Token: client.StaticToken("x"), Store: t.TempDir() + "/s.db"}
	c, err := client.Open(t.Context(), cfg)
	must(t, err)
	defer c.Close()
	body := make([]byte, 10_000)
	for i := range body {
		body[i] = 'x'
	}
	taken := map[impart.CMID]bool{}
	for i := range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(time.Duration(i)*30*time.Microsecond, cancel)
		cmid, err := c.Send(ctx, client.Draft{Conv: ab, Body: string(body)})
		if err == nil {
			taken[cmid] = true
		}
		_, _ = c.Outbox(ctx)
		timer.Stop()
		cancel()
		if i%10 == 0 {
			if other, err := client.Open(t.Context(), cfg); !errors.Is(err, client.ErrInUse) {
				t.Fatalf("after %d calls somebody else gets the store: %v %v", i, other, err)
			}
		}
	}
	list, err := c.Outbox(t.Context())
	must(t, err)
	if len(list) != len(taken) {
		t.Errorf("%d messages wait, %d were taken", len(list), len(taken))
	}
}

// Typing is worth less than the connection.
func TestTypingDoesNotCostTheConnection(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		s.empty()
		a.online()
		for range crowd(2000) { // the server does not read meanwhile
			a.Typing(ab)
			time.Sleep(time.Millisecond)
		}
		a.send(ab, "hi")
		for {
			if f := s.any(time.Hour); f == nil {
				t.Fatalf("the connection is gone: %+v", a.Status())
			} else if f["t"] == "send" {
				return
			}
		}
	})
}

// However many conversations the application refuses, it is handed the others.
func TestManyRefusedConversationsHoldUpNoOther(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		n := crowd(1100)
		for i := range n {
			must(t, w.Conversation(impart.ConvID(fmt.Sprintf("a-%04d", i)), "u-ana", "u-ben"))
		}
		ben := w.app("ben")
		for i := range n {
			ben.send(impart.ConvID(fmt.Sprintf("a-%04d", i)), "bad")
		}
		ben.through()
		ana := w.app("ana", func(cfg *client.Config) {
			take := cfg.Handler.Event
			cfg.Handler.Event = func(ctx context.Context, ev impart.Event) error {
				if ev.Body == "bad" {
					return errors.New("no")
				}
				return take(ctx, ev)
			}
		})
		time.Sleep(time.Minute)
		ben.send(ab, "good")
		ana.wants(ab, "good")
	})
}
