package blackbox

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// lag is what subbed says of one conversation; nil when the device does not lag there.
func (c *client) lag(conv string) rawclient.Object {
	c.t.Helper()
	for _, o := range c.want("subbed", F{"t": "sub"}).List("convs") {
		if o.Str("conv") == conv {
			return o
		}
	}
	return nil
}

// A new install means the store was lost: the install epoch rises and the device starts anew.
func TestANewInstallStartsAnew(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	ana.sendMany(ab, "k", 5)
	ana.ack(ab, 5)
	if again := w.login("ana", "phone", nil); again.welcome.Int("install_epoch") != 1 || again.lag(ab) != nil {
		t.Errorf("the same install: %s, want install epoch 1 and nothing lacking", again.welcome.Object)
	}
	fresh := w.login("ana", "phone", F{"install": "i2", "n": 9})
	if fresh.welcome.Int("install_epoch") != 2 || fresh.welcome.Int("n") != 9 {
		t.Errorf("welcome %s, want install epoch 2 and n 9", fresh.welcome.Object)
	}
	if l := fresh.lag(ab); l.Int("delivered") != 0 || l.Int("head") != 5 {
		t.Errorf("lag %s, want delivered 0", l)
	}
	if page := fresh.pull(10).List("convs")[0]; len(page.List("events")) != 5 {
		t.Errorf("pulled %s, want all five", page)
	}
	// The first install again is a new value for this device, not a way back to its cursor.
	back := w.login("ana", "phone", nil)
	if back.welcome.Int("install_epoch") != 3 || back.lag(ab).Int("delivered") != 0 {
		t.Errorf("welcome %s, want install epoch 3 and a fresh start", back.welcome.Object)
	}
	if other := w.login("ana", "tablet", nil); other.welcome.Int("install_epoch") != 1 {
		t.Errorf("another device has install epoch %d, want 1", other.welcome.Int("install_epoch"))
	}
}

// A lower n than the server has seen comes from a store that was rolled back: a new install, with the hello's n.
func TestARolledBackStoreIsANewInstall(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.login("ana", "phone", F{"n": 3})
	ana.sendMany(ab, "k", 4)
	ana.want("acked", F{"t": "ack", "conv": ab, "seq": 4, "n": 8})
	steps := []struct {
		n                any
		install, welcome int64
		lags             bool
	}{
		{8, 1, 8, false},   // as the last ack said
		{nil, 1, 8, false}, // no comparison
		{12, 1, 12, false}, // writes that no ack has told of yet
		{11, 2, 11, true},  // rolled back
		{11, 2, 11, true},  // that store again: still lagging, no further install
		{4, 3, 4, true},    // an even older one
	}
	for i, s := range steps {
		c := w.login("ana", "phone", F{"n": s.n})
		if got := c.welcome; got.Int("install_epoch") != s.install || got.Int("n") != s.welcome {
			t.Errorf("step %d, n %v: %s, want install epoch %d and n %d", i, s.n, got.Object, s.install, s.welcome)
		}
		if lags := c.lag(ab) != nil; lags != s.lags {
			t.Errorf("step %d, n %v: lags %v, want %v", i, s.n, lags, s.lags)
		}
	}
	// A client told so acks what its store holds before it pulls.
	c := w.login("ana", "phone", F{"n": 4})
	c.ack(ab, 3)
	if page := c.pull(10).List("convs")[0]; fmt.Sprint(rawclient.Seqs(page.List("events"))) != "[4]" {
		t.Errorf("pulled %s, want only 4", page)
	}
}

// An ack races the hello of the same device on a newer connection, whose store is a backup from before the write that
// the ack reports. Either the ack comes first, and the hello with its lower n is a new install; or it comes second, and
// counts for nothing.
func TestAnAckOfAnOlderConnectionMovesNothing(t *testing.T) {
	w := onShared(t)
	ab, other := w.conv("ab", "ana", "ben"), w.conv("other", "ben")
	ben := w.online("ben", "phone")
	ben.sendMany(ab, "k", 5)
	long := strings.Repeat("x", 60_000)
	counted, refused := 0, 0
	for round := range 20 {
		device := fmt.Sprint("phone", round)
		older, newer := w.login("ana", device, F{"n": 3}), w.dial()
		older.want("acked", F{"t": "ack", "conv": ab, "seq": 2, "n": 3})
		newer.user, newer.device = older.user, device
		var busy []string // so that what comes next waits for a commit
		for i := range 20 {
			busy = append(busy, ben.post(F{"t": "send", "conv": other, "cmid": fmt.Sprint("b", round, ".", i), "body": long}))
		}
		greeted := newer.post(w.hello("ana", device, F{"n": 3}))
		time.Sleep(time.Duration(round%10) * 200 * time.Microsecond)
		_ = older.JSON(F{"t": "ack", "rid": "late", "conv": ab, "seq": 5, "n": 8}) // the connection may have ended
		install := newer.reply(greeted).Int("install_epoch")
		older.bye(patience, "SUPERSEDED", true)
		for _, rid := range busy {
			ben.reply(rid)
		}
		want := map[int64]int64{1: 2, 2: 0}[install]
		again := w.login("ana", device, F{"n": 3})
		if l := again.lag(ab); again.welcome.Int("install_epoch") != install || l.Int("delivered") != want {
			t.Errorf("round %d: the restored store is install %d; then %s, lag %s, want delivered %d", round, install, again.welcome.Object, l, want)
		}
		for _, f := range older.Frames() {
			if f.Str("rid") == "late" && f.T() == "acked" {
				counted++
			} else if f.Str("rid") == "late" && f.Str("code") == "STALE_INSTALL" {
				refused++
			}
		}
	}
	t.Logf("of 20 acks %d were answered, and %d refused", counted, refused)
}

