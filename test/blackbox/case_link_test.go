package blackbox

// Cases of dead links, stale views and order. Cases 21, 22, 25, 27, 31 and 32 are about other stores, several nodes or
// the SDK; 23 and 33 need a fault inside the database.

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/impart"
	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// Twelve messages while offline, a thirteenth at once after the reconnect, and the link drops in the middle.
func TestCase24_OutboxOverADroppingLink(t *testing.T) {
	w := onOwn(t)
	ab := w.conv("ab", "ana", "ben")
	p := impart.NewProxy(t, w.srv.Addr)
	ana := w.deviceAt(p.Addr, "ana", "phone")
	for i := range 12 {
		ana.Post(ab, fmt.Sprint("m", i))
	}
	p.CutAfter(900) // the handshake, the welcome and a part of the answers
	ben := w.online("ben", "phone")
	ana.Start()
	ana.Post(ab, "m12")
	ben.event(ab, 1)
	p.Cut()
	p.CutAfter(0)
	log := w.std(ab, "ben", ana)
	for i, body := range bodies(log) {
		if body != fmt.Sprint("m", i) {
			t.Fatalf("place %d holds %q: the order of sending is lost", i, body)
		}
	}
	if len(log) != 13 {
		t.Errorf("%d messages, want 13", len(log))
	}
}

// The receiver's link becomes a black hole just before a send; it comes back on a new socket.
func TestCase26_BlackHole(t *testing.T) {
	for _, away := range []time.Duration{0, 3 * time.Second} {
		t.Run(away.String(), func(t *testing.T) {
			w := onOwn(t, "IM_RETRY_MS=100,200,300,400", "IM_SWEEP_MS=500")
			ab := w.conv("ab", "ana", "ben")
			p := impart.NewProxy(t, w.srv.Addr)
			ana, ben := w.device("ana", "phone"), w.deviceAt(p.Addr, "ben", "phone")
			ana.Start()
			ben.Start()
			ana.Post(ab, "before")
			caughtUp(t, patience, ab, 1, ben)
			p.BlackHole()
			for i := range 20 {
				ana.Post(ab, fmt.Sprint("m", i))
			}
			settled(t, patience, ana)
			ben.Stop() // the phone changes its network: the old socket is never closed
			<-time.After(away)
			ben.Start()
			caughtUp(t, patience, ab, 21, ben)
			w.std(ab, "ben", ana, ben)
		})
	}
}

// The first message ever of a new conversation, to one who is offline: the pull right after `sent` lists it.
func TestCase28_FirstMessageToAnOfflineUser(t *testing.T) {
	w := onShared(t)
	w.login("ben", "phone", nil).Close() // known, and away
	ana := w.online("ana", "phone")
	for i := range 10 {
		conv := w.conv(fmt.Sprint("new", i), "ana", "ben")
		sent := ana.send(conv, fmt.Sprint("k", i), "first")
		ben := w.login("ben", "phone", nil)
		found := false
		for _, page := range ben.pull(100).List("convs") {
			if events := page.List("events"); page.Str("conv") == conv && len(events) == 1 && events[0].Str("mid") == sent.Str("mid") {
				found = true
			}
		}
		if !found {
			t.Fatalf("round %d: the pull right after sent does not list it", i)
		}
		ben.Close()
	}
}

// Disconnected with 50 unacknowledged, back at once: they come in under a second and not after the retry timer.
func TestCase29_BackAtOnce(t *testing.T) {
	w := onOwn(t, "IM_RETRY_MS=30000,30000,30000,30000", "IM_SWEEP_MS=60000")
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	began := time.Now()
	w.online("ben", "yardstick").pull(100)
	busy := time.Since(began) // what the same costs on this machine without anything lacking
	ana.sendMany(ab, "k", 50)
	ben.event(ab, 50)
	ben.Close()
	began = time.Now()
	back := w.online("ben", "phone")
	page := back.pull(100).List("convs")[0]
	if took := time.Since(began); took > time.Second+3*busy || len(page.List("events")) != 50 {
		t.Errorf("%d events after %v (without them %v), want 50 in under a second", len(page.List("events")), took, busy)
	}
}

// A receiver that reads next to nothing does not slow the others, and it ends complete.
func TestCase30_SlowReader(t *testing.T) {
	w := onOwn(t, "IM_SWEEP_MS=500")
	abc := w.conv("abc", "ana", "ben", "cai")
	p := impart.NewProxy(t, w.srv.Addr)
	p.Throttle(4_000)
	ana, ben, slow := w.device("ana", "phone"), w.device("ben", "phone"), w.deviceAt(p.Addr, "cai", "phone")
	for _, d := range []*rawclient.Device{ana, ben, slow} {
		d.Start()
	}
	const n = 300
	began := time.Now()
	for i := range n {
		ana.Post(abc, fmt.Sprint("m", i, strings.Repeat("x", 20_000)))
	}
	settled(t, bulk, ana)
	caughtUp(t, bulk, abc, n, ben)
	t.Logf("the others were served in %v", time.Since(began))
	p.Throttle(0)
	p.Cut() // the phone is back in good coverage
	caughtUp(t, bulk, abc, n, slow)
	w.std(abc, "ben", ana, ben, slow)
}

