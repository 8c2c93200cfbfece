package blackbox

// The cases of messages that were accepted and then gone, with gateways and logic nodes apart and a Redis.

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/impart"
	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// onApart gives a world of gateways and logic nodes with a Redis, whatever the run is about.
func onApart(t *testing.T, gateways, nodes int, env ...string) (w *world, logic []*impart.Server) {
	t.Helper()
	t.Parallel()
	return startRoles(t, impart.Fresh(t), gateways, nodes, env...)
}

// rounds is how often a story does something: where the run is about the roles, as often as it takes.
func rounds(few, many int) int {
	if os.Getenv("IMPART_SHAPE") == "roles" {
		return many
	}
	return few
}

// A gateway or a logic node is killed at random points of the send path, and now and then all of them at once.
func TestCase05_RolesAreKilledAgainAndAgain(t *testing.T) {
	w, logic := onApart(t, 2, 2, "IM_SWEEP_MS=500")
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.device("ana", "phone"), w.device("ben", "phone")
	ana.Start()
	ben.Start()
	processes := slices.Concat(w.nodes, logic)
	posted := 0
	points := rand.New(rand.NewPCG(5, 6))
	for round := range kills(t, rounds(5, 20)) {
		for range 40 {
			ana.Post(ab, fmt.Sprint("m", posted))
			posted++
		}
		<-time.After(time.Duration(points.IntN(120)) * time.Millisecond)
		dead := processes
		if round%(len(processes)+1) < len(processes) {
			dead = processes[round%(len(processes)+1):][:1]
		}
		for _, p := range dead {
			p.Kill()
		}
		for _, p := range slices.Backward(dead) { // the logic nodes first
			p.MustRestart(t)
		}
	}
	inOrder(t, w.std(ab, "ben", ana, ben), posted)
}

// faultyRoles gives a world of two gateways and two logic nodes that take fault points; the first logic node has one.
func faultyRoles(t *testing.T, fault string, env ...string) (w *world, logic []*impart.Server) {
	t.Helper()
	t.Parallel()
	d := impart.Fresh(t)
	start := func(role, fault string) *impart.Server {
		return impart.StartWith(t, impart.Config{
			Args: []string{role}, Store: d.Store, Logic: logic, Env: slices.Concat(d.Env(), env, []string{"IM_FAULT=" + fault}), Binary: impart.FaultBinary(t),
		})
	}
	first, second := start("logic", fault), start("logic", "")
	logic = []*impart.Server{first, second}
	w = &world{t: t, ns: fmt.Sprintf(".%d", worlds.Add(1))}
	w.nodes = []*impart.Server{start("gateway", ""), start("gateway", "")}
	w.srv = w.nodes[0]
	return w, logic
}

// hears waits until the client has word of a message, at most that long, and acknowledges it.
func (c *client) hears(within time.Duration, conv string, seq int64) {
	c.t.Helper()
	c.awaitWithin(within, "word of the message", 0, func(f rawclient.Frame) bool {
		return f.T() == "hint" && f.Str("conv") == conv && f.Int("head") == seq || isEvent(conv, seq)(f)
	})
	c.ack(conv, seq)
}

// sweepBound is how long word of a message may take that nobody was told of, at a sweep of 500 ms.
var sweepBound = 2*time.Second + scaled(2*time.Second)

// A logic node dies after a commit, when nobody has been told of it. The receiver, which is silent at another gateway, is
// told within the sweep's bound; the sender's gateway gets the first attempt's answer from the other node.
func TestCase08_RolesDieBetweenCommitAndFanOut(t *testing.T) {
	w, logic := faultyRoles(t, "api.after_send_commit:halt:0:1", "IM_SWEEP_MS=500")
	ana, ben := w.onlineAt(0, "ana", "phone"), w.onlineAt(1, "ben", "phone")
	for i := 0; !logic[0].Ended(); i++ { // each conversation belongs to one of the nodes
		if i == 50 {
			t.Fatal("none of 50 conversations belongs to the node that is to die")
		}
		conv := w.conv(fmt.Sprint("c", i), "ana", "ben")
		sent := ana.send(conv, fmt.Sprint("k", i), "x")
		ben.hears(sweepBound, conv, sent.Int("seq"))
		if events, _ := ben.log(conv, 0); len(events) != 1 || events[0].Mid != sent.Str("mid") {
			t.Errorf("the log is %+v, sent was %s", events, sent.Object)
		}
	}
}