// history: how many past events of each conversation a new install starts with.
func TestHistoryOfANewInstall(t *testing.T) {
	w := onShared(t)
	ab, ac, late := w.conv("ab", "ana", "ben"), w.conv("ac", "ana", "cai"), w.conv("late", "ben", "cai")
	ben := w.online("ben", "phone")
	cai := w.online("cai", "phone")
	ben.sendMany(ab, "k", 5)
	cai.send(ac, "k1", "x")
	ben.sendMany(late, "l", 4)

	two := w.login("ana", "two", F{"history": 2})
	if l := two.lag(ab); l.Int("delivered") != 3 || l.Int("head") != 5 {
		t.Errorf("lag %s, want delivered 3", l)
	}
	if l := two.want("subbed", F{"t": "sub"}); len(l.List("convs")) != 2 {
		t.Errorf("subbed %s, want all conversations of a new install", l.Object)
	}
	got := map[string]string{}
	for _, page := range two.pull(100).List("convs") {
		got[page.Str("conv")] = fmt.Sprint(rawclient.Seqs(page.List("events")))
	}
	if got[ab] != "[4 5]" || got[ac] != "[1]" {
		t.Errorf("pulled %v, want the last two of each", got)
	}
	if f := two.want("synced", F{"t": "sync", "conv": ab, "before": 4}); fmt.Sprint(rawclient.Seqs(f.List("events"))) != "[3 2 1]" {
		t.Errorf("synced %s, want the older ones", f.Object)
	}
	w.join(late, "ana") // 5
	ben.send(late, "l6", "x")
	two.event(late, 6)
	for _, page := range two.pull(100).List("convs") {
		if page.Str("conv") == late && fmt.Sprint(rawclient.Seqs(page.List("events"))) != "[5 6]" {
			t.Errorf("a conversation joined later: %s, want 5 and 6", page)
		}
	}

	none := w.login("ana", "none", F{"history": 0})
	if l := none.lag(ab); l != nil && l.Int("delivered") != 5 {
		t.Errorf("history 0: lag %s, want delivered 5", l)
	}
	if f := none.pull(100); len(f.List("convs")) != 0 {
		t.Errorf("history 0: pulled %s, want nothing", f.Object)
	}
	if l := w.login("ana", "all", nil).lag(ab); l.Int("delivered") != 0 {
		t.Errorf("no history named: lag %s, want delivered 0", l)
	}
	if l := w.login("ana", "many", F{"history": 1000}).lag(ab); l.Int("delivered") != 0 {
		t.Errorf("history 1000: lag %s, want delivered 0", l)
	}
	// It is for new installs: a device that comes back keeps its cursor.
	two.ack(ab, 4)
	if l := w.login("ana", "two", F{"history": 0}).lag(ab); l.Int("delivered") != 4 {
		t.Errorf("history 0 of a known install: lag %s, want delivered 4", l)
	}
}

// history counts events one may see: those outside the membership do not fill the places.
func TestHistoryCountsVisibleEvents(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	ana.sendMany(ab, "a", 2) // 1 2
	w.join(ab, "zoe")        // 3
	ana.sendMany(ab, "b", 2) // 4 5
	w.leave(ab, "zoe")       // 6
	ana.sendMany(ab, "c", 9) // 7..15
	w.join(ab, "zoe")        // 16
	ana.send(ab, "d", "x")   // 17
	zoe := w.login("zoe", "phone", F{"history": 4})
	page := zoe.pull(100).List("convs")[0]
	if got := fmt.Sprint(rawclient.Seqs(page.List("events"))); got != "[5 6 16 17]" || page.Int("through") != 17 {
		t.Errorf("zoe pulls %s through %d, want the last four she may see", got, page.Int("through"))
	}
}

// Over HTTP another install than the stored one is stale, and it never raises the install epoch.
func TestStaleInstallOverHTTP(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	ana.sendMany(ab, "k", 2)
	for _, op := range []string{"ack", "pull"} {
		body := map[string]F{"ack": {"conv": ab, "seq": 2}, "pull": {}}[op]
		r := w.apiWith(w.bearer("ana", "phone", "i0"), op, body)
		if r.Status != 409 || r.JSON.Str("code") != "STALE_INSTALL" || r.JSON.Bool("retry") {
			t.Errorf("%s with another install: %s, want 409 STALE_INSTALL", op, r)
		}
		if r := w.api("ana", op, body); r.Status != 200 {
			t.Errorf("%s with the stored install: %s", op, r)
		}
	}
	if again := w.login("ana", "phone", nil); again.welcome.Int("install_epoch") != 1 {
		t.Errorf("HTTP raised the install epoch: %s", again.welcome.Object)
	}
	w.login("ana", "phone", F{"install": "i2"})
	if r := w.api("ana", "ack", F{"conv": ab, "seq": 2}); r.Status != 409 || r.JSON.Str("code") != "STALE_INSTALL" {
		t.Errorf("the install before: %s, want 409 STALE_INSTALL", r)
	}
}