// Two connections with one device id: the older gets a final bye, nothing is lost, and they do not kick each other.
func TestCase34_OneDeviceIdTwice(t *testing.T) {
	w := onOwn(t)
	ab := w.conv("ab", "ana", "ben")
	older, newer := w.device("ben", "phone"), w.device("ben", "phone")
	older.Start()
	ana := w.online("ana", "phone")
	ana.sendMany(ab, "k", 5)
	caughtUp(t, patience, ab, 5, older)
	newer.Start()
	ctx, cancel := testContext(t, patience)
	defer cancel()
	if err := older.AwaitEnd(ctx); err != nil {
		t.Fatal(err)
	}
	ana.sendMany(ab, "m", 5)
	caughtUp(t, patience, ab, 10, newer)
	if older.Dials() != 1 || newer.Dials() != 1 {
		t.Errorf("%d and %d dials, want one each: they kick each other", older.Dials(), newer.Dials())
	}
}

// Recalled while the other device is offline: no device, new or old, ever shows the body again.
func TestCase35_RecalledWhileOffline(t *testing.T) {
	w := onOwn(t)
	ab := w.conv("ab", "ana", "ben")
	ana, old := w.online("ana", "phone"), w.device("ben", "old")
	old.Start()
	ana.send(ab, "k1", "secret")
	caughtUp(t, patience, ab, 1, old)
	old.Stop()
	ana.want("sent", recall(ab, 1, "r1"))
	ana.send(ab, "k2", "after")
	old.Start()
	fresh := w.device("ben", "fresh")
	fresh.Start()
	caughtUp(t, patience, ab, 3, old, fresh)
	w.std(ab, "ben", old, fresh)
	for _, d := range []*rawclient.Device{old, fresh} {
		for _, ev := range d.Log(ab) {
			if ev.Body == "secret" {
				t.Errorf("%s still holds %+v", d.Name(), ev)
			}
		}
	}
	for _, ev := range fresh.Applied() {
		if ev.Body == "secret" {
			t.Errorf("a new device was shown %+v", ev)
		}
	}
}

// Joined at 50, left at 80, back at 120: exactly the periods' events, and the cursor passes over the rest.
func TestCase36_Periods(t *testing.T) {
	w := onOwn(t)
	conv := w.conv("abc", "ana", "ben")
	ana := w.online("ana", "phone")
	zoe := w.online("zoe", "live")
	ana.sendMany(conv, "a", 49) // 1..49
	w.join(conv, "zoe")         // 50
	ana.sendMany(conv, "b", 29) // 51..79
	w.leave(conv, "zoe")        // 80
	ana.sendMany(conv, "c", 39) // 81..119
	w.join(conv, "zoe")         // 120
	ana.sendMany(conv, "d", 10) // 121..130
	want := []int64{}
	for seq := int64(50); seq <= 130; seq++ {
		if seq <= 80 || seq >= 120 {
			want = append(want, seq)
		}
	}
	events, head := zoe.log(conv, 0)
	if fmt.Sprint(seqsOf(events)) != fmt.Sprint(want) || head != 130 {
		t.Errorf("sync gives %v, head %d", seqsOf(events), head)
	}
	paged := []int64{}
	for after, more := int64(0), true; more; {
		f := zoe.want("synced", F{"t": "sync", "conv": conv, "after": after, "limit": 7})
		paged = append(paged, rawclient.Seqs(f.List("events"))...)
		after, more = f.Int("through"), f.Bool("more")
	}
	back := []int64{}
	for before, more := int64(131), true; more; {
		f := zoe.want("synced", F{"t": "sync", "conv": conv, "before": before, "limit": 7})
		for _, seq := range rawclient.Seqs(f.List("events")) {
			back = append([]int64{seq}, back...)
			before = seq
		}
		more = f.Bool("more")
	}
	if fmt.Sprint(paged) != fmt.Sprint(want) || fmt.Sprint(back) != fmt.Sprint(want) {
		t.Errorf("pages give %v\nhistory gives %v", paged, back)
	}
	d := w.device("zoe", "phone")
	d.Start()
	caughtUp(t, patience, conv, 130, d)
	if got := seqsOf(d.Log(conv)); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("a device by pull holds %v", got)
	}
	pushed := map[int64]bool{}
	zoe.event(conv, 130)
	for _, f := range zoe.Frames() {
		if f.T() == "event" {
			pushed[f.Obj("ev").Int("seq")] = true
		}
	}
	for seq := range pushed {
		if seq < 50 || seq > 80 && seq < 120 {
			t.Errorf("seq %d was pushed to one who may not see it", seq)
		}
	}
}

// The process stands still for longer than a client may be silent: who was not heard in that time is not dead, and stays.
func TestCase26_WhoIsOnlineOutlastsAPause(t *testing.T) {
	w := onOwn(t, "IM_HEARTBEAT_MS=1000")
	ana := w.online("ana", "phone")
	if err := w.srv.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	<-time.After(4 * time.Second)
	if err := w.srv.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		ana.want("pong", F{"t": "ping"})
		<-time.After(250 * time.Millisecond)
	}
	for _, f := range ana.Frames() {
		if f.T() == "bye" {
			t.Errorf("%v", f)
		}
	}
}

// The process stands still for a while (a stopped machine, a long pause): nothing is lost when it goes on.
func TestCase26_TheServerPauses(t *testing.T) {
	w := onOwn(t)
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.device("ana", "phone"), w.device("ben", "phone")
	ana.Start()
	ben.Start()
	for round := range 3 {
		for i := range 20 {
			ana.Post(ab, fmt.Sprint(round, ".", i))
		}
		if err := w.srv.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		<-time.After(500 * time.Millisecond)
		if err := w.srv.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	if log := w.std(ab, "ben", ana, ben); len(log) != 60 {
		t.Errorf("%d messages, want 60", len(log))
	}
}
