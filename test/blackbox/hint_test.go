package blackbox

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/impart"
	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// attempts counts the frames by which the server tried to deliver a conversation: pushes of events and hints why retry.
func attempts(frames []rawclient.Frame, conv string) (pushes map[int64]int, retries, sweeps int) {
	pushes = map[int64]int{}
	for _, f := range frames {
		switch {
		case f.T() == "event" && f.Obj("ev").Str("conv") == conv:
			pushes[f.Obj("ev").Int("seq")]++
		case f.T() == "hint" && f.Str("conv") == conv && f.Str("why") == "retry":
			retries++
		case f.T() == "hint" && f.Str("conv") == conv && f.Str("why") == "sweep":
			sweeps++
		}
	}
	return pushes, retries, sweeps
}

// ladder is the retry ladder of these tests: a push, three retries, and a last wait that only expires. Its first step is
// well above the time an acknowledgement takes here, so that no adaptation stretches it.
const ladder = "IM_RETRY_MS=200,300,400,500"

// afterLadder is when the ladder has surely ended on a busy machine.
const afterLadder = 4 * time.Second

// At most four attempts for one flow; new events after that are pushed once and not retried.
func TestRetriesStop(t *testing.T) {
	w := onOwn(t, ladder, "IM_SWEEP_MS=60000")
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	ana.send(ab, "k1", "unheard")
	ana.ack(ab, 1) // she owes an ack for her own message, too
	ben.event(ab, 1)
	ben.await("a retry", 0, func(f rawclient.Frame) bool {
		pushes, retries, _ := attempts(ben.Frames(), ab)
		return pushes[1]+retries >= 2
	})
	ben.noneFor(afterLadder, "a fifth attempt", 0, func(rawclient.Frame) bool {
		pushes, retries, _ := attempts(ben.Frames(), ab)
		return pushes[1]+retries > 4
	})
	pushes, retries, _ := attempts(ben.Frames(), ab)
	if n := pushes[1] + retries; n < 3 || n > 4 {
		t.Errorf("%d attempts (%d pushes, %d hints), want a push and up to 3 retries", n, pushes[1], retries)
	}
	if failed, _ := w.srv.Metric(t, "im_deliver_failed_total", `reason="ack_timeout"`); failed != 1 {
		t.Errorf("im_deliver_failed_total for ack_timeout is %v after one flow was given up, want 1", failed)
	}
	mark := ben.Mark()
	for i := range 5 {
		ana.send(ab, fmt.Sprint("n", i), "unheard too")
	}
	ben.event(ab, 6)
	ben.noneFor(afterLadder/2, "a retry of an exhausted flow", mark, func(rawclient.Frame) bool {
		frames, _, _ := ben.Since(mark)
		pushes, retries, _ := attempts(frames, ab)
		for _, n := range pushes {
			if n > 1 {
				return true
			}
		}
		return retries > 0
	})
	if f := ben.pull(10); len(f.List("convs")[0].List("events")) != 6 {
		t.Errorf("pulled %s, want all six: the pull carries what retries gave up", f.Object)
	}

	// The cursor moves: attempts start anew.
	ben.ack(ab, 6)
	mark = ben.Mark()
	ana.send(ab, "again", "x")
	ben.await("a retry after the cursor moved", mark, func(rawclient.Frame) bool {
		frames, _, _ := ben.Since(mark)
		pushes, retries, _ := attempts(frames, ab)
		return pushes[7]+retries >= 2
	})
}

// An ack ends the retries.
func TestNoRetryAfterTheAck(t *testing.T) {
	w := onOwn(t, ladder, "IM_SWEEP_MS=60000")
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	ana.send(ab, "k1", "heard")
	ben.event(ab, 1)
	ben.ack(ab, 1)
	mark := ben.Mark()
	ben.noneFor(afterLadder/2, "an attempt after the ack", mark, func(f rawclient.Frame) bool { return f.T() == "event" || f.T() == "hint" })
}

