package blackbox

// The cases of messages that come twice, on several nodes with one PostgreSQL database.

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/impart"
	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// sameAnswer demands that all answers are `sent` of one message, and that one of them at most stored it.
func sameAnswer(t *testing.T, what string, answers []rawclient.Frame) {
	t.Helper()
	stored := 0
	for _, f := range answers {
		if f.T() != "sent" || f.Int("seq") != answers[0].Int("seq") || f.Str("mid") != answers[0].Str("mid") {
			t.Fatalf("%s: an answer is %s, another %s", what, f.Object, answers[0].Object)
		}
		if !f.Bool("dup") {
			stored++
		}
	}
	if stored > 1 {
		t.Errorf("%s: %d answers say that they stored it", what, stored)
	}
}

// The connection is cut after the commit and before the reply; the resend goes to another node.
func TestCase06_ResentToAnotherNode(t *testing.T) {
	w := onNodes(t, 2)
	ab := w.conv("ab", "ana", "ben")
	p := impart.NewProxy(t, w.at(0))
	p.Drop(func(frame []byte) bool { return strings.Contains(string(frame), `"sent"`) })
	ben := w.onlineAt(1, "ben", "phone")
	for i := range 5 {
		cmid := fmt.Sprint("k", i)
		ana := w.loginAt(p.Addr(), "ana", "phone", nil)
		ana.post(F{"t": "send", "conv": ab, "cmid": cmid, "body": "x"})
		ev := ben.event(ab, int64(i+1)) // it has been committed
		p.Cut()
		ana.ended(patience)
		f := w.loginAt(w.nodes[1].Addr(), "ana", "phone", nil).send(ab, cmid, "x")
		if !f.Bool("dup") || f.Int("seq") != ev.Int("seq") || f.Str("mid") != ev.Str("mid") {
			t.Errorf("the resend: %s, want dup of %s", f.Object, ev)
		}
	}
	if _, head := ben.log(ab, 0); head != 5 {
		t.Errorf("head %d, want 5", head)
	}
}

// One cmid in a row on two nodes, at once on two nodes, and after both were killed and restarted.
func TestCase12_OneCmidOnTwoNodes(t *testing.T) {
	w := onNodes(t, 2)
	ab := w.conv("ab", "ana", "ben")
	one, two := w.onlineAt(0, "ana", "phone"), w.onlineAt(1, "ana", "tablet")
	sameAnswer(t, "in a row", []rawclient.Frame{one.send(ab, "row", "x"), two.send(ab, "row", "x"), one.send(ab, "row", "x")})
	for round := range 20 {
		cmid := fmt.Sprint("once", round)
		rids := [2]string{}
		var wg sync.WaitGroup
		for i, c := range []*client{one, two} {
			wg.Go(func() { rids[i] = c.post(F{"t": "send", "conv": ab, "cmid": cmid, "body": "x"}) })
		}
		wg.Wait()
		sameAnswer(t, cmid, []rawclient.Frame{one.reply(rids[0]), two.reply(rids[1])})
	}
	first := one.send(ab, "once0", "x")
	for _, n := range w.nodes {
		n.Kill()
	}
	for i, n := range w.nodes {
		n.MustRestart(t)
		again := w.onlineAt(i, "ana", "phone").send(ab, "once0", "x")
		if !again.Bool("dup") || again.Str("mid") != first.Str("mid") {
			t.Errorf("after the restart: %s, want dup of %s", again.Object, first.Object)
		}
	}
	if _, head := w.onlineAt(1, "ben", "phone").log(ab, 0); head != 21 {
		t.Errorf("head %d, want 21", head)
	}
}

// Fifty identical sends at once over three nodes: one row, and every loser gets the winner's answer.
func TestCase14_FiftyAtOnceOverThreeNodes(t *testing.T) {
	fiftyAtOnce(t, onNodes(t, 3))
}

func fiftyAtOnce(t *testing.T, w *world) {
	ab := w.conv("ab", "ana", "ben")
	clients := make([]*client, 50)
	for i := range clients {
		clients[i] = w.onlineAt(i%len(w.nodes), "ana", fmt.Sprint("d", i))
	}
	const rounds = 10
	for round := range rounds {
		cmid := fmt.Sprint("k", round)
		answers := make([]rawclient.Frame, len(clients))
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i, c := range clients {
			wg.Go(func() {
				<-start
				answers[i] = c.send(ab, cmid, "x")
			})
		}
		close(start)
		wg.Wait()
		sameAnswer(t, cmid, answers)
	}
	if _, head := clients[0].log(ab, 0); head != rounds {
		t.Errorf("head %d after %d rounds", head, rounds)
	}
}

// Three nodes are restarted in order, one after the other, under load with resends. Devices go to whichever answers.
func TestCase17_RollingRestartOfThreeNodes(t *testing.T) {
	w := onNodes(t, 3)
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.device("ana", "phone"), w.device("ben", "phone")
	ana.Start()
	ben.Start()
	posted := 0
	for round := range 2 {
		for i, n := range w.nodes {
			for range 60 {
				ana.Post(ab, fmt.Sprint("m", posted))
				posted++
			}
			if code, took := n.Terminate(15 * time.Second); code != 0 {
				t.Fatalf("round %d, node %d: SIGTERM under load: exit %d after %v", round, i, code, took)
			}
			n.MustRestart(t)
		}
	}
	log := w.std(ab, "ben", ana, ben)
	inOrder(t, log, posted)
}

// The database itself is killed under load, and recovers: what was in doubt is settled by its cmid.
func TestCase45_TheDatabaseIsKilledUnderLoad(t *testing.T) {
	t.Parallel()
	d := impart.OwnDatabase(t, nil)
	w := newWorldOn(t, d, 2, "IM_SWEEP_MS=500")
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.deviceAt(w.at(0), "ana", "phone"), w.deviceAt(w.at(1), "ben", "phone")
	for _, dev := range []*rawclient.Device{ana, ben} {
		dev.Start()
	}
	stop := make(chan struct{})
	var load sync.WaitGroup
	posted := 0
	load.Go(func() {
		for tick := time.NewTicker(5 * time.Millisecond); ; posted++ { // 200 a second, from two devices in turn
			select {
			case <-tick.C:
				[]*rawclient.Device{ana, ben}[posted%2].Post(ab, fmt.Sprint("m", posted))
			case <-stop:
				tick.Stop()
				return
			}
		}
	})
	for range 3 {
		<-time.After(700 * time.Millisecond)
		if err := d.Kill(); err != nil {
			t.Error(err)
		}
		if err := d.Start(context.Background()); err != nil {
			t.Error(err)
		}
	}
	<-time.After(300 * time.Millisecond)
	close(stop)
	load.Wait()
	log := w.std(ab, "ben", ana, ben)
	if len(log) != posted {
		t.Errorf("%d rows for %d messages", len(log), posted)
	}
	for _, n := range w.nodes {
		if breaks, _ := n.Metric(t, "im_bus_break_total", "listen"); breaks < 1 {
			t.Error("a node has not noticed that its bus was deaf: the kill did not bite")
		}
	}
}
