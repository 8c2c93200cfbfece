package blackbox

// Cases of messages that were accepted and then gone. Cases 3 and 7 need the SDK or a pool of database connections; they
// are tested where those are.

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/impart"
	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// All pushes to a device vanish although its connection lives: what is repaired must come through hints and syncs.
func TestCase02_PushesVanishOnALivingConnection(t *testing.T) {
	w := onOwn(t, "IM_SWEEP_MS=500", "IM_RETRY_MS=100,200,300,400")
	ab := w.conv("ab", "ana", "ben")
	p := impart.NewProxy(t, w.srv.Addr)
	var lost atomic.Int64
	p.Drop(func(frame []byte) bool {
		if o, err := rawclient.ParseObject(frame); err != nil || o.Str("t") != "event" {
			return false
		}
		lost.Add(1)
		return true
	})
	ana, ben := w.device("ana", "phone"), w.deviceAt(p.Addr, "ben", "phone")
	ben.Start()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := ben.AwaitWelcome(ctx); err != nil { // or nothing would be pushed to ben
		t.Fatal(err)
	}
	ana.Start()
	for i := range 30 {
		ana.Post(ab, fmt.Sprint("m", i))
	}
	settled(t, patience, ana)
	caughtUp(t, patience, ab, 30, ben)
	w.std(ab, "ben", ana, ben)
	if n := ben.Dials(); n != 1 || lost.Load() == 0 {
		t.Errorf("%d connections and %d lost pushes, want one and many", n, lost.Load())
	}
}

// Two devices of one user send 1,000 messages at the same time: both hold the same log, byte for byte.
func TestCase04_TwoDevicesInterleaved(t *testing.T) {
	w := onOwn(t)
	ab := w.conv("ab", "ana", "ben")
	phone, tablet := w.device("ana", "phone"), w.device("ana", "tablet")
	ben := w.device("ben", "phone")
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
	for _, d := range []struct{ device, prefix string }{{"phone", "p"}, {"tablet", "t"}} {
		i := 0
		for _, ev := range log {
			if strings.HasPrefix(ev.CMID, d.device+".") {
				if want := fmt.Sprint(d.prefix, i); ev.Body != want {
					t.Fatalf("%s: %q stands where %q belongs", d.device, ev.Body, want)
				}
				i++
			}
		}
	}
	one := w.login("ana", "x", nil).want("synced", F{"t": "sync", "conv": ab, "after": 0, "limit": 1000})
	two := w.login("ben", "x", nil).want("synced", F{"t": "sync", "conv": ab, "after": 0, "limit": 1000})
	if string(one.Object["events"]) != string(two.Object["events"]) {
		t.Error("two full syncs differ in their bytes")
	}
}

// kills is how many crashes case 5 makes: so many, or as many as IMPART_KILLS asks for.
func kills(t *testing.T, usual int) int {
	n, err := strconv.Atoi(os.Getenv("IMPART_KILLS"))
	if err != nil {
		return usual
	}
	t.Logf("%d kills as IMPART_KILLS says", n)
	return n
}

// kill -9 at random points of the send path.
func TestCase05_KilledAgainAndAgain(t *testing.T) {
	w := onOwn(t)
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.device("ana", "phone"), w.device("ben", "phone")
	ana.Start()
	ben.Start()
	posted := 0
	points := rand.New(rand.NewPCG(5, 5))
	for range kills(t, 15) {
		for range 40 {
			ana.Post(ab, fmt.Sprint("m", posted))
			posted++
		}
		// A kill is as likely before the connection as in the middle of a commit or after the last reply.
		<-time.After(time.Duration(points.IntN(120)) * time.Millisecond)
		w.srv.Kill()
		w.srv.MustRestart(t)
	}
	log := w.std(ab, "ben", ana, ben)
	inOrder(t, log, posted)
}

// The link is cut after the commit and before the reply: the resend gets the first seq and mid.
func TestCase06_CutBetweenCommitAndReply(t *testing.T) {
	w := onOwn(t)
	ab := w.conv("ab", "ana", "ben")
	p := impart.NewProxy(t, w.srv.Addr)
	p.Drop(func(frame []byte) bool { return strings.Contains(string(frame), `"sent"`) })
	ben := w.online("ben", "phone")
	ana := w.loginAt(p.Addr(), "ana", "phone", nil)
	for i := range 5 {
		cmid := fmt.Sprint("k", i)
		rid := ana.post(F{"t": "send", "conv": ab, "cmid": cmid, "body": "x"})
		ev := ben.event(ab, int64(i+1)) // it has been committed
		ana.alive()
		if slices.ContainsFunc(ana.Frames(), func(f rawclient.Frame) bool { return f.Str("rid") == rid }) {
			t.Fatal("the reply came through")
		}
		p.Cut()
		ana.ended(patience)
		direct := w.login("ana", "phone", nil)
		f := direct.send(ab, cmid, "x")
		if !f.Bool("dup") || f.Int("seq") != ev.Int("seq") || f.Str("mid") != ev.Str("mid") {
			t.Errorf("the resend: %s, want dup of %s", f.Object, ev)
		}
		ana = w.loginAt(p.Addr(), "ana", "phone", nil)
	}
	if _, head := ben.log(ab, 0); head != 5 {
		t.Errorf("head %d, want 5", head)
	}
}

