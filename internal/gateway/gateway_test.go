package gateway

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/pending"
)

// noRetry keeps retries out of a story.
var noRetry = pending.Ladder{time.Hour, time.Hour, time.Hour, time.Hour}

func TestAMessageTravels(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		ana, tablet, ben := w.connect("u-ana", "d-phone"), w.connect("u-ana", "d-tablet"), w.connect("u-ben", "d-phone")
		sent := ana.says("c-ab", "m1", "hi")
		if sent.num("seq") != 1 || sent["dup"] != false {
			t.Fatalf("sent = %v", sent)
		}
		if f := ben.wants("event"); f.ev()["body"] != "hi" || f.ev().num("seq") != 1 || f.num("epoch") != 1 {
			t.Fatalf("event = %v", f)
		}
		tablet.wants("event") // the sender's other device gets it too
		ana.wants()           // the sending connection does not
		ben.acks("c-ab", 1)
		for _, cl := range []*client{ana, tablet} {
			if f := cl.wants("receipt"); f["user"] != "u-ben" || f.num("delivered") != 1 || f.num("read") != 0 {
				t.Fatalf("receipt = %v", f)
			}
		}
		ben.wants() // nor does a receipt go to the connection that caused it
	})
}

func TestOnlyHelloComesFirst(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		early := w.dial()
		early.send(`{"t":"sub","rid":"r1"}`)
		if f := early.wants("error"); f["code"] != "UNAUTHENTICATED" || f["rid"] != "r1" {
			t.Fatalf("error = %v", f)
		}
		<-early.done
		if early.status != unauthenticatedStatus {
			t.Fatalf("closed with %d", early.status)
		}
		silent := w.dial()
		time.Sleep(w.g.cfg.HelloTime + time.Millisecond)
		if f := silent.wants("error"); f["code"] != "UNAUTHENTICATED" {
			t.Fatalf("error = %v", f)
		}
		<-silent.done
		garbled := w.dial()
		garbled.send(`{"t":"hello","rid":"r1","token":"dev:u-ana","device":"d","proto":2}`)
		if f := garbled.wants("error"); f["code"] != "BAD_FRAME" {
			t.Fatalf("error = %v", f)
		}
		garbled.send(`{"t":"hello","rid":"r2","token":"dev:u-ana","device":"d","proto":1}`)
		garbled.wants("welcome")
		garbled.send(`{"t":"hello","rid":"r3","token":"dev:u-ana","device":"d","proto":1}`)
		if f := garbled.wants("error"); f["code"] != "BAD_FRAME" || f["rid"] != "r3" {
			t.Fatalf("error = %v", f)
		}
	})
}

func TestPipelinedSendsKeepTheirOrder(t *testing.T) {
	inBetween(t, nil, func(w *world, b *between) {
		ana := w.connect("u-ana", "d-phone")
		arrived := make(chan struct{})
		b.send.set(func() { <-arrived })
		commits := w.store.Stats().Commits
		for i := range 600 {
			ana.send(`{"t":"send","rid":"%d","conv":"c-ab","cmid":"m%d","body":"x"}`, i, i)
		}
		close(arrived)
		frames := ana.only("sent")
		if len(frames) != 600 {
			t.Fatalf("%d of 600 were sent", len(frames))
		}
		for i, f := range frames {
			if f["rid"] != fmt.Sprint(i) || f.num("seq") != impart.Seq(i+1) {
				t.Fatalf("answer %d is %v", i, f)
			}
		}
		if commits = w.store.Stats().Commits - commits; commits > 10 {
			t.Errorf("%d commits for 600 pipelined sends: they do not share commits", commits)
		}
	})
}

