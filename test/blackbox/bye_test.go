package blackbox

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// bye waits for the farewell and the end of the connection, and demands code, final and the frame's shape.
func (c *client) bye(within time.Duration, code string, final bool) rawclient.Frame {
	c.t.Helper()
	f := c.awaitWithin(within, "bye "+code, 0, isT("bye"))
	shaped(c.t, f.Object, byeShape)
	if f.Str("code") != code || f.Bool("final") != final {
		c.t.Errorf("bye %s, want %s with final %v", f.Object, code, final)
	}
	c.ended(patience)
	return f
}

// A newer connection of the same device takes over; the older one is told so for good.
func TestSuperseded(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	for _, install := range []string{"i1", "i2"} { // the same install, and another
		older := w.login("ana", "phone", nil)
		older.want("subbed", F{"t": "sub"})
		newer := w.login("ana", "phone", F{"install": install})
		newer.want("subbed", F{"t": "sub"})
		older.bye(patience, "SUPERSEDED", true)
		sent := w.online("ben", "phone").send(ab, "k"+install, "for the newer one")
		newer.event(ab, sent.Int("seq"))
		newer.alive()
	}
	one, two := w.login("ana", "a", nil), w.login("ben", "a", nil) // the same device id of another user
	three := w.login("ana", "b", nil)
	for _, c := range []*client{one, two, three} {
		c.alive()
	}
}

// SIGTERM: a bye to every client, spread over time, and exit code 0 within 10 s.
func TestDrain(t *testing.T) {
	w := onOwn(t)
	ab := w.conv("ab", "ana", "ben")
	clients := []*client{w.dial()} // one has not even said hello
	for i := range 20 {
		clients = append(clients, w.online("ana", fmt.Sprint("d", i)))
	}
	ana := clients[1]
	rids := []string{}
	for i := range 50 {
		rids = append(rids, ana.post(F{"t": "send", "conv": ab, "cmid": fmt.Sprint("k", i), "body": "x"}))
	}
	ana.reply(rids[0])
	code, took := w.srv.Terminate(20 * time.Second)
	if code != 0 || took > 10*time.Second {
		t.Errorf("exit code %d after %v, want 0 within 10 s", code, took)
	}
	delays := map[int64]bool{}
	for _, c := range clients[1:] {
		f := c.bye(patience, "DRAIN", false)
		delays[f.Int("reconnect_after_ms")] = true
	}
	if len(delays) < 3 {
		t.Errorf("20 clients were told to return after %v: all together", delays)
	}
	clients[0].ended(patience)

	// What was answered is there; what was in flight is there or not, but never twice and never in another order.
	answered := map[int64]string{}
	for _, f := range ana.Frames() {
		if f.T() == "sent" {
			answered[f.Int("seq")] = f.Str("mid")
		}
	}
	w.srv.MustRestart(t)
	events, _ := w.login("ben", "phone", nil).log(ab, 0)
	for i, ev := range events {
		if ev.Seq != int64(i+1) || ev.CMID != fmt.Sprint("k", i) {
			t.Fatalf("seq %d is %+v", i+1, ev)
		}
		if mid, ok := answered[ev.Seq]; ok && mid != ev.Mid {
			t.Errorf("seq %d: sent said mid %s, the log has %s", ev.Seq, mid, ev.Mid)
		}
		delete(answered, ev.Seq)
	}
	if len(answered) > 0 {
		t.Errorf("sent, and then gone: %v", answered)
	}
}

// Ctrl-C drains as SIGTERM does.
func TestDrainBySIGINT(t *testing.T) {
	w := onOwn(t)
	c := w.online("ana", "phone")
	code, took := w.srv.EndBy(syscall.SIGINT, 20*time.Second)
	c.bye(patience, "DRAIN", false)
	if code != 0 || took > 10*time.Second {
		t.Errorf("exit code %d after %v, want 0 within 10 s", code, took)
	}
}

// A client that answers nothing, not even pings, is ended; one that only answers pings is not.
func TestIdle(t *testing.T) {
	w := onOwn(t, "IM_HEARTBEAT_MS=2000")
	began := time.Now()
	mute := w.dialAt(w.srv.Addr(), rawclient.DialOptions{IgnorePings: true})
	mute.user, mute.device = w.user("ana"), "mute"
	heartbeat := time.Duration(mute.want("welcome", w.hello("ana", "mute", nil)).Obj("limits").Int("heartbeat_ms")) * time.Millisecond
	silent := w.online("ana", "silent")
	if heartbeat != 2*time.Second {
		t.Fatalf("welcome says the heartbeat is %v, IM_HEARTBEAT_MS is 2000", heartbeat)
	}
	mute.bye(4*heartbeat+patience, "IDLE", false)
	if took := time.Since(began); took < heartbeat/2 {
		t.Errorf("IDLE after %v, the heartbeat is %v", took, heartbeat)
	}
	silent.alive()
}