// The node dies as soon as a sender has read `sent`: the receiver, which may have got no push, is hinted or finds it in
// subbed within the sweep bound after the restart.
func TestCase08_DiesBetweenCommitAndFanOut(t *testing.T) {
	w := onOwn(t, "IM_SWEEP_MS=500")
	ab := w.conv("ab", "ana", "ben")
	ben := w.device("ben", "phone")
	ben.Start()
	for i := range 5 {
		ana := w.online("ana", "phone")
		sent := ana.send(ab, fmt.Sprint("k", i), "x")
		w.srv.Kill()
		w.srv.MustRestart(t)
		caughtUp(t, 10*time.Second, ab, sent.Int("seq"), ben)
		events, _ := w.login("ben", "other", nil).log(ab, 0)
		if last := events[len(events)-1]; last.Mid != sent.Str("mid") || len(events) != i+1 {
			t.Fatalf("the log ends with %+v, sent was %s", last, sent.Object)
		}
	}
	w.std(ab, "ben", ben)
}

// An offline device, 500 sends, everything is killed and started again: the pull brings exactly those, in order.
func TestCase09_OfflineOverACrash(t *testing.T) {
	w := onOwn(t)
	ab := w.conv("ab", "ana", "ben")
	w.login("ben", "phone", nil).Close()
	w.online("ana", "phone").sendMany(ab, "k", 500)
	w.srv.Kill()
	w.srv.MustRestart(t)
	ben := w.online("ben", "phone")
	var got []int64
	for more := true; more; {
		f := ben.pull(100)
		for _, page := range f.List("convs") {
			for _, o := range page.List("events") {
				if ev := rawclient.ParseEvent(o); ev.Body != fmt.Sprint("k", ev.Seq) {
					t.Fatalf("seq %d is %q", ev.Seq, ev.Body)
				}
			}
			got = append(got, rawclient.Seqs(page.List("events"))...)
		}
		ben.ackPage(f)
		more = f.Bool("more")
	}
	for i, seq := range got {
		if seq != int64(i+1) {
			t.Fatalf("place %d holds seq %d", i+1, seq)
		}
	}
	if len(got) != 500 {
		t.Errorf("pulled %d, want 500", len(got))
	}
}

// 3,500 behind, and the link drops 20 times during the catch-up.
func TestCase10_CatchUpOverABadLink(t *testing.T) {
	w := onOwn(t)
	ab := w.conv("ab", "ana", "ben")
	w.login("ben", "phone", nil).Close()
	w.online("ana", "tablet").sendMany(ab, "k", 3500)
	p := impart.NewProxy(t, w.srv.Addr)
	p.CutAfter(45_000) // about 20 pieces of what 3,500 events take
	ben := w.deviceAt(p.Addr, "ben", "phone")
	ben.Start()
	caughtUp(t, bulk, ab, 3500, ben)
	w.std(ab, "ben", ben)
	if n := ben.Dials(); n < 10 {
		t.Errorf("the link dropped only %d times", n-1)
	}
	if n := len(ben.Applied()); n != 3500 {
		t.Errorf("the application saw %d events, want 3,500", n)
	}
}

// Started with no store named at all: data goes to ./impart-data and survives a crash.
func TestCase11_NoConfigurationAtAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := newWorld(t, impart.StartWith(t, impart.Config{Dir: dir, NoStore: true}))
	ab := w.conv("ab", "ana", "ben")
	sent := w.online("ana", "phone").send(ab, "k1", "kept")
	w.srv.Kill()
	if _, err := os.Stat(dir + "/impart-data/impart.db"); err != nil {
		t.Errorf("the default store: %v", err)
	}
	w.srv.MustRestart(t)
	events, _ := w.login("ben", "phone", nil).log(ab, 0)
	if len(events) != 1 || events[0].Body != "kept" || events[0].Mid != sent.Str("mid") {
		t.Errorf("after the crash the log is %+v", events)
	}
}
