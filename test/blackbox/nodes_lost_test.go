package blackbox

// The cases of messages that were accepted and then gone, on several nodes with one PostgreSQL database.

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/impart-im/impart/internal/lab/link"
	"github.com/impart-im/impart/test/blackbox/impart"
	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// A user's two devices on two nodes, 1,000 interleaved sends: full syncs are equal byte for byte.
func TestCase04_TwoDevicesOnTwoNodes(t *testing.T) {
	w := onNodes(t, 2)
	ab := w.conv("ab", "ana", "ben")
	phone, tablet := w.deviceAt(w.at(0), "ana", "phone"), w.deviceAt(w.at(1), "ana", "tablet")
	ben := w.deviceAt(w.at(1), "ben", "phone")
	for _, d := range []*rawclient.Device{phone, tablet, ben} {
		d.Start()
	}
	for i := range 500 {
		phone.Post(ab, fmt.Sprint("p", i))
		tablet.Post(ab, fmt.Sprint("t", i))
	}
	log := w.std(ab, "ana", phone, tablet, ben)
	if len(log) != 1000 {
		t.Fatalf("%d messages, want 1,000", len(log))
	}
	next := map[string]int{}
	for _, ev := range log {
		prefix := ev.Body[:1]
		if want := fmt.Sprint(prefix, next[prefix]); ev.Body != want {
			t.Fatalf("%q stands where %q belongs", ev.Body, want)
		}
		next[prefix]++
	}
	var syncs [2]string
	for i := range syncs {
		f := w.loginAt(w.nodes[i].Addr(), "ana", "x", nil).want("synced", F{"t": "sync", "conv": ab, "after": 0, "limit": 1000})
		syncs[i] = string(f.Object["events"])
	}
	if syncs[0] != syncs[1] {
		t.Error("full syncs of two nodes differ in their bytes")
	}
}

// All database sessions of all nodes died while nobody was writing: the next send still succeeds in time.
func TestCase07_SessionsDiedWhileIdle(t *testing.T) {
	d := impart.FreshDatabase(t)
	t.Parallel()
	w := newWorldOn(t, d, 2)
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.onlineAt(0, "ana", "phone"), w.onlineAt(1, "ben", "phone")
	seq := ana.sendMany(ab, "before", 20)
	ben.event(ab, seq)
	for round := range 3 {
		if n, err := d.Terminate(context.Background(), d.Name, "%"); n < 4 || err != nil {
			t.Fatalf("ended %d sessions, %v: the fault did not bite", n, err)
		}
		began := time.Now()
		sent := ana.send(ab, fmt.Sprint("k", round), "x")
		if took := time.Since(began); took > scaled(2*time.Second) {
			t.Errorf("round %d: the send took %v", round, took)
		}
		ben.await("the event, by push or sync", 0, func(f rawclient.Frame) bool {
			return isEvent(ab, sent.Int("seq"))(f) || f.T() == "hint" && f.Int("head") >= sent.Int("seq") || isHint("resume")(f)
		})
		ben.send(ab, fmt.Sprint("b", round), "x")
	}
	if _, head := ben.log(ab, 0); head != seq+6 {
		t.Errorf("head %d, want %d", head, seq+6)
	}
}

// The node that stored a message dies at once, and the receiver's node is deaf to the bus: the sweep finds it, within
// its bound.
func TestCase08_DiesBetweenCommitAndFanOutElsewhere(t *testing.T) {
	d := impart.FreshDatabase(t)
	t.Parallel()
	proxy, err := link.New(8, d.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	const sweep = 500 * time.Millisecond
	w := newWorldOn(t, d, 1, "IM_SWEEP_MS=500")
	w.nodes = append(w.nodes, impart.Start(t, d.Store(), "IM_SWEEP_MS=500", "IM_LISTEN_STORE="+d.DSNAt(proxy.Addr(), d.Name)))
	ab := w.conv("ab", "ana", "ben")
	ben := w.onlineAt(1, "ben", "phone")
	for i := range 3 {
		ana := w.onlineAt(0, "ana", "phone")
		proxy.Shape(link.Both, func(s *link.Shape) { s.BlackHole = true })
		mark := ben.Mark()
		sent := ana.send(ab, fmt.Sprint("k", i), "x")
		w.nodes[0].Kill()
		f := ben.awaitWithin(4*sweep+scaled(2*time.Second), "word of the message", mark, func(f rawclient.Frame) bool {
			return f.T() == "hint" && f.Str("conv") == ab && f.Int("head") == sent.Int("seq") || isEvent(ab, sent.Int("seq"))(f)
		})
		if f.T() == "event" {
			t.Error("the deaf node has heard of it: the fault did not bite")
		}
		ben.ack(ab, sent.Int("seq"))
		proxy.Heal()
		w.nodes[0].MustRestart(t)
	}
	if proxy.Counts().Swallowed == 0 {
		t.Error("the black hole swallowed nothing")
	}
}

// The database is frozen for seconds at a time, as on a disk whose flushes take that long: retryable errors or late
// answers, no crash, and everything is there in the end.
func TestCase43_TheDatabaseStandsStill(t *testing.T) {
	t.Parallel()
	d := impart.OwnDatabase(t, nil)
	w := newWorldOn(t, d, 2, "IM_SWEEP_MS=500")
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.deviceAt(w.at(0), "ana", "phone"), w.deviceAt(w.at(1), "ben", "phone")
	ana.Start()
	ben.Start()
	posted := 0
	for range 3 {
		for range 30 {
			ana.Post(ab, fmt.Sprint("m", posted))
			posted++
		}
		if err := d.Pause(); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Second)
		if err := d.Resume(); err != nil {
			t.Fatal(err)
		}
	}
	if log := w.std(ab, "ben", ana, ben); len(log) != posted {
		t.Errorf("%d rows for %d messages", len(log), posted)
	}
}

