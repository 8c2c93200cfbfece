package client_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
	"github.com/impart-im/impart/internal/gateway"
	"github.com/impart-im/impart/internal/lab/world"
)

// Case 42: clients that lost one server at one moment come back spread out.
func TestReconnectsAreSpread(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		const many = 200
		var returns []time.Duration
		crashed := time.Now()
		apps := make([]*app, many)
		for i := range apps {
			apps[i] = w.app("ana", func(cfg *client.Config) {
				cfg.Store = ""
				cfg.Device = impart.DeviceID(newDevice(i))
			})
		}
		for _, a := range apps {
			a.online()
			a.link.Rule(func(f world.Frame) world.Fate {
				if f.T == "hello" {
					returns = append(returns, time.Since(crashed))
				}
				return world.Pass
			})
		}
		time.Sleep(time.Minute) // so that the limit of the back-off is at its start
		crashed = time.Now()
		w.Crash()
		must(t, w.Restart())
		for _, a := range apps {
			a.entered(1)
		}
		time.Sleep(time.Minute)
		for _, a := range apps {
			a.link.Seen()
		}
		if len(returns) != many {
			t.Fatalf("%d hellos of %d clients", len(returns), many)
		}
		slices.Sort(returns)
		first, last := returns[many/10], returns[many*9/10]
		if last-first < 300*time.Millisecond || last > time.Second {
			t.Errorf("the middle four fifths came back within %v to %v", first, last)
		}
	})
}

func newDevice(i int) string { return "d-" + string(rune('a'+i/26)) + string(rune('a'+i%26)) }

func TestTheBackoffGrowsAndStartsAnewAfterAStableConnection(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana := w.app("ana")
		ana.online()
		dials := func(d time.Duration) int {
			before := ana.link.Dials()
			time.Sleep(d)
			return ana.link.Dials() - before
		}
		ana.link.Off()
		first := dials(10 * time.Second)
		later := dials(10 * time.Minute)
		if first < 4 || later > 80 || later < 25 {
			t.Errorf("%d attempts in the first 10 s, %d in the 10 min after; wanted fewer and fewer, and one in 15 s at the end", first, later)
		}
		// A connection that ends at once is not stable: the limit stays.
		ana.link.Rule(func(f world.Frame) world.Fate {
			if f.T == "subbed" {
				return world.CutAfter
			}
			return world.Pass
		})
		ana.link.On()
		if n := dials(5 * time.Minute); n > 40 {
			t.Errorf("%d attempts in 5 min against a server that drops its clients at once", n)
		}
		ana.link.Rule(nil)
		ana.online()
		time.Sleep(time.Minute)
		ana.link.Off()
		if n := dials(10 * time.Second); n < 4 {
			t.Errorf("%d attempts in 10 s after a stable connection", n)
		}
	})
}

func TestReconnectDoesNotWait(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana := w.app("ana")
		ana.link.Off()
		time.Sleep(10 * time.Minute)
		ana.link.On()
		began := time.Now()
		ana.Reconnect()
		ana.online()
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

func TestADrainIsFollowedByAReturn(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		var seen []client.Status
		ana := w.app("ana", func(cfg *client.Config) {
			cfg.Handler.Status = func(s client.Status) { seen = append(seen, s) }
		})
		ana.online()
		must(t, w.Shutdown())
		must(t, w.Restart())
		ana.send(ab, "hi")
		ana.through()
		var bye *client.Bye
		if !slices.ContainsFunc(seen, func(s client.Status) bool {
			return s.State == client.Waiting && errors.As(s.Err, &bye) && bye.Code == "DRAIN" && !s.RetryAt.IsZero()
		}) {
			t.Errorf("the states were %+v", seen)
		}
	})
}