// One flow, one ladder: many unacknowledged events are not retried one by one for ever.
func TestRetriesArePerFlow(t *testing.T) {
	w := onOwn(t, ladder, "IM_SWEEP_MS=60000")
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	ana.sendMany(ab, "k", 20)
	ben.event(ab, 20)
	ben.noneFor(afterLadder, "a fifth attempt of any event", 0, func(rawclient.Frame) bool {
		pushes, retries, _ := attempts(ben.Frames(), ab)
		for _, n := range pushes {
			if n+retries > 4 {
				return true
			}
		}
		return false
	})
}

// Nothing is retried towards a device that is gone, and what it lacks waits for its pull.
func TestNoRetryForAnOfflineDevice(t *testing.T) {
	w := onOwn(t, ladder, "IM_SWEEP_MS=60000")
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	ana.send(ab, "k1", "x")
	ben.event(ab, 1)
	ben.Close()
	back := w.online("ben", "phone")
	page := back.pull(10).List("convs")[0]
	if len(page.List("events")) != 1 {
		t.Errorf("pulled %s, want the event", page)
	}
	back.ack(ab, 1)
	back.noneFor(afterLadder/2, "an attempt of the old connection's flow", back.Mark(), func(f rawclient.Frame) bool {
		return f.T() == "event" || f.T() == "hint"
	})
}

// A device that lags without a word is found by the sweep, once the ladder is over, and hinted until it has caught up.
func TestSweepHintsALaggard(t *testing.T) {
	w := onOwn(t, "IM_SWEEP_MS=500", "IM_RETRY_MS=100,100,100,100")
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	ana.sendMany(ab, "k", 3)
	f := ben.await("hint sweep", 0, isHint("sweep"))
	shaped(t, f.Object, hintShape)
	if f.Str("conv") != ab || f.Int("head") != 3 {
		t.Errorf("hint %s, want head 3 of %s", f.Object, ab)
	}
	ben.want("synced", F{"t": "sync", "conv": ab, "after": 0})
	ben.ack(ab, 3)
	ben.noneFor(3*time.Second, "a hint for a device that has caught up", ben.Mark(), isT("hint"))
}

// A subscribed device that was behind when it connected is found too, though no push was ever lost.
func TestSweepFindsWhoWasBehindBefore(t *testing.T) {
	w := onOwn(t, "IM_SWEEP_MS=500")
	ab := w.conv("ab", "ana", "ben")
	w.online("ana", "phone").sendMany(ab, "k", 3)
	ben := w.online("ben", "phone") // and asks for nothing
	ben.await("a hint", 0, func(f rawclient.Frame) bool { return f.T() == "hint" && f.Str("conv") == ab && f.Int("head") == 3 })
}

// A reader that falls behind costs at most its queue: past it pushes are dropped and replaced by one hint.
func TestOverflowIsOneHint(t *testing.T) {
	w := onOwn(t, "IM_SWEEP_MS=60000", "IM_RETRY_MS=60000,60000,60000,60000")
	ab := w.conv("ab", "ana", "ben")
	p := impart.NewProxy(t, w.srv.Addr)
	ana := w.online("ana", "phone")
	ben := w.loginAt(p.Addr(), "ben", "phone", nil)
	ben.want("subbed", F{"t": "sub"})
	p.Hold()
	const n = 600 // 24 MB: more than the sockets between hold
	body := strings.Repeat("x", 40_000)
	rids := []string{}
	for i := range n {
		rids = append(rids, ana.post(F{"t": "send", "conv": ab, "cmid": fmt.Sprint("k", i), "body": body}))
	}
	for _, rid := range rids {
		ana.reply(rid)
	}
	p.Release()
	f := ben.await("hint overflow", 0, isHint("overflow"))
	shaped(t, f.Object, hintShape)
	pushes, _, _ := attempts(ben.Frames(), ab)
	if len(pushes) == n {
		t.Errorf("all %d events were pushed to a reader that did not read", n)
	}
	if events, _ := ben.log(ab, 0); len(events) != n {
		t.Errorf("sync gives %d events, want %d", len(events), n)
	}
	hints := 0
	for _, f := range ben.Frames() {
		if isHint("overflow")(f) {
			hints++
		}
	}
	if dropped := n - len(pushes); hints > max(1, dropped/10) {
		t.Errorf("%d overflow hints for %d dropped pushes: a hint replaces many", hints, dropped)
	}
}
