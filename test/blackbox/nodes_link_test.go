package blackbox

// The cases of order, dead links and stale views, on several nodes with one PostgreSQL database.

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/impart"
	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// One commit is held while many others, to the same and to other conversations, go on at another node: no reader passes
// the held seq, and the seqs have no hole afterwards.
func TestCase23_AHeldCommitHoldsItsReaders(t *testing.T) {
	d := impart.FreshDatabase(t)
	t.Parallel()
	w := newWorldOn(t, d, 2, "IM_SWEEP_MS=200")
	held := w.conv("held", "ana", "ben", "cai")
	others := make([]string, 10)
	for i := range others {
		others[i] = w.conv(fmt.Sprint("other", i), "ana", "ben")
	}
	ana, cai, ben := w.onlineAt(0, "ana", "phone"), w.onlineAt(1, "cai", "phone"), w.onlineAt(1, "ben", "phone")
	seq := ana.send(held, "k0", "x").Int("seq")
	// Another transaction holds the conversation's row, as a slow commit does.
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := d.Connect(ctx, d.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, "SELECT 1 FROM conversations WHERE conv_id = $1 FOR UPDATE", held); err != nil {
		t.Fatal(err)
	}
	var waiting []string
	for i := range 20 {
		waiting = append(waiting, ana.post(F{"t": "send", "conv": held, "cmid": fmt.Sprint("h", i), "body": "x"}))
	}
	late := cai.post(F{"t": "send", "conv": held, "cmid": "c", "body": "x"})
	for i := range 100 {
		ben.post(F{"t": "send", "conv": others[i%len(others)], "cmid": fmt.Sprint("o", i), "body": "x"})
	}
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); {
		if _, head := w.loginAt(w.nodes[1].Addr(), "ben", "reader", nil).log(held, 0); head != seq {
			t.Fatalf("a reader saw head %d while seq %d was being written", head, seq+1)
		}
		<-time.After(50 * time.Millisecond)
	}
	if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	last := seq
	for _, rid := range append([]string{}, waiting...) {
		f := ana.reply(rid)
		if f.T() != "sent" || f.Int("seq") <= last {
			t.Fatalf("%s after seq %d: the order of sending is lost", f.Object, last)
		}
		last = f.Int("seq")
	}
	cai.reply(late)
	events, head := ben.log(held, 0)
	if head != seq+21 || len(events) != 22 {
		t.Errorf("head %d with %d events, want 22", head, len(events))
	}
	for i, ev := range events {
		if ev.Seq != int64(i+1) {
			t.Fatalf("place %d holds seq %d", i, ev.Seq)
		}
	}
}

// The receiver's link becomes a black hole just before a send; it comes back on another node.
func TestCase26_BackFromABlackHoleOnAnotherNode(t *testing.T) {
	w := onNodes(t, 2, "IM_RETRY_MS=100,200,300,400", "IM_SWEEP_MS=500")
	ab := w.conv("ab", "ana", "ben")
	p := impart.NewProxy(t, w.at(0))
	target := p.Addr
	ana, ben := w.deviceAt(w.at(0), "ana", "phone"), w.deviceAt(func() string { return target() }, "ben", "phone")
	ana.Start()
	ben.Start()
	ana.Post(ab, "before")
	caughtUp(t, patience, ab, 1, ben)
	p.BlackHole()
	for i := range 20 {
		ana.Post(ab, fmt.Sprint("m", i))
	}
	settled(t, patience, ana)
	ben.Stop()
	<-time.After(2 * time.Second)
	target = w.at(1)
	ben.Start()
	caughtUp(t, patience, ab, 21, ben)
	w.std(ab, "ben", ana, ben)
}

// Disconnected with 50 unacknowledged, back at once on another node: they come in under a second and not after the
// retry timer.
func TestCase29_BackAtOnceOnAnotherNode(t *testing.T) {
	backAtOnce(t, onNodes(t, 2, rarely...))
}

// rarely leaves nothing to timers.
var rarely = []string{"IM_RETRY_MS=30000,30000,30000,30000", "IM_SWEEP_MS=60000"}

func backAtOnce(t *testing.T, w *world) {
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.onlineAt(1, "ana", "phone"), w.onlineAt(0, "ben", "phone")
	began := time.Now()
	w.onlineAt(1, "ben", "yardstick").pull(100)
	busy := time.Since(began) // what the same costs on this machine without anything lacking
	ana.sendMany(ab, "k", 50)
	ben.event(ab, 50)
	ben.Close()
	began = time.Now()
	page := w.onlineAt(1, "ben", "phone").pull(100).List("convs")[0]
	if took := time.Since(began); took > time.Second+3*busy || len(page.List("events")) != 50 {
		t.Errorf("%d events after %v (without them %v), want 50 in under a second", len(page.List("events")), took, busy)
	}
}