// What is more than a connection may have in flight stays in its socket, and
// nothing is refused (hole 15).
func TestInflightStopsReading(t *testing.T) {
	inWorld(t, func(c *Config) { c.MaxInflight = 8 }, func(w *world) {
		ana := w.connect("u-ana", "d-phone")
		release := make(chan struct{})
		w.store.OnCommit(func() error { <-release; return nil }, nil)
		written := 0
		go func() {
			for i := range 50 {
				ana.send(`{"t":"send","rid":"%d","conv":"c-ab","cmid":"m%d","body":"x"}`, i, i)
				ana.mu.Lock()
				written++
				ana.mu.Unlock()
			}
		}()
		synctest.Wait()
		ana.mu.Lock()
		if written > 9 {
			t.Errorf("%d requests were read with 8 allowed in flight", written)
		}
		ana.mu.Unlock()
		close(release)
		if sent := ana.only("sent"); len(sent) != 50 {
			t.Fatalf("%d of 50 were sent", len(sent))
		}
	})
}

func TestRetriesClimbTheLadderAndStop(t *testing.T) {
	inWorld(t, func(c *Config) { c.Sweep = time.Hour }, func(w *world) {
		ana, ben := w.connect("u-ana", "d-phone"), w.connect("u-ben", "d-phone")
		start := time.Now()
		ana.says("c-ab", "m1", "hi")
		ben.wants("event") // attempt 1
		for attempt, at := range []time.Duration{time.Second, 4 * time.Second, 11 * time.Second} {
			time.Sleep(time.Until(start.Add(at - 10*time.Millisecond)))
			ben.wants()
			time.Sleep(scanEvery + 20*time.Millisecond)
			if f := ben.wants("event"); f.ev().num("seq") != 1 {
				t.Fatalf("attempt %d: %v", attempt+2, f)
			}
		}
		time.Sleep(time.Minute) // the last wait only expires
		ben.wants()
		ana.says("c-ab", "m2", "still there?")
		ben.wants("event") // live, but a spent flow gets no new attempts
		time.Sleep(time.Minute)
		ben.wants()
		if n, _ := w.g.cfg.Pending.Len(w.t.Context()); n != 0 {
			t.Errorf("%d flows are pending", n)
		}
		ben.acks("c-ab", 1) // the cursor moves: attempts start anew
		time.Sleep(1300 * time.Millisecond)
		if f := ben.wants("event"); f.ev().num("seq") != 2 {
			t.Fatalf("after the ack: %v", f)
		}
		ben.acks("c-ab", 2)
		time.Sleep(time.Minute)
		ben.wants()
	})
}

func TestSeveralMissingEventsAreHintedOnce(t *testing.T) {
	inWorld(t, func(c *Config) { c.Sweep = time.Hour }, func(w *world) {
		ana, ben := w.connect("u-ana", "d-phone"), w.connect("u-ben", "d-phone")
		for i := range 5 {
			ana.says("c-ab", fmt.Sprint("m", i), "hi")
		}
		ben.wants("event", "event", "event", "event", "event")
		time.Sleep(1300 * time.Millisecond)
		if f := ben.wants("hint"); f["why"] != "retry" || f["conv"] != "c-ab" || f.num("head") != 5 {
			t.Fatalf("hint = %v", f)
		}
	})
}

// An ack that arrives before the push of the same event was worked off, as the
// sender's own does, leaves nothing behind.
func TestAnAckMayOvertakeThePush(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		ana := w.connect("u-ana", "d-phone")
		w.bus.lose.Store(int32(bus.Wake))
		ana.says("c-ab", "m1", "hi")
		ana.acks("c-ab", 1)
		w.bus.lose.Store(0)
		w.g.hear(bus.Message{Kind: bus.Wake, Conv: "c-ab", From: 1, Head: 1})
		time.Sleep(2 * time.Minute)
		ana.wants()
	})
}

func TestALostWakeIsSwept(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		ana, ben := w.connect("u-ana", "d-phone"), w.connect("u-ben", "d-phone")
		ana.acks("c-ab", 0)
		w.bus.lose.Store(int32(bus.Wake))
		ana.says("c-ab", "m1", "hi")
		ben.wants()
		time.Sleep(w.g.cfg.Sweep)
		if f := ben.wants("hint"); f["why"] != "sweep" || f["conv"] != "c-ab" || f.num("head") != 1 {
			t.Fatalf("hint = %v", f)
		}
		ben.acks("c-ab", 1)
		time.Sleep(2 * w.g.cfg.Sweep)
		ben.wants()
		ana.acks("c-ab", 1)
		time.Sleep(5 * w.g.cfg.Sweep)
		asked := w.store.Stats().Reads
		time.Sleep(10 * w.g.cfg.Sweep)
		if reads := w.store.Stats().Reads - asked; reads > 12 {
			t.Errorf("10 idle sweeps read the store %d times", reads)
		}
	})
}

