package blackbox

// Cases of messages that came twice, with one node. Case 15 is the SDK's, in client; case 16 needs a fault inside a
// transaction.

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/impart"
	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// One cmid in a row, at once on one link, at once on many links, after a crash: one row, one (seq, mid).
func TestCase12_OneCmidManyTimes(t *testing.T) {
	w := onOwn(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	answers := []rawclient.Frame{ana.send(ab, "row", "x"), ana.send(ab, "row", "x")}
	rids := []string{}
	for range 20 {
		rids = append(rids, ana.post(F{"t": "send", "conv": ab, "cmid": "link", "body": "x"}))
	}
	for _, rid := range rids {
		answers = append(answers, ana.reply(rid))
	}
	clients := []*client{}
	for i := range 10 {
		clients = append(clients, w.online("ana", fmt.Sprint("d", i)))
	}
	var wg sync.WaitGroup
	start := make(chan struct{})
	posted := make([]string, len(clients))
	for i, c := range clients {
		wg.Go(func() {
			<-start
			posted[i] = c.post(F{"t": "send", "conv": ab, "cmid": "many", "body": "x"})
		})
	}
	close(start)
	wg.Wait()
	for i, c := range clients {
		answers = append(answers, c.reply(posted[i]))
	}
	w.srv.Kill()
	w.srv.MustRestart(t)
	ana = w.online("ana", "phone")
	for _, cmid := range []string{"row", "link", "many"} {
		answers = append(answers, ana.send(ab, cmid, "x"))
	}
	first := map[string]int{}
	mids := map[int64]string{}
	for _, f := range answers {
		if f.T() != "sent" {
			t.Fatalf("an answer is %s", f.Object)
		}
		seq := f.Int("seq")
		if mid, ok := mids[seq]; ok && mid != f.Str("mid") {
			t.Errorf("seq %d has mids %s and %s", seq, mid, f.Str("mid"))
		}
		mids[seq] = f.Str("mid")
		if !f.Bool("dup") {
			first[f.Str("mid")]++
		}
	}
	events, head := ana.log(ab, 0)
	if head != 3 || len(events) != 3 || len(mids) != 3 {
		t.Errorf("head %d, %d events, answers %v: want three of each", head, len(events), mids)
	}
	for mid, n := range first {
		if n > 1 {
			t.Errorf("%d answers claim to have stored %s first", n, mid)
		}
	}
}

// Fifty devices of one user send the same message at once: one row, and every loser gets the winner's answer.
func TestCase14_FiftyAtOnce(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	clients := make([]*client, 50)
	for i := range clients {
		clients[i] = w.online("ana", fmt.Sprint("d", i))
	}
	for round := range 10 {
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
		stored := 0
		for _, f := range answers {
			if f.T() != "sent" || f.Int("seq") != int64(round+1) || f.Str("mid") != answers[0].Str("mid") {
				t.Fatalf("round %d: an answer is %s, another %s", round, f.Object, answers[0].Object)
			}
			if !f.Bool("dup") {
				stored++
			}
		}
		if stored != 1 {
			t.Errorf("round %d: %d of fifty answers say that they stored it", round, stored)
		}
	}
	if _, head := clients[0].log(ab, 0); head != 10 {
		t.Errorf("head %d after ten rounds", head)
	}
}

// The node is restarted in good order again and again, under load with resends.
func TestCase17_RestartsUnderLoad(t *testing.T) {
	w := onOwn(t)
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.device("ana", "phone"), w.device("ben", "phone")
	ana.Start()
	ben.Start()
	posted := 0
	for range 4 {
		for range 100 {
			ana.Post(ab, fmt.Sprint("m", posted))
			posted++
		}
		if code, took := w.srv.Terminate(15 * time.Second); code != 0 {
			t.Fatalf("SIGTERM under load: exit %d after %v", code, took)
		}
		w.srv.MustRestart(t)
	}
	log := w.std(ab, "ben", ana, ben)
	inOrder(t, log, posted)
}

// Four late replies to four attempts arrive together: the same seq and mid in each, and one event.
func TestCase13_LateRepliesTogether(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	p := impart.NewProxy(t, w.srv.Addr)
	ben := w.online("ben", "phone")
	ana := w.loginAt(p.Addr(), "ana", "phone", nil)
	p.Hold()
	rids := []string{}
	for range 4 {
		rids = append(rids, ana.post(F{"t": "send", "conv": ab, "cmid": "k", "body": "x"}))
	}
	ev := ben.event(ab, 1)
	p.Release()
	stored := 0
	for _, rid := range rids {
		f := ana.reply(rid)
		if f.Int("seq") != 1 || f.Str("mid") != ev.Str("mid") {
			t.Errorf("reply %s, want seq 1 and mid %s", f.Object, ev.Str("mid"))
		}
		if !f.Bool("dup") {
			stored++
		}
	}
	if stored != 1 {
		t.Errorf("%d of four replies say that they stored it", stored)
	}
}

// The same event comes by push, retries and sync: the application sees it once.
func TestCase18_OneEventByManyRoads(t *testing.T) {
	w := onOwn(t, "IM_RETRY_MS=100,100,100,100", "IM_SWEEP_MS=500")
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	ana.sendMany(ab, "k", 3)
	ben.await("a repeated attempt", 0, func(rawclient.Frame) bool {
		pushes, retries, sweeps := attempts(ben.Frames(), ab)
		return pushes[1]+retries+sweeps > 1
	})
	ben.log(ab, 0)
	ben.pull(10)
	ben.Close()
	d := w.device("ben", "phone")
	d.Start()
	caughtUp(t, patience, ab, 3, d)
	ana.send(ab, "k4", "k4")
	caughtUp(t, patience, ab, 4, d)
	for i, ev := range d.Applied() {
		if ev.Seq != int64(i+1) {
			t.Fatalf("the application saw %v", seqsOf(d.Applied()))
		}
	}
	if len(d.Applied()) != 4 {
		t.Errorf("the application saw %v, want 1..4 once each", seqsOf(d.Applied()))
	}
}

// Receive, ack, reconnect, ten times: nothing comes again once its ack was answered.
func TestCase19_NothingAgainAfterTheAck(t *testing.T) {
	nothingAgain(t, onOwn(t, often...))
}

// often is for stories in which something must not come again.
var often = []string{"IM_RETRY_MS=100,100,100,100", "IM_SWEEP_MS=300"}

// nothingAgain reconnects, at whichever server is next.
func nothingAgain(t *testing.T, w *world) {
	ab := w.conv("ab", "ana", "ben", "cai")
	ana := w.online("ana", "phone")
	var witnesses []*client // word of a message that is late at a server may push it again to who has just come there
	for i := range w.nodes {
		witnesses = append(witnesses, w.onlineAt(i, "cai", fmt.Sprint("d", i)))
	}
	for i := range 10 {
		ben := w.login("ben", "phone", nil)
		if l := ben.lag(ab); i > 0 && l != nil {
			t.Fatalf("round %d: %s", i, l)
		}
		sent := ana.send(ab, fmt.Sprint("k", i), "x")
		ben.event(ab, sent.Int("seq"))
		ben.ack(ab, sent.Int("seq"))
		mark := ben.Mark()
		if f := ben.pull(10); len(f.List("convs")) != 0 {
			t.Fatalf("round %d: pulled %s", i, f.Object)
		}
		for _, f := range ben.Frames() {
			if f.T() == "event" && f.Obj("ev").Int("seq") < sent.Int("seq") {
				t.Errorf("round %d: seq %d came again", i, f.Obj("ev").Int("seq"))
			}
		}
		if i == 9 {
			ben.noneFor(1500*time.Millisecond, "anything after the ack", mark+1, func(f rawclient.Frame) bool { return f.T() == "event" || f.T() == "hint" })
		}
		for _, cai := range witnesses {
			cai.event(ab, sent.Int("seq"))
		}
		ben.Close()
	}
}

// Acks that are garbled, for another conversation, beyond head, negative or overflowing move nothing and end nothing.
func TestCase20_ForgedAcksMoveNothing(t *testing.T) {
	w := onShared(t)
	ab, bc := w.conv("ab", "ana", "ben"), w.conv("bc", "ben", "cai")
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	ben.sendMany(ab, "k", 5)
	ben.sendMany(bc, "k-bc", 5)
	seqs := []string{"6", "-1", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1e99", "NaN", `"5"`, "null", "true", "[5]", "5.5", "{}", ""}
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		conv, seq := []string{ab, bc, "c-none", ".", ""}[i%5], seqs[rnd.IntN(len(seqs))]
		if conv != ab {
			seq = []string{seq, "5", "1"}[rnd.IntN(3)]
		}
		raw := fmt.Sprintf(`{"t":"ack","rid":"g%d","conv":%q,"seq":%s}`, i, conv, seq)
		if i%3 == 0 {
			raw = fmt.Sprintf(`{"t":"ack","rid":"g%d","acks":[{"conv":%q,"seq":%s}]}`, i, conv, seq)
		}
		if err := ana.Text(raw); err != nil {
			t.Fatal(err)
		}
	}
	ana.alive()
	if c := ana.convsOf()[ab]; c.Int("delivered") != 0 {
		t.Errorf("%s: a forged ack moved the cursor", c)
	}
	if c := ben.convsOf()[bc]; c.Int("delivered") != 0 {
		t.Errorf("%s: a forged ack moved another user's cursor", c)
	}
	if f := ana.pull(100); len(f.List("convs")) != 1 || len(f.List("convs")[0].List("events")) != 5 {
		t.Errorf("pulled %s, want all five", f.Object)
	}
}
