package blackbox

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// Retention removes old events: floor says how far, and everything goes on above it.
func TestRetentionRaisesTheFloor(t *testing.T) {
	w := onOwn(t, "IM_RETENTION=2s")
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	ana.sendMany(ab, "k", 3)
	deadline := time.Now().Add(bulk)
	var f rawclient.Frame
	for f = ana.want("synced", F{"t": "sync", "conv": ab, "after": 0}); f.Int("floor") < 3; f = ana.want("synced", F{"t": "sync", "conv": ab, "after": 0}) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v the events are still there: %s", bulk, f.Object)
		}
		<-time.After(200 * time.Millisecond)
	}
	if len(f.List("events")) != 0 || f.Int("head") != 3 || f.Int("through") != 3 || f.Bool("more") {
		t.Errorf("synced %s, want nothing, through 3", f.Object)
	}
	if again := ana.send(ab, "k1", "k1"); !again.Bool("dup") || again.Int("seq") != 1 {
		t.Errorf("a resend of what retention has removed: %s, want dup", again.Object)
	}
	ana.send(ab, "k4", "k4")
	f = ana.want("synced", F{"t": "sync", "conv": ab, "after": 0})
	if got := fmt.Sprint(rawclient.Seqs(f.List("events"))); got != "[4]" || f.Int("floor") != 3 || f.Int("through") != 4 {
		t.Errorf("synced %s, want only 4", f.Object)
	}
	f = ana.want("synced", F{"t": "sync", "conv": ab, "before": 5})
	if got := fmt.Sprint(rawclient.Seqs(f.List("events"))); got != "[4]" || f.Int("floor") != 3 || f.Bool("more") {
		t.Errorf("synced %s, want only 4 and no more", f.Object)
	}
	ana.want("synced", F{"t": "sync", "conv": ab, "after": 1, "after_mid": "cannot-be-compared"}) // at or below floor
	ben := w.login("ben", "phone", nil)
	if l := ben.lag(ab); l.Int("floor") != 3 || l.Int("head") != 4 {
		t.Errorf("subbed says %s, want floor 3 and head 4", l)
	}
	page := ben.pull(10).List("convs")[0]
	if got := fmt.Sprint(rawclient.Seqs(page.List("events"))); got != "[4]" || page.Int("floor") != 3 || page.Int("through") != 4 {
		t.Errorf("pulled %s, want only 4 through 4", page)
	}
	if c := ben.convsOf()[ab]; c.Int("floor") != 3 || c.Int("head") != 4 {
		t.Errorf("convs says %s, want floor 3 and head 4", c)
	}
}

// One user's budget: RATE_LIMITED says when to come back, and then the same frame is taken. Others do not pay for it.
func TestRateLimit(t *testing.T) {
	w := onOwn(t, "IM_RATE_SEND=5", "IM_RATE_SEND_BURST=5")
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	rids := map[string]string{}
	for i := range 20 {
		cmid := fmt.Sprint("k", i)
		rids[ana.post(F{"t": "send", "conv": ab, "cmid": cmid, "body": cmid})] = cmid
	}
	refused := map[string]rawclient.Frame{}
	for rid, cmid := range rids {
		if f := ana.reply(rid); f.T() == "error" {
			checkError(t, f.Object)
			if f.Str("code") != "RATE_LIMITED" {
				t.Fatalf("got %s, want RATE_LIMITED", f.Object)
			}
			refused[cmid] = f
		}
	}
	if len(refused) < 5 {
		t.Fatalf("%d of 20 sends at once were refused, the burst is 5", len(refused))
	}
	ben.send(ab, "his", "x")
	ana.alive()
	r := w.api("ana", "send", F{"conv_id": ab, "client_msg_id": "http", "text": "x"})
	for range 10 {
		if r.Status == 429 {
			break
		}
		r = w.api("ana", "send", F{"conv_id": ab, "client_msg_id": "http2", "text": "x"})
	}
	httpRefusal(t, "the same budget over HTTP", r, 429, "RATE_LIMITED")
	for cmid, f := range refused {
		<-time.After(time.Duration(f.Int("retry_after_ms")) * time.Millisecond)
		if f := ana.ask(F{"t": "send", "conv": ab, "cmid": cmid, "body": cmid}); f.T() != "sent" && f.Str("code") != "RATE_LIMITED" {
			t.Errorf("%s again: %s", cmid, f.Object)
		} else if f.T() == "sent" && f.Bool("dup") {
			t.Errorf("%s was stored although it was refused", cmid)
		}
		break // one is enough: the others would only take their time
	}
}

func TestMaxBodySetting(t *testing.T) {
	w := onOwn(t, "IM_MAX_BODY=100")
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	if got := ana.welcome.Obj("limits").Int("body"); got != 100 {
		t.Errorf("welcome says limits.body %d, IM_MAX_BODY is 100", got)
	}
	ana.send(ab, "k1", strings.Repeat("x", 100))
	ana.refuse("TOO_LARGE", F{"t": "send", "conv": ab, "cmid": "k2", "body": strings.Repeat("x", 101)})
	if r := w.api("ana", "send", F{"conv_id": ab, "client_msg_id": "k3", "text": strings.Repeat("x", 101)}); r.Status != 413 {
		t.Errorf("over HTTP: %s, want 413", r)
	}
}