// A mute device that is alive is hinted ever less often, up to once a minute; a
// silent one at every sweep (hole 14).
func TestAMuteDeviceIsHintedLessOften(t *testing.T) {
	for _, mute := range []bool{false, true} {
		inWorld(t, func(c *Config) { c.Heartbeat = time.Hour; c.Compare = time.Hour }, func(w *world) {
			ana, ben := w.connect("u-ana", "d-phone"), w.connect("u-ben", "d-phone")
			ben.mu.Lock()
			ben.mute = mute
			ben.mu.Unlock()
			w.bus.lose.Store(int32(bus.Wake))
			ana.says("c-ab", "m1", "hi")
			time.Sleep(10*time.Minute + time.Millisecond)
			hints := len(ben.only("hint"))
			if mute && hints < 115 {
				t.Errorf("a silent device got %d hints in 10 min, want one a sweep", hints)
			}
			if !mute && (hints < 9 || hints > 16) {
				t.Errorf("a mute device got %d hints in 10 min, want them to slow down to one a minute", hints)
			}
			ben.acks("c-ab", 1)
			ana.says("c-ab", "m2", "hi again")
			time.Sleep(w.g.cfg.Sweep * 2)
			if hints := ben.only("hint"); len(hints) == 0 {
				t.Error("after the cursor moved, hints do not start anew")
			}
		})
	}
}

// A client that acknowledges on another road (HTTP) is not hinted for it.
func TestACursorThatMovedElsewhereIsNotHinted(t *testing.T) {
	inWorld(t, func(c *Config) {
		c.Ladder = noRetry
	}, func(w *world) {
		ana, ben := w.connect("u-ana", "d-phone"), w.connect("u-ben", "d-phone")
		ana.says("c-ab", "m1", "hi")
		ben.wants("event")
		conns := w.g.conns.of("u-ben")
		w.logic.Ack(w.t.Context(), impart.Ack{Session: conns[0].session, Items: []impart.AckItem{{Conv: "c-ab", Seq: 1}}})
		time.Sleep(time.Minute)
		if hints := ben.only("hint"); len(hints) > 0 {
			t.Errorf("hinted all the same: %v", hints)
		}
	})
}

// A reader that takes nothing costs its queue, and one hint replaces what did
// not fit (D15).
func TestAStuckReaderGetsOneHint(t *testing.T) {
	inWorld(t, func(c *Config) { c.QueueFrames = 10; c.Sweep = time.Hour; c.Ladder = noRetry }, func(w *world) {
		ana, ben := w.connect("u-ana", "d-phone"), w.connect("u-ben", "d-phone")
		<-ben.gate
		for i := range 100 {
			ana.says("c-ab", fmt.Sprint("m", i), "hi")
		}
		c := w.g.conns.of("u-ben")[0]
		c.out.mu.Lock()
		if len(c.out.frames) > 10 {
			t.Errorf("%d frames wait for a stuck reader, 10 are allowed", len(c.out.frames))
		}
		c.out.mu.Unlock()
		ben.gate <- struct{}{}
		frames := ben.take()
		last := frames[len(frames)-1]
		if last.t() != "hint" || last["why"] != "overflow" || last["conv"] != nil {
			t.Fatalf("the last frame is %v, want one hint to pull", last)
		}
		for _, f := range frames[:len(frames)-1] {
			if f.t() != "event" {
				t.Errorf("got %v between the events", f)
			}
		}
		ana.says("c-ab", "m-after", "hi")
		ben.wants("event") // live again
	})
}