// One node loses the database, the other does not: sends to the first get UNAVAILABLE or no answer, never a false
// `sent`; nothing is missing when it is back.
func TestOneNodeIsCutOffFromTheDatabase(t *testing.T) {
	d := impart.FreshDatabase(t)
	t.Parallel()
	proxy, err := link.New(1, d.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	w := newWorldOn(t, d, 1, "IM_SWEEP_MS=500")
	w.nodes = append(w.nodes, impart.Start(t, d.StoreAt(proxy.Addr()), "IM_SWEEP_MS=500"))
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.deviceAt(w.at(0), "ana", "phone"), w.deviceAt(w.at(1), "ben", "phone")
	ana.Start()
	ben.Start()
	posted := 0
	for _, fault := range []func(){
		func() { proxy.Cut(link.Reset); proxy.Refuse(true) },
		func() { proxy.Shape(link.Both, func(s *link.Shape) { s.BlackHole = true }) },
		func() { proxy.Shape(link.Down, func(s *link.Shape) { s.Frozen = true }) },
	} {
		fault()
		for range 20 {
			ana.Post(ab, fmt.Sprint("a", posted))
			ben.Post(ab, fmt.Sprint("b", posted))
			posted++
		}
		settled(t, patience, ana) // the other node is not held up
		<-time.After(time.Second)
		proxy.Heal()
	}
	log := w.std(ab, "ana", ana, ben)
	if len(log) != 2*posted {
		t.Errorf("%d rows for %d messages", len(log), 2*posted)
	}
	if counts := proxy.Counts(); counts.Cut == 0 || counts.Refused == 0 || counts.Swallowed == 0 {
		t.Errorf("the faults did not bite: %+v", counts)
	}
}

// One of three nodes stands still for a while, and another is killed, again and again, while all are written to.
func TestNodesStandStillAndDie(t *testing.T) {
	w := onNodes(t, 3, "IM_SWEEP_MS=500")
	abc := w.conv("abc", "ana", "ben", "cai")
	var devices []*rawclient.Device
	for i, name := range []string{"ana", "ben", "cai"} {
		devices = append(devices, w.deviceAt(w.at(i), name, "phone"))
		devices[i].Start()
	}
	posted := 0
	for round := range 4 {
		for range 20 {
			for _, d := range devices {
				d.Post(abc, fmt.Sprint("m", posted))
				posted++
			}
		}
		still, dead := w.nodes[round%3], w.nodes[(round+1)%3]
		if err := still.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		dead.Kill()
		<-time.After(500 * time.Millisecond)
		if err := still.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		dead.MustRestart(t)
	}
	log := w.std(abc, "ana", devices...)
	if len(log) != posted {
		t.Errorf("%d rows for %d messages", len(log), posted)
	}
	for _, ev := range log {
		if !strings.HasPrefix(ev.Body, "m") {
			t.Fatalf("%+v", ev)
		}
	}
}

// The database is put back to an older copy while devices hold higher cursors. Once the epoch is raised, at one node, the
// nodes and the devices start from what is there: never silence, never two messages under one seq of an epoch.
func TestCase22_AnOlderCopyOfTheDatabase(t *testing.T) {
	t.Parallel()
	d := impart.OwnDatabase(t, nil)
	w := newWorldOn(t, d, 2)
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.onlineAt(0, "ana", "phone"), w.onlineAt(1, "ben", "phone")
	ana.sendMany(ab, "kept", 10)
	mid := ben.event(ab, 10).Str("mid")
	restore, err := d.Copy(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	ana.sendMany(ab, "undone", 10)
	gone, _ := ben.log(ab, 10)
	lost := gone[len(gone)-1].Mid
	ben.ack(ab, 20)
	for _, n := range w.nodes {
		if code, took := n.Terminate(15 * time.Second); code != 0 {
			t.Fatalf("SIGTERM: exit %d after %v", code, took)
		}
	}
	if err := restore(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, n := range w.nodes {
		n.MustRestart(t)
	}
	w.srv.Admin(t, "POST", "epoch", nil)
	ben = w.onlineAt(1, "ben", "phone")
	epoch := ben.welcome.Int("epoch")
	if epoch < 2 || ben.lag(ab).Int("delivered") != 0 || ben.lag(ab).Int("head") != 10 {
		t.Fatalf("welcome %s, lag %s: want a new epoch, head 10, delivered 0", ben.welcome.Object, ben.lag(ab))
	}
	ben.refuse("EPOCH_CHANGED", F{"t": "ack", "conv": ab, "seq": 20, "epoch": 1})
	ben.want("synced", F{"t": "sync", "conv": ab, "after": 10, "after_mid": mid, "epoch": epoch})
	ben.ack(ab, 10)
	ana = w.onlineAt(0, "ana", "phone")
	f := ana.send(ab, "undone10", "undone10") // by its cmid: its `sent` was undone
	if f.Bool("dup") || f.Int("seq") != 11 || f.Str("mid") == lost || f.Int("epoch") != epoch {
		t.Errorf("sent again: %s, want a new row at seq 11", f.Object)
	}
	ben.event(ab, 11)
	if again := ana.send(ab, "kept10", "kept10"); !again.Bool("dup") || again.Str("mid") != mid {
		t.Errorf("a message from before the copy: %s, want dup of %s", again.Object, mid)
	}
}
