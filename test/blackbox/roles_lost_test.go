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

// A logic node dies after a commit, when nobody has been told of it; the sender's gateway before the reply; the receiver's
// gateway before the push. The receiver, which is silent, is told within the sweep's bound, or finds the message when it
// is back at the other gateway; the sender's answer is that of the first attempt.
func TestCase08_RolesDieBetweenCommitAndFanOut(t *testing.T) {
	t.Parallel()
	d := impart.Fresh(t)
	const sweep = 500 * time.Millisecond
	env := append(d.Env(), "IM_SWEEP_MS=500")
	start := func(role, fault string, logic ...*impart.Server) *impart.Server {
		return impart.StartWith(t, impart.Config{
			Args: []string{role}, Store: d.Store, Logic: logic, Env: append(slices.Clone(env), "IM_FAULT="+fault), Binary: impart.FaultBinary(t),
		})
	}
	logic := []*impart.Server{start("logic", "api.after_send_commit:halt:0:1"), start("logic", "")}
	w := &world{t: t, ns: fmt.Sprintf(".%d", worlds.Add(1))}
	w.nodes = []*impart.Server{start("gateway", "", logic...), start("gateway", "", logic...)}
	w.srv = w.nodes[0]
	told := func(ben *client, conv string, seq int64) {
		t.Helper()
		ben.awaitWithin(4*sweep+scaled(2*time.Second), "word of the message", 0, func(f rawclient.Frame) bool {
			return f.T() == "hint" && f.Str("conv") == conv && f.Int("head") == seq || isEvent(conv, seq)(f)
		})
		ben.ack(conv, seq)
	}
	ana, ben := w.onlineAt(0, "ana", "phone"), w.onlineAt(1, "ben", "phone")
	for i := 0; !logic[0].Ended(); i++ { // each conversation belongs to one of the nodes
		if i == 50 {
			t.Fatal("none of 50 conversations belongs to the node that is to die")
		}
		conv := w.conv(fmt.Sprint("logic", i), "ana", "ben")
		told(ben, conv, ana.send(conv, fmt.Sprint("k", i), "x").Int("seq"))
	}
	logic[0].Kill()
	logic[0].MustRestart(t, "IM_FAULT=")

	ab := w.conv("ab", "ana", "ben")
	w.nodes[0].Kill()
	w.nodes[0].MustRestart(t, "IM_FAULT=gw.reply.send:halt:0:1")
	ana = w.onlineAt(0, "ana", "phone")
	ana.post(F{"t": "send", "conv": ab, "cmid": "reply", "body": "x"})
	ana.ended(patience)
	told(ben, ab, 1)
	if f := w.onlineAt(1, "ana", "phone").send(ab, "reply", "x"); !f.Bool("dup") || f.Int("seq") != 1 {
		t.Errorf("the resend to the other gateway: %s, want dup of seq 1", f.Object)
	}
	w.nodes[0].MustRestart(t, "IM_FAULT=gw.push:halt:0:1")
	ben.Close()
	ben = w.onlineAt(0, "ben", "phone")
	ana = w.onlineAt(1, "ana", "phone")
	sent := ana.send(ab, "push", "x")
	ben.ended(patience)
	ben = w.loginAt(w.nodes[1].Addr(), "ben", "phone", nil)
	ben.want("subbed", F{"t": "sub"})
	page := ben.pull(100).List("convs")
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
