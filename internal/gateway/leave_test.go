package gateway

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobwas/ws"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
)

// set changes how the client behaves from now on.
func (cl *client) set(change func(cl *client)) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	change(cl)
}

// closedWithin wants the server to close the socket within d, and says after how
// long it did.
func (cl *client) closedWithin(d time.Duration) time.Duration {
	cl.w.t.Helper()
	start := time.Now()
	select {
	case <-cl.done:
	case <-time.After(d):
		cl.w.t.Fatalf("the connection is still there after %v", d)
	}
	synctest.Wait()
	if n := cl.w.g.Connections(); n != 0 {
		cl.w.t.Errorf("%d connections are counted", n)
	}
	return time.Since(start)
}

// A client that sends its close frame waits for the server to close the socket
// (RFC 6455, 7.1.1), and does not wait for nothing.
func TestAClientsGoodbyeIsAnsweredAtOnce(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		ana := w.connect("u-ana", "d")
		ana.set(func(cl *client) { cl.rude = true })
		ana.write(ws.NewCloseFrame(ws.NewCloseFrameBody(ws.StatusNormalClosure, "")))
		if waited := ana.closedWithin(time.Minute); waited > 0 {
			t.Errorf("the socket was closed after %v", waited)
		}
		if ana.status != ws.StatusNormalClosure {
			t.Errorf("closed with %d", ana.status)
		}
	})
}

// So does one that answers the server's.
func TestAnAnsweredGoodbyeIsOver(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		ben := w.connect("u-ben", "d")
		ben.set(func(cl *client) { cl.rude = true })
		w.g.revoke("u-ben", 0)
		ben.wants("bye")
		ben.write(ws.NewCloseFrame(ws.NewCloseFrameBody(ws.StatusCode(4000), "")))
		if waited := ben.closedWithin(time.Minute); waited > 0 {
			t.Errorf("the socket was closed after %v", waited)
		}
	})
}

// Whatever a client does or fails to do, a revoked one is gone in seconds.
func TestARevokedClientCannotStay(t *testing.T) {
	for name, behave := range map[string]func(cl *client){
		"answers nothing": func(*client) {},
		"keeps sending": func(cl *client) {
			go func() {
				ping := ws.MaskFrame(ws.NewTextFrame([]byte(`{"t":"ping"}`)))
				for ws.WriteFrame(cl.nc, ping) == nil {
					time.Sleep(time.Second)
				}
			}()
		},
		"is in the middle of a message": func(cl *client) { _, _ = cl.nc.Write(partOfMessage) },
		"begins one when all is said":   func(cl *client) { time.AfterFunc(time.Second, func() { _, _ = cl.nc.Write(partOfMessage) }) },
		"ends one and begins another one": func(cl *client) {
			time.AfterFunc(time.Second, func() { cl.send(`{}`); _, _ = cl.nc.Write(partOfMessage) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, nil, func(w *world) {
				ben := w.connect("u-ben", "d")
				ben.set(func(cl *client) { cl.rude = true })
				behave(ben)
				w.g.revoke("u-ben", 0)
				ben.closedWithin(lingerTime + time.Millisecond)
				time.Sleep(5 * time.Second) // whatever the client still tries
			})
		})
	}
}

// partOfMessage claims 100 KiB and has ten bytes.
var partOfMessage = []byte{0x81, 0xff, 0, 0, 0, 0, 0, 1, 0x90, 0, 0, 0, 0, 0, 'x', 'x', 'x', 'x', 'x', 'x', 'x', 'x', 'x', 'x'}

// Before the hello and after it, a message that does not come to its end costs a
// bounded time.
func TestAMessageMustArriveInTime(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		stranger := w.dial()
		_, err := stranger.nc.Write([]byte{0x81, 0xfe, 0x10, 0, 0, 0, 0, 0, 'x'})
		must(t, err)
		stranger.closedWithin(w.g.cfg.HelloTime + time.Second)
		if stranger.status != unauthenticatedStatus {
			t.Errorf("closed with %d", stranger.status)
		}
		ana := w.connect("u-ana", "d")
		_, err = ana.nc.Write(partOfMessage)
		must(t, err)
		ana.closedWithin(messageTime + time.Second)
		if ana.status != ws.StatusPolicyViolation {
			t.Errorf("closed with %d", ana.status)
		}
		ben := w.connect("u-ben", "d")
		ben.send(`{"t":"ping","rid":"%0600d"}`, 7) // more than one buffer: the message has a deadline of its own
		ben.wants("error")
		time.Sleep(2 * messageTime) // and it ends with the message
		ben.wants()
	})
}

