package gateway

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobwas/ws"

	"github.com/impart-im/impart"
)

// writes sends frames in the background, and says how many the server has read.
func (cl *client) writes(texts ...string) (read func() int) {
	n := 0
	go func() {
		for _, text := range texts {
			if ws.WriteFrame(cl.nc, ws.MaskFrame(ws.NewTextFrame([]byte(text)))) != nil {
				return
			}
			cl.set(func(*client) { n++ })
		}
	}()
	return func() int {
		synctest.Wait()
		cl.mu.Lock()
		defer cl.mu.Unlock()
		return n
	}
}

// Before its hello is answered, a stranger costs one message of bounded size.
func TestAStrangerCostsLittle(t *testing.T) {
	verify := func(ctx context.Context, token string) (impart.Identity, error) {
		time.Sleep(time.Second)
		return devToken(ctx, token)
	}
	inWorld(t, func(c *Config) { c.Verify = verify }, func(w *world) {
		cl := w.dial()
		read := cl.writes(`{"t":"hello","token":"dev:u-ana","device":"d","proto":1}`, `{"t":"ping","rid":"1"}`, `{"t":"ping","rid":"2"}`)
		if n := read(); n > 1 {
			t.Errorf("%d messages were read", n)
		}
		time.Sleep(time.Second)
		cl.wants("welcome", "pong", "pong")
		large := w.dial()
		large.writes(`{"t":"hello","token":"` + strings.Repeat("x", maxGreeting) + `"}`)
		<-large.done
		if large.status != ws.StatusMessageTooBig {
			t.Errorf("closed with %d", large.status)
		}
	})
}

// Requests that wait are bounded in bytes too, and their room comes back.
func TestWaitingBytesStopReading(t *testing.T) {
	inBetween(t, func(c *Config) { c.MaxFrame = 2048 }, func(w *world, b *between) {
		ana := w.connect("u-ana", "d")
		turns := make(chan struct{})
		b.send.set(func() { <-turns })
		var sends []string
		for i := range 20 {
			sends = append(sends, fmt.Sprintf(`{"t":"send","rid":"r","conv":"c-ab","cmid":"m%d","body":"%s"}`, i, strings.Repeat("x", 1200)))
		}
		if n := ana.writes(sends...)(); n != 2 {
			t.Errorf("%d requests were read", n)
		}
		close(turns)
		if sent := ana.only("sent"); len(sent) != len(sends) {
			t.Errorf("%d of %d were sent", len(sent), len(sends))
		}
	})
}

// A client whose socket is not read is not silent, neither while that lasts nor
// right after.
func TestAPausedConnectionIsNotIdle(t *testing.T) {
	inBetween(t, func(c *Config) { c.MaxInflight, c.RequestTime = 1, time.Hour }, func(w *world, b *between) {
		ana := w.connect("u-ana", "d")
		ana.set(func(cl *client) { cl.mute = true })
		b.send.set(func() { time.Sleep(10 * w.g.cfg.Heartbeat) })
		ana.send(`{"t":"send","rid":"r","conv":"c-ab","cmid":"m1","body":"x"}`)
		_, err := w.logic.PutMember(w.t.Context(), "c-ab", impart.Member{User: "u-cleo"})
		must(w.t, err)
		time.Sleep(9 * w.g.cfg.Heartbeat)
		ana.wants("event") // and neither retries nor hints: an ack may be waiting in the socket
		time.Sleep(5 * w.g.cfg.Heartbeat / 2)
		if frames := ana.take(); frames[0].t() != "sent" || frames[len(frames)-1].t() == "bye" {
			t.Errorf("got %v", frames)
		}
	})
}

func TestAFloodOfPingsIsClosed(t *testing.T) {
	inWorld(t, func(c *Config) { c.MaxRate = 10 }, func(w *world) {
		ana := w.connect("u-ana", "d")
		go func() {
			for range 100 {
				if ws.WriteFrame(ana.nc, ws.MaskFrame(ws.NewPingFrame(nil))) != nil {
					return
				}
			}
		}()
		<-ana.done
		if ana.status != ws.StatusPolicyViolation {
			t.Errorf("closed with %d", ana.status)
		}
	})
}