// Two connections with one device id on two nodes: the older gets a final bye, nothing is lost, and they do not kick
// each other.
func TestCase34_OneDeviceIdOnTwoNodes(t *testing.T) {
	w := onNodes(t, 2)
	ab := w.conv("ab", "ana", "ben")
	older, newer := w.deviceAt(w.at(0), "ben", "phone"), w.deviceAt(w.at(1), "ben", "phone")
	older.Start()
	ana := w.onlineAt(0, "ana", "phone")
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
	// Again and again: the last hello wins, whichever node it went to.
	var conns []*client
	for i := range 10 {
		conns = append(conns, w.loginAt(w.nodes[i%2].Addr(), "ana", "tablet", nil))
	}
	for i, c := range conns[:9] {
		if f := c.await("bye", 0, isT("bye")); f.Str("code") != "SUPERSEDED" || !f.Bool("final") {
			t.Errorf("connection %d: %s", i, f.Object)
		}
	}
	conns[9].alive()
}

// A user is barred, a token is revoked, and the epoch is raised at one node: the others follow, also when their bus was
// deaf at the time.
func TestWhatAnOperatorDoesReachesEveryNode(t *testing.T) {
	d := impart.FreshDatabase(t)
	t.Parallel()
	w := newWorldOn(t, d, 2, "IM_SWEEP_MS=60000") // so that no sweep helps
	ab := w.conv("ab", "ana", "ben", "cai")
	ana, ben, cai := w.onlineAt(1, "ana", "phone"), w.onlineAt(1, "ben", "phone"), w.onlineAt(1, "cai", "phone")
	w.srv.Admin(t, "POST", "users/"+w.user("ben")+"/revoke", nil)
	if f := ben.await("bye", 0, isT("bye")); f.Str("code") != "REVOKED" || !f.Bool("final") {
		t.Errorf("revoked at the other node: %s", f.Object)
	}
	// A session that ends makes the bus deaf for a moment, in which the operator acts.
	sleeping := func(act func()) {
		t.Helper()
		for _, n := range w.nodes {
			until(t, "a bus that hears", func() bool { up, _ := n.Metric(t, "im_bus_up", ""); return int(up) == len(n.Processes()) })
		}
		if err := d.Exec(context.Background(), "postgres", fmt.Sprintf("ALTER DATABASE %s CONNECTION LIMIT 0", d.Name)); err != nil {
			t.Fatal(err)
		}
		if n, err := d.Terminate(context.Background(), d.Name, "impart-listen"); n != 2*len(w.srv.Processes()) || err != nil {
			t.Fatalf("ended %d sessions, %v", n, err)
		}
		act()
		if err := d.Exec(context.Background(), "postgres", fmt.Sprintf("ALTER DATABASE %s CONNECTION LIMIT -1", d.Name)); err != nil {
			t.Fatal(err)
		}
	}
	sleeping(func() { w.srv.Admin(t, "POST", "users/"+w.user("cai")+"/revoke", nil) })
	if f := cai.await("bye", 0, isT("bye")); f.Str("code") != "REVOKED" || !f.Bool("final") {
		t.Errorf("revoked while the bus was deaf: %s", f.Object)
	}
	sleeping(func() { w.srv.Admin(t, "POST", "epoch", nil) })
	epoch := ana.await("hint resume", 0, isHint("resume")).Int("epoch")
	if f := ana.send(ab, "k", "x"); f.Int("epoch") != epoch {
		t.Errorf("sent %s in epoch %d", f.Object, epoch)
	}
	if got := w.loginAt(w.nodes[0].Addr(), "dan", "phone", nil).welcome.Int("epoch"); got != epoch {
		t.Errorf("the nodes have epochs %d and %d", got, epoch)
	}
}

// until waits for a condition that nothing tells of.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for late := time.After(patience); !holds(); {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-late:
			t.Fatalf("no %s within %v", what, patience)
		}
	}
}

// Every node hears of every message. One at which nobody is to see it reads nothing for it.
func TestNodesWithoutReadersReadNothing(t *testing.T) {
	w := onNodes(t, 2, "IM_SWEEP_MS=600000")
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.onlineAt(0, "ana", "phone"), w.onlineAt(0, "ben", "phone")
	cai := w.onlineAt(1, "cai", "phone")
	exchange := func(prefix string, n int) {
		t.Helper()
		last := ana.sendMany(ab, prefix, n)
		ben.event(ab, last)
		ben.ack(ab, last)
	}
	heard := func() float64 { n, _ := w.nodes[1].Metric(t, "im_bus_heard_total", ""); return n }
	reads := func() float64 { n, _ := w.nodes[1].Metric(t, "im_store_reads_total", ""); return n }
	exchange("first", 1) // who may see the conversation is read once
	until(t, "word of the first message", func() bool { return heard() > 0 })
	cai.alive()
	before, told := reads(), heard()
	for i := range 50 {
		exchange(fmt.Sprint("m", i, "."), 4)
	}
	until(t, "word of the others", func() bool { return heard() >= told+50 })
	cai.alive()
	if n := reads() - before; n > 5 { // of the server's own looks at its store
		t.Errorf("200 messages and their receipts cost a node without readers %v reads", n)
	}
	// It still hears of what it has to.
	w.join(ab, "cai")
	cai.await("the event of the join", 0, func(f rawclient.Frame) bool { return f.T() == "event" && f.Obj("ev").Str("kind") == "join" })
}