// A message that is too large is refused with 1009, also to a client that first
// writes all of it.
func TestATooLargeMessageIsReadToItsEnd(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		ana := w.connect("u-ana", "d")
		if err := ws.WriteFrame(ana.nc, ws.MaskFrame(ws.NewTextFrame(make([]byte, maxMessage+1)))); err != nil {
			t.Errorf("the socket was closed on the client: %v", err)
		}
		ana.closedWithin(leaveTime)
		if ana.status != ws.StatusMessageTooBig {
			t.Errorf("closed with %d", ana.status)
		}
	})
}

// Requests that were read before a takeover do not come to life after it: a
// second hello among them would take the device back.
func TestNothingIsDoneForASupersededConnection(t *testing.T) {
	inBetween(t, nil, func(w *world, b *between) {
		turns := make(chan struct{})
		b.send.set(func() { <-turns })
		older := w.connect("u-ana", "d")
		older.send(`{"t":"send","rid":"1","conv":"c-ab","cmid":"m1","body":"x"}`)
		synctest.Wait()
		older.send(`{"t":"send","rid":"2","conv":"c-ab","cmid":"m2","body":"x"}`)
		older.send(`{"t":"hello","rid":"3","token":"dev:u-ana","device":"d","proto":1}`)
		turns <- struct{}{} // the next two are handled together
		synctest.Wait()
		newer := w.connect("u-ana", "d")
		close(turns)
		older.take()
		<-older.done
		time.Sleep(10 * time.Second)
		if byes := newer.only("bye"); len(byes) > 0 {
			t.Errorf("the newer connection got %v", byes)
		}
	})
}

// A handshake that was under way when the drain began does not hold it up.
func TestNobodyComesInDuringADrain(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		must(t, w.g.Drain(w.t.Context()))
		server, nc := net.Pipe()
		defer func() { _, _ = server.Close(), nc.Close() }()
		if w.g.start(server, nil) {
			t.Error("a connection came in")
		}
	})
}

// A client that does not read its answers is waited for as long as the drain
// may take, and the others have their bye long before.
func TestADrainIsNotHeldUpByOne(t *testing.T) {
	inWorld(t, func(c *Config) { c.Sweep = time.Hour }, func(w *world) {
		ana, ben := w.connect("u-ana", "d"), w.connect("u-ben", "d")
		w.store.OnCommit(func() error { time.Sleep(10 * time.Second); return nil }, nil)
		ana.send(`{"t":"send","rid":"r","conv":"c-ab","cmid":"m1","body":"x"}`)
		drained := make(chan error)
		go func() { drained <- w.g.Drain(w.t.Context()) }()
		if f := ben.wants("bye"); f["code"] != "DRAIN" {
			t.Errorf("bye = %v", f)
		}
		must(t, <-drained)
		ana.wants("sent", "bye")
	})
}

// counted is the value of a counter.
func counted(t *testing.T, registry *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := registry.Gather()
	must(t, err)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func TestAGoodbyeIsCountedOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	inWorld(t, func(c *Config) { c.Metrics = registry }, func(w *world) {
		ben, stranger := w.connect("u-ben", "d"), w.dial()
		ben.set(func(cl *client) { cl.rude = true })
		for range 3 {
			w.g.hear(bus.Message{Kind: bus.Revoked, User: "u-ben"})
		}
		stranger.send(`{"t":"sub"}`)
		synctest.Wait()
		if n := counted(t, registry, "im_bye_total", "REVOKED"); n != 1 {
			t.Errorf("%v goodbyes are counted", n)
		}
		if n := counted(t, registry, "im_error_total", string(impart.Unauthenticated)); n != 1 {
			t.Errorf("%v refusals are counted", n)
		}
	})
}