func TestTheNewerConnectionOfADeviceWins(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		older := w.connect("u-ben", "d-phone")
		newer := w.connect("u-ben", "d-phone")
		other := w.connect("u-ben", "d-tablet")
		f := older.wants("bye")
		if f["code"] != "SUPERSEDED" || f["final"] != true {
			t.Fatalf("bye = %v", f)
		}
		<-older.done
		newer.wants()
		other.wants()
		if n := w.g.Connections(); n != 2 {
			t.Errorf("%d connections", n)
		}
	})
}

func TestRevokedUsersAreClosed(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		ana, ben := w.connect("u-ana", "d-phone"), w.connect("u-ben", "d-phone")
		_, err := w.logic.RevokeUser(w.t.Context(), "u-ben")
		must(w.t, err)
		if f := ben.wants("bye"); f["code"] != "REVOKED" || f["final"] != true {
			t.Fatalf("bye = %v", f)
		}
		ana.wants()
	})
}

func TestExpiredAndIdleConnectionsAreClosed(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		cl := w.dial()
		cl.send(`{"t":"hello","token":"dev:u-ana:40s","device":"d","proto":1}`)
		cl.wants("welcome")
		time.Sleep(35 * time.Second)
		cl.wants()
		time.Sleep(15 * time.Second)
		if f := cl.wants("bye"); f["code"] != "EXPIRED" || f["final"] != false {
			t.Fatalf("bye = %v", f)
		}
		alive, dead := w.connect("u-ana", "d1"), w.connect("u-ana", "d2")
		dead.mu.Lock()
		dead.mute = true
		dead.mu.Unlock()
		time.Sleep(5 * w.g.cfg.Heartbeat)
		if f := dead.wants("bye"); f["code"] != "IDLE" {
			t.Fatalf("bye = %v", f)
		}
		alive.wants()
	})
}

// Whoever was silent while the process did not run was not heard, and is not dead.
func TestTimeInWhichTheProcessDidNotRunIsNoSilence(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		beat := w.g.cfg.Heartbeat
		ana := w.connect("u-ana", "d")
		ana.set(func(cl *client) { cl.mute = true })
		time.Sleep(9 * beat / 4)
		w.g.beat(beat/4, 2*beat+beat/4) // as after two heartbeats in which nothing ran
		time.Sleep(2 * beat)
		ana.wants()
		time.Sleep(beat)
		if f := ana.wants("bye"); f["code"] != "IDLE" {
			t.Errorf("bye = %v", f)
		}
	})
}

func TestDrainFinishesWhatIsInFlight(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		ana := w.connect("u-ana", "d-phone")
		release := make(chan struct{})
		w.store.OnCommit(func() error { <-release; return nil }, nil)
		ana.send(`{"t":"send","rid":"r","conv":"c-ab","cmid":"m1","body":"x"}`)
		synctest.Wait()
		drained := make(chan error)
		go func() { drained <- w.g.Drain(w.t.Context()) }()
		ana.wants()
		close(release)
		f := ana.wants("sent", "bye")
		if f["code"] != "DRAIN" || f["final"] != false || f.num("reconnect_after_ms") == 0 {
			t.Fatalf("bye = %v", f)
		}
		must(w.t, <-drained)
		if err := w.g.Health(); err == nil {
			t.Error("a drained gateway says that it is ready")
		}
	})
}

// After an epoch was raised every connection is told, and what was known of its
// cursors is void.
func TestARaisedEpochResumesEverybody(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		ana, ben := w.connect("u-ana", "d-phone"), w.connect("u-ben", "d-phone")
		ana.says("c-ab", "m1", "hi")
		ben.wants("event")
		epoch, err := w.logic.RaiseEpoch(w.t.Context())
		must(w.t, err)
		if f := ben.wants("hint"); f["why"] != "resume" || f["conv"] != nil || f.num("epoch") != impart.Seq(epoch) {
			t.Fatalf("hint = %v", f)
		}
		ben.send(`{"t":"ack","rid":"a","conv":"c-ab","seq":1,"epoch":1}`)
		if f := ben.wants("error"); f["code"] != "EPOCH_CHANGED" || f.num("epoch") != impart.Seq(epoch) {
			t.Fatalf("error = %v", f)
		}
	})
}