// The sender's gateway dies before the reply, and the receiver's before the push: the resend to the other gateway is
// known, and the receiver, back at the other one, is given what it lacks.
func TestCase08_RolesDieBeforeReplyAndPush(t *testing.T) {
	w, _ := faultyRoles(t, "", "IM_SWEEP_MS=500")
	ab := w.conv("ab", "ana", "ben")
	ben := w.onlineAt(1, "ben", "phone")
	w.nodes[0].Kill()
	w.nodes[0].MustRestart(t, "IM_FAULT=gw.reply.send:halt:0:1")
	ana := w.onlineAt(0, "ana", "phone")
	ana.post(F{"t": "send", "conv": ab, "cmid": "reply", "body": "x"})
	ana.ended(patience)
	ben.hears(sweepBound, ab, 1)
	ana = w.onlineAt(1, "ana", "phone")
	if f := ana.send(ab, "reply", "x"); !f.Bool("dup") || f.Int("seq") != 1 {
		t.Errorf("the resend to the other gateway: %s, want dup of seq 1", f.Object)
	}
	w.nodes[0].Kill() // it has gone by itself
	w.nodes[0].MustRestart(t, "IM_FAULT=gw.push:halt:0:1")
	ben.Close()
	ben = w.onlineAt(0, "ben", "phone")
	sent := ana.send(ab, "push", "x")
	ben.ended(patience)
	page := w.onlineAt(1, "ben", "phone").pull(100).List("convs")
	if len(page) != 1 || page[0].Int("through") != sent.Int("seq") || len(page[0].List("events")) != 1 {
		t.Errorf("back at the other gateway ben is given %v, want seq %d", page, sent.Int("seq"))
	}
	if !w.nodes[0].Ended() {
		t.Error("the gateway that was to die at a push lives")
	}
}

// Redis is wiped, and killed and replaced by an empty one, again and again under load at two gateways: the seqs stay 1..n,
// each message is there once, and whoever resends an old one is given its seq.
func TestCase21_RedisIsWipedAndReplacedUnderLoad(t *testing.T) {
	t.Parallel()
	d := impart.Fresh(t)
	w, _ := startRoles(t, d, 2, 2, "IM_SWEEP_MS=500")
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.deviceAt(w.at(0), "ana", "phone"), w.deviceAt(w.at(1), "ben", "phone")
	old := w.onlineAt(0, "ana", "tablet")
	first := old.send(ab, "old", "old")
	ana.Start()
	ben.Start()
	stop := w.load(ab, ana, ben)
	resend := func() {
		t.Helper()
		if again := old.send(ab, "old", "old"); !again.Bool("dup") || again.Int("seq") != first.Int("seq") || again.Str("mid") != first.Str("mid") {
			t.Errorf("an old message sent again: %s, want dup of %s", again.Object, first.Object)
		}
	}
	for range rounds(1, 3) {
		<-time.After(500 * time.Millisecond)
		d.Redis.Wipe(t)
		resend()
		<-time.After(300 * time.Millisecond)
		d.Redis.Kill()
		resend()
		<-time.After(700 * time.Millisecond)
		d.Redis.Start(t)
		resend()
	}
	posted := stop()
	log := w.std(ab, "ben", ana, ben)
	if len(log) != posted+1 {
		t.Errorf("%d rows for %d messages", len(log), posted+1)
	}
	failed := 0.0
	for _, gateway := range w.nodes {
		n, _ := gateway.Metric(t, "im_redis_failed_total", "")
		failed += n
	}
	if failed == 0 {
		t.Error("no exchange with Redis has failed: the kills did not bite")
	}
}

// load posts 200 messages a second from the devices in turn, until it is stopped; it then tells how many.
func (w *world) load(conv string, devices ...*rawclient.Device) (stop func() int) {
	over, posted := make(chan struct{}), 0
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for ; ; posted++ {
			select {
			case <-tick.C:
				devices[posted%len(devices)].Post(conv, fmt.Sprint("m", posted))
			case <-over:
				return
			}
		}
	})
	stop = sync.OnceValue(func() int {
		close(over)
		wg.Wait()
		return posted
	})
	w.t.Cleanup(func() { stop() })
	return stop
}

// The primary of the database, or each server of a cluster in turn, is killed at 200 sends a second and comes back: what
// was in doubt is settled by its cmid.
func TestCase45_TheDatabaseUnderTheRolesIsKilled(t *testing.T) {
	t.Parallel()
	d := impart.Own(t)
	w, _ := startRoles(t, d, 2, 2, "IM_SWEEP_MS=500")
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.hasty(w.at(0), "ana", "phone"), w.hasty(w.at(1), "ben", "phone")
	ana.Start()
	ben.Start()
	stop := w.load(ab, ana, ben)
	for range rounds(1, 3) {
		<-time.After(700 * time.Millisecond)
		d.KillDatabase(t)
		<-time.After(300 * time.Millisecond)
		d.StartDatabase(t)
	}
	<-time.After(300 * time.Millisecond)
	posted := stop()
	log := w.std(ab, "ben", ana, ben)
	if len(log) != posted {
		t.Errorf("%d rows for %d messages", len(log), posted)
	}
}