// One who reads nothing, or too slowly, does not stay longer.
func TestARevokedClientMustRead(t *testing.T) {
	for _, c := range []struct {
		name  string
		every time.Duration // one byte
		stays time.Duration
	}{{"nothing", time.Hour, leaveTime}, {"slowly", time.Second / 2, lingerTime}} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, nil, func(w *world) {
				ben := w.stuck("u-ben", c.every)
				ben.send(`{"t":"ping","rid":"1"}`)
				time.Sleep(time.Millisecond) // the server is in the middle of writing the pong
				w.g.revoke("u-ben", 0)
				time.Sleep(c.stays + time.Second)
				if w.g.Connections() != 0 {
					t.Error("the connection is still there")
				}
			})
		})
	}
}

// stuck connects and from then on reads a byte now and then.
func (w *world) stuck(user string, every time.Duration) *client {
	w.t.Helper()
	cl := w.connect(user, "d")
	<-cl.gate // one frame more is read as a whole
	cl.send(`{"t":"ping","rid":"0"}`)
	cl.wants("pong")
	stop := make(chan struct{})
	w.t.Cleanup(func() { close(stop); cl.gate <- struct{}{} })
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(every):
			}
			if _, err := cl.nc.Read(make([]byte, 1)); err != nil {
				return
			}
		}
	}()
	return cl
}

// A socket that takes no byte for a minute is given up; a slow one is not.
func TestASlowReaderIsNoDeadOne(t *testing.T) {
	for every, stays := range map[time.Duration]bool{stallTime - time.Second: true, time.Hour: false} {
		inWorld(t, func(c *Config) { c.Heartbeat = time.Hour }, func(w *world) {
			ben := w.stuck("u-ben", every)
			ben.send(`{"t":"ping","rid":"1"}`)
			time.Sleep(5 * stallTime)
			if there := w.g.Connections() == 1; there != stays {
				t.Errorf("one byte in %v: still there is %v", every, there)
			}
		})
	}
}

func TestNothingIsOwedToAConnectionThatEnded(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		ana, ben := w.connect("u-ana", "d"), w.connect("u-ben", "d")
		owed := func(want int, when string) {
			t.Helper()
			synctest.Wait()
			if n, err := w.g.cfg.Pending.Len(w.t.Context()); n != want || err != nil {
				t.Errorf("%s: %d flows are pending, want %d: %v", when, n, want, err)
			}
		}
		ana.says("c-ab", "m1", "hi")
		owed(2, "sent")
		ben.acks("c-ab", 1)
		owed(1, "acknowledged by one")
		ana.says("c-ab", "m2", "hi")
		owed(2, "sent again")
		_, _ = ben.nc.Close(), ana.nc.Close()
		owed(0, "gone")
	})
}

// What is sent during a drain is not read, so that the client knows that it was
// not handled.
func TestADrainReadsNoMoreRequests(t *testing.T) {
	inBetween(t, nil, func(w *world, b *between) {
		ana := w.connect("u-ana", "d")
		turns := make(chan struct{})
		b.send.set(func() { <-turns })
		ana.send(`{"t":"send","rid":"r","conv":"c-ab","cmid":"m1","body":"x"}`)
		drained := make(chan error)
		go func() { drained <- w.g.Drain(w.t.Context()) }()
		synctest.Wait()
		read := ana.writes(`{"t":"ping"}`, `{"t":"ping"}`, `{"t":"ping"}`)
		if n := read(); n > 1 { // the reader was waiting for one
			t.Errorf("%d requests were read", n)
		}
		close(turns)
		must(w.t, <-drained)
	})
}

// A drain ends when its time is up.
func TestADrainHasAnEnd(t *testing.T) {
	inBetween(t, nil, func(w *world, b *between) {
		ana := w.connect("u-ana", "d")
		b.send.set(func() { time.Sleep(10 * time.Second) })
		ana.send(`{"t":"send","rid":"r","conv":"c-ab","cmid":"m1","body":"x"}`)
		synctest.Wait() // until it is in flight
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := w.g.Drain(ctx); err == nil || time.Since(start) > time.Second {
			t.Errorf("drained in %v: %v", time.Since(start), err)
		}
	})
}