// Whoever was removed gets not one frame more than their leave event, by no
// road (D8).
func TestARemovedMemberGetsNothingMore(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.conversation("c-abc", "u-ana", "u-ben", "u-cleo")
		ana, cleo := w.connect("u-ana", "d-phone"), w.connect("u-cleo", "d-phone")
		ana.says("c-abc", "m1", "hi")
		cleo.wants("event")
		_, err := w.logic.RemoveMember(w.t.Context(), "c-abc", "u-cleo")
		must(w.t, err)
		if f := cleo.wants("event"); f.ev()["kind"] != "leave" || f.ev()["user"] != "u-cleo" {
			t.Fatalf("event = %v", f)
		}
		cleo.acks("c-abc", 2)
		ana.says("c-abc", "m2", "she is gone")
		ana.send(`{"t":"typing","conv":"c-abc"}`)
		ana.acks("c-abc", 3)
		w.bus.lose.Store(int32(bus.Wake))
		ana.says("c-abc", "m3", "really")
		time.Sleep(10 * time.Minute)
		cleo.wants()
	})
}

// A member who joined later is told no more by a receipt than their own head.
func TestReceiptsTellNoMoreThanTheHead(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		ana, ben, cleo := w.connect("u-ana", "d-phone"), w.connect("u-ben", "d-phone"), w.connect("u-cleo", "d-phone")
		ana.says("c-ab", "m1", "before cleo")
		_, err := w.logic.PutMember(w.t.Context(), "c-ab", impart.Member{User: "u-cleo"})
		must(w.t, err)
		cleo.wants("event") // her join, seq 2
		ana.send(`{"t":"recall","rid":"r","conv":"c-ab","seq":1,"cmid":"r1"}`)
		synctest.Wait()
		cleo.wants() // the target is not hers to see
		ben.acks("c-ab", 3)
		if f := cleo.wants("receipt"); f.num("delivered") != 2 {
			t.Fatalf("receipt = %v: her head is 2", f)
		}
	})
}

func TestTypingGoesToOthersOnly(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		ana, tablet, ben := w.connect("u-ana", "d-phone"), w.connect("u-ana", "d-tablet"), w.connect("u-ben", "d-phone")
		ana.send(`{"t":"typing","conv":"c-ab"}`)
		if f := ben.wants("typing"); f["user"] != "u-ana" || f["conv"] != "c-ab" {
			t.Fatalf("typing = %v", f)
		}
		ana.wants()
		tablet.wants()
	})
}

func TestTypingIsNotPassedOnMoreOftenThanAnybodyCanRead(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		ana, ben := w.connect("u-ana", "d-phone"), w.connect("u-ben", "d-phone")
		for range 100 {
			ana.send(`{"t":"typing","conv":"c-ab"}`)
		}
		ben.wants("typing")
		time.Sleep(typingEvery)
		ana.send(`{"t":"typing","conv":"c-ab"}`)
		ben.wants("typing")
		ana.wants()
	})
}

func TestAConnectionHasABudget(t *testing.T) {
	inWorld(t, func(c *Config) { c.MaxRate = 10 }, func(w *world) {
		ana := w.connect("u-ana", "d-phone")
		time.Sleep(time.Minute)
		for i := range 30 {
			ana.send(`{"t":"ping","rid":"%d"}`, i)
		}
		limited := 0
		for _, f := range ana.take() {
			if f.t() == "error" && f["code"] == "RATE_LIMITED" && f["retry"] == true && f.num("retry_after_ms") > 0 {
				limited++
			}
		}
		if limited != 20 {
			t.Errorf("%d of 30 pings were refused, the budget is 10", limited)
		}
	})
}

func TestTooLargeFrames(t *testing.T) {
	inWorld(t, func(c *Config) { c.MaxFrame = 2048 }, func(w *world) {
		ana := w.connect("u-ana", "d-phone")
		ana.send(`{"t":"send","rid":"big","conv":"c-ab","cmid":"m1","body":"%s"}`, strings.Repeat("x", 3000))
		if f := ana.wants("error"); f["code"] != "TOO_LARGE" || f["rid"] != "big" {
			t.Fatalf("error = %v", f)
		}
		ana.says("c-ab", "m2", "goes on")
	})
}
