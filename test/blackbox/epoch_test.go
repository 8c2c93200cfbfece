package blackbox

import (
	"fmt"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/rawclient"
)

func isHint(why string) func(rawclient.Frame) bool {
	return func(f rawclient.Frame) bool { return f.T() == "hint" && f.Str("why") == why }
}

// The whole life of an epoch change: the hint on live connections, refusals of the old epoch, cursors that start anew,
// dedup that goes on, and the way a client comes back by mids.
func TestEpochRaised(t *testing.T) {
	w := onOwn(t)
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	if ana.welcome.Int("epoch") != 1 {
		t.Errorf("a new store has epoch %d, want 1", ana.welcome.Int("epoch"))
	}
	ana.sendMany(ab, "k", 5)
	mid := ana.want("synced", F{"t": "sync", "conv": ab, "after": 2, "limit": 1}).List("events")[0].Str("mid")
	for _, c := range []*client{ana, ben} {
		c.ack(ab, 5)
		c.want("readed", F{"t": "read", "conv": ab, "seq": 4})
	}

	// A database's clock is not ours to the millisecond.
	before := time.Now().Add(-time.Second).UnixMilli()
	w.srv.Admin(t, "POST", "epoch", nil)
	epoch := int64(0)
	for _, c := range []*client{ana, ben} {
		f := c.await("hint resume", 0, isHint("resume"))
		shaped(t, f.Object, hintShape)
		if epoch = f.Int("epoch"); f.Has("conv") || epoch < before || epoch > time.Now().Add(time.Second).UnixMilli() {
			t.Errorf("hint %s, want no conv and an epoch of now in Unix milliseconds", f.Object)
		}
	}
	for _, frame := range []F{
		{"t": "ack", "conv": ab, "seq": 5}, {"t": "sync", "conv": ab, "after": 5}, {"t": "read", "conv": ab, "seq": 5},
		{"t": "send", "conv": ab, "cmid": "k9", "body": "x"}, recall(ab, 5, "r"),
	} {
		frame["epoch"] = 1
		if f := ana.refuse("EPOCH_CHANGED", frame); f.Int("epoch") != epoch {
			t.Errorf("%v: %s, want epoch %d", frame["t"], f.Object, epoch)
		}
	}
	if c := ana.convsOf()[ab]; c.Int("delivered") != 0 || c.Int("read") != 0 {
		t.Errorf("%s: cursors of the older epoch still count", c)
	}
	if f := ana.send(ab, "k3", "k3"); !f.Bool("dup") || f.Int("seq") != 3 || f.Int("epoch") != epoch {
		t.Errorf("a resend after the change: %s, want dup and the new epoch", f.Object)
	}

	ana.want("synced", F{"t": "sync", "conv": ab, "after": 3, "after_mid": mid, "epoch": epoch})
	ana.refuse("EPOCH_CHANGED", F{"t": "sync", "conv": ab, "after": 4, "after_mid": mid, "epoch": epoch})
	if f := ana.want("acked", F{"t": "ack", "conv": ab, "seq": 3, "epoch": epoch}); f.Int("delivered") != 3 {
		t.Errorf("acked %s, want 3", f.Object)
	}
	if got := fmt.Sprint(rawclient.Seqs(ana.pull(10).List("convs")[0].List("events"))); got != "[4 5]" {
		t.Errorf("pulled %s, want 4 and 5", got)
	}
	again := w.login("ben", "phone", nil)
	if again.welcome.Int("epoch") != epoch || again.welcome.Int("install_epoch") != 1 || again.lag(ab).Int("delivered") != 0 {
		t.Errorf("welcome %s, want the new epoch, the same install and delivered 0", again.welcome.Object)
	}

	w.srv.Admin(t, "POST", "epoch", nil)
	f := ana.await("the second hint", 0, func(f rawclient.Frame) bool { return isHint("resume")(f) && f.Int("epoch") > epoch })
	w.srv.Kill()
	w.srv.MustRestart(t)
	if got := w.login("ana", "phone", nil).welcome.Int("epoch"); got != f.Int("epoch") {
		t.Errorf("epoch %d after a restart, want %d", got, f.Int("epoch"))
	}
}

// Over HTTP the epoch is compared too.
func TestEpochOverHTTP(t *testing.T) {
	w := onOwn(t)
	ab := w.conv("ab", "ana", "ben")
	w.online("ana", "phone").sendMany(ab, "k", 2)
	w.srv.Admin(t, "POST", "epoch", nil)
	r := w.api("ana", "ack", F{"conv": ab, "seq": 2, "epoch": 1})
	if r.Status != 409 || r.JSON.Str("code") != "EPOCH_CHANGED" {
		t.Fatalf("ack of the old epoch: %s, want 409 EPOCH_CHANGED", r)
	}
	if now := r.JSON.Int("epoch"); now < 2 {
		t.Errorf("%s carries no epoch", r)
	} else if r := w.api("ana", "ack", F{"conv": ab, "seq": 2, "epoch": now}); r.Status != 200 {
		t.Errorf("ack of the new epoch: %s", r)
	}
}