func TestTheTokenIsAskedForBeforeEachConnection(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		tokens := []string{"dev:u-ana", "expired", "", "dev:u-ana"}
		asked := 0
		var seen []client.Status
		ana := w.app("ana", func(cfg *client.Config) {
			cfg.Token = func(context.Context) (string, error) {
				token := tokens[min(asked, len(tokens)-1)]
				asked++
				if token == "" {
					return "", errors.New("the login service is down")
				}
				return token, nil
			}
			cfg.Handler.Status = func(s client.Status) { seen = append(seen, s) }
		})
		ana.online()
		ana.link.Cut()
		ana.send(ab, "hi")
		ana.through()
		if asked != 4 {
			t.Errorf("asked %d times", asked)
		}
		if !slices.ContainsFunc(seen, func(s client.Status) bool { return codeOf(s.Err) == impart.Unauthenticated }) {
			t.Errorf("the application was not told that the token is refused: %+v", seen)
		}
	})
}

func TestAnotherUsersTokenIsRefusedByTheStore(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana := w.app("ana")
		ana.online()
		ana.stop()
		ana.cfg.Token = client.StaticToken("dev:u-ben")
		ana.start()
		time.Sleep(time.Minute)
		if s := ana.Status(); s.State != client.Stopped || s.Err == nil {
			t.Errorf("the status is %+v", s)
		}
	})
}

// Case 26: a black hole, without a FIN, just before a send.
func TestABlackHoleIsNoticed(t *testing.T) {
	for _, gone := range []time.Duration{5 * time.Second, 70 * time.Second, 10 * time.Minute} {
		t.Run(gone.String(), func(t *testing.T) {
			story(t, func(t *testing.T, w *server) {
				ana, ben := w.app("ana"), w.app("ben")
				ana.online()
				ben.online()
				hole := func(world.Frame) world.Fate { return world.Drop }
				ana.link.Rule(hole)
				ben.link.Rule(hole)
				ana.send(ab, "hi")
				time.Sleep(gone)
				ana.link.Rule(nil)
				ben.link.Rule(nil)
				ana.through()
				w.wantsLog(ab, "hi")
				ben.wants(ab, "hi")
			})
		})
	}
}

func TestAnIdleConnectionStaysAndADeadOneGoes(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana := w.app("ana")
		ana.online()
		pings := 0
		ana.link.Rule(func(f world.Frame) world.Fate {
			if f.T == "ping" {
				pings++
			}
			return world.Pass
		})
		time.Sleep(time.Hour)
		if dials := ana.link.Dials(); dials != 1 {
			t.Errorf("%d dials in a quiet hour", dials)
		}
		ana.link.Seen()
		if pings > 0 {
			t.Errorf("%d pings of its own, though the server's show that it lives", pings)
		}
		ana.link.Rule(func(world.Frame) world.Fate { return world.Drop })
		time.Sleep(2 * time.Minute)
		if ana.Status().State == client.Online {
			t.Error("a dead connection still counts as online after two minutes")
		}
	})
}

func TestAFullServerIsReturnedToWhenItSays(t *testing.T) {
	storyWith(t, world.Options{Gateway: func(cfg *gateway.Config) { cfg.MaxConns = 1 }}, func(t *testing.T, w *server) {
		ana := w.app("ana")
		ana.online()
		began := time.Now()
		ben := w.app("ben")
		for ben.link.Dials() < 2 {
			time.Sleep(10 * time.Millisecond)
		}
		if waited := time.Since(began); waited < 5*time.Second || waited > 6*time.Second {
			t.Errorf("the second attempt came after %v, at a server that asks for 5 s", waited)
		}
		ana.link.Off()
		ben.online()
	})
}

func TestCloseIsPromptAndFinal(t *testing.T) {
	story(t, func(t *testing.T, w *server) {
		ana := w.app("ana")
		ana.online()
		ana.link.Rule(func(world.Frame) world.Fate { return world.Drop })
		ana.send(ab, "hi")
		began := time.Now()
		ana.stop()
		if took := time.Since(began); took > time.Second {
			t.Errorf("Close took %v", took)
		}
		must(t, ana.Close())
		if _, err := ana.Send(t.Context(), client.Draft{Conv: ab, Body: "x"}); err != client.ErrClosed {
			t.Errorf("Send after Close: %v", err)
		}
		for name, err := range map[string]error{
			"WaitOnline":  ana.WaitOnline(t.Context()),
			"WaitSettled": ana.WaitSettled(t.Context()),
			"Dismiss":     ana.Dismiss(t.Context(), "x"),
			"Read":        ana.Read(t.Context(), ab, 0),
			"Who":         second(ana.Who(t.Context(), ab, 1, "")),
			"Events":      second(ana.Events(t.Context(), ab, 0, 1)),
			"Outbox":      second(ana.Outbox(t.Context())),
			"Recall":      second(ana.Recall(t.Context(), ab, 1)),
		} {
			if !errors.Is(err, client.ErrClosed) {
				t.Errorf("%s after Close: %v", name, err)
			}
		}
		ana.start()
	})
}

