package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
)

func TestATokenForSomebodyElseSendsNothing(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		written := make(chan struct{})
		ana := w.app("ana", func(cfg *client.Config) {
			cfg.User = "u-ana"
			cfg.Token = func(context.Context) (string, error) { <-written; return "dev:u-ben", nil }
		})
		ana.send(ab, "mine")
		close(written)
		if err := ana.WaitSettled(t.Context()); err == nil || !strings.Contains(err.Error(), `"u-ben"`) {
			t.Fatalf("with another's token: %v", err)
		}
		if _, err := ana.Send(t.Context(), client.Draft{Conv: ab, Body: "whose?"}); err == nil {
			t.Error("with another's token, Send still takes messages")
		}
		w.wantsLog(ab)
		ana.cfg.Token = client.StaticToken("dev:u-ana")
		ana.restart() // the store has not become the other's
		ana.through()
		w.wantsLog(ab, "mine")
	})
}

func TestWhatWasReadOnAnotherDeviceIsRead(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		other := func(cfg *client.Config) { cfg.Device = "d-other" }
		ana, ben, tablet := w.app("ana"), w.app("ben"), w.app("ben", other)
		for _, text := range numbered("m", 3) {
			ana.send(ab, text)
		}
		ben.wants(ab, "m1", "m2", "m3")
		tablet.wants(ab, "m1", "m2", "m3")
		must(t, ben.Read(t.Context(), ab, 2))
		ben.wantsRead(2)
		tablet.wantsRead(2) // by a receipt
		ben.stop()          // and tells nobody anything any more
		tablet.stop()
		time.Sleep(time.Minute)
		fresh := w.app("ben", func(cfg *client.Config) { cfg.Device = "d-fresh" })
		fresh.wants(ab, "m1", "m2", "m3")
		fresh.wantsRead(2) // by what a connection begins with
	})
}

// wantsRead waits until the store knows that the server knows how far was read.
func (a *app) wantsRead(seq impart.Seq) {
	a.t.Helper()
	for range 100 {
		list, err := a.Conversations(a.t.Context())
		must(a.t, err)
		if len(list) == 1 && list[0].Read == seq && list[0].ReadTold == seq {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	list, _ := a.Conversations(a.t.Context())
	a.t.Fatalf("%s has not read %d but holds %+v", a.cfg.Device, seq, list)
}

func TestAStoreHasOneClient(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana := w.app("ana")
		if _, err := client.Open(t.Context(), ana.cfg); !errors.Is(err, client.ErrInUse) {
			t.Errorf("a second client on the store: %v", err)
		}
	})
}

// What ana has written must never be sent under ben's name, nor ben's under hers.
func TestAStoreIsForOneUser(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		as := func(user impart.UserID) func(*client.Config) {
			return func(cfg *client.Config) {
				cfg.User, cfg.Device, cfg.Token = user, "d-shared", client.StaticToken("dev:"+string(user))
			}
		}
		ana := w.app("ana", as("u-ana"))
		ana.link.Off() // she was never online
		ana.send(ab, "from ana")
		ana.stop()
		ben := ana.cfg
		as("u-ben")(&ben)
		if c, err := client.Open(t.Context(), ben); err == nil || !strings.Contains(err.Error(), `"u-ana"`) {
			t.Errorf("ben has opened ana's store: %v", err)
			if err == nil {
				_ = c.Close()
			}
		}
		ana.start()
		ana.link.On()
		ana.through()
		w.wantsLog(ab, "from ana")
	})
}