func second[T any](_ T, err error) error { return err }

func TestOpenSaysWhatIsWrong(t *testing.T) {
	good := client.Config{URL: world.URL, Device: "d", Token: client.StaticToken("x")}
	for name, set := range map[string]func(*client.Config){
		"no address":       func(cfg *client.Config) { cfg.URL = "" },
		"odd scheme":       func(cfg *client.Config) { cfg.URL = "ftp://host" },
		"password in it":   func(cfg *client.Config) { cfg.URL = "http://a:b@host" },
		"no device":        func(cfg *client.Config) { cfg.Device = "" },
		"no token":         func(cfg *client.Config) { cfg.Token = nil },
		"negative history": func(cfg *client.Config) { n := int64(-1); cfg.History = &n },
		"negative time":    func(cfg *client.Config) { cfg.AckDelay = -1 },
		"backoff":          func(cfg *client.Config) { cfg.MinBackoff, cfg.MaxBackoff = time.Minute, time.Second },
		"a folder":         func(cfg *client.Config) { cfg.Store = t.TempDir() },
	} {
		cfg := good
		set(&cfg)
		if c, err := client.Open(t.Context(), cfg); err == nil {
			t.Errorf("%s is taken", name)
			_ = c.Close()
		}
	}
}

func TestAStoreIsForOneClientOfOneDevice(t *testing.T) {
	cfg := client.Config{URL: "http://127.0.0.1:1", Device: "d", Token: client.StaticToken("x"), Store: t.TempDir() + "/a b?#%.db"}
	c, err := client.Open(t.Context(), cfg)
	must(t, err)
	if mode, sync := c.Pragma("journal_mode"), c.Pragma("synchronous"); mode != "wal" || sync != "2" {
		t.Errorf("the store is in mode %s with synchronous=%s: a commit is not a flush", mode, sync)
	}
	if other, err := client.Open(t.Context(), cfg); err == nil {
		t.Error("two clients have one store")
		_ = other.Close()
	}
	must(t, c.Close())
	cfg.Device = "d-other"
	if other, err := client.Open(t.Context(), cfg); err == nil {
		t.Error("a store serves two devices")
		_ = other.Close()
	}
	cfg.Device = "d"
	c, err = client.Open(t.Context(), cfg)
	must(t, err)
	must(t, c.Close())
}

// A process that was killed leaves a write-ahead log beside its store.
func TestAStoreIsReadAfterAKill(t *testing.T) {
	cfg := client.Config{URL: "http://127.0.0.1:1", Device: "d", Token: client.StaticToken("x"), Store: t.TempDir() + "/store.db"}
	c, err := client.Open(t.Context(), cfg)
	must(t, err)
	defer c.Close()
	_, err = c.Send(t.Context(), client.Draft{Conv: ab, Body: "hi"})
	must(t, err)
	killed := cfg
	killed.Store = t.TempDir() + "/killed.db"
	for _, side := range []string{"", "-wal"} {
		data, err := os.ReadFile(cfg.Store + side)
		must(t, err)
		must(t, os.WriteFile(killed.Store+side, data, 0o600))
	}
	after, err := client.Open(t.Context(), killed)
	must(t, err)
	list, err := after.Outbox(t.Context())
	must(t, err)
	if len(list) != 1 || list[0].Body != "hi" {
		t.Errorf("the outbox is %+v", list)
	}
	must(t, after.Close())
}
