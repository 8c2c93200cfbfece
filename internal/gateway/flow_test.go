package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/pending"
)

// A network whose acknowledgements take 2 s is not answered with a retry after
// 1 s (hole 5); one that is quick keeps the ladder.
func TestTheLadderFollowsTheMeasuredTime(t *testing.T) {
	var unmeasured, quick, slow rtt
	for range 20 {
		quick.sample(20 * time.Millisecond)
		slow.sample(2 * time.Second)
	}
	if got := unmeasured.ladder(pending.DefaultLadder); got != pending.DefaultLadder {
		t.Errorf("unmeasured: %v", got)
	}
	if got := quick.ladder(pending.DefaultLadder); got != pending.DefaultLadder {
		t.Errorf("quick: %v", got)
	}
	got := slow.ladder(pending.DefaultLadder)
	if got[0] < 2*time.Second || got[0] > 4*time.Second || got[3] < got[2] || got[2] < got[1] {
		t.Errorf("slow: %v", got)
	}
	var jittery rtt
	for i := range 40 {
		jittery.sample(time.Duration(i%2) * 2 * time.Second)
	}
	if got := jittery.ladder(pending.DefaultLadder); got[0] < 2*time.Second {
		t.Errorf("with a jitter of 2 s the first wait is %v", got[0])
	}
	var dead rtt
	dead.sample(time.Hour)
	if got := dead.ladder(pending.DefaultLadder); got[0] > maxWait {
		t.Errorf("unbounded: %v", got)
	}
}

// peek looks at what is known of the one connection of a user.
func (w *world) peek(user impart.UserID, look func(c *conn)) {
	w.t.Helper()
	synctest.Wait()
	conns := w.g.conns.of(user)
	if len(conns) != 1 {
		w.t.Fatalf("%s has %d connections", user, len(conns))
	}
	conns[0].mu.Lock()
	defer conns[0].mu.Unlock()
	look(conns[0])
}

// A push of what was acknowledged before is waited for by nobody: its time is
// not that of the next acknowledgement.
func TestAPushThatWasOvertakenIsNotTimed(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		ana, ben := w.connect("u-ana", "d"), w.connect("u-ben", "d")
		w.bus.lose.Store(int32(bus.Wake))
		ana.says("c-ab", "m1", "hi")
		ben.acks("c-ab", 1)
		w.bus.lose.Store(0)
		w.g.hear(bus.Message{Kind: bus.Wake, Conv: "c-ab", From: 1, Head: 1})
		time.Sleep(9 * time.Second) // no sweep falls on what follows
		ana.says("c-ab", "m2", "hi")
		time.Sleep(50 * time.Millisecond)
		ben.acks("c-ab", 2)
		w.peek("u-ben", func(c *conn) {
			if c.rtt.smoothed != 50*time.Millisecond {
				t.Errorf("an ack after 50 ms was measured as %v", c.rtt.smoothed)
			}
		})
	})
}

// Nor is that of one that the device learned of by a retry or a hint (Karn).
func TestARepeatedPushIsNotTimed(t *testing.T) {
	for _, ladder := range []pending.Ladder{pending.DefaultLadder, noRetry} {
		inWorld(t, func(c *Config) { c.Ladder = ladder }, func(w *world) {
			ana, ben := w.connect("u-ana", "d"), w.connect("u-ben", "d")
			ana.says("c-ab", "m1", "hi")
			time.Sleep(2 * w.g.cfg.Sweep)
			if n := len(ben.take()); n < 2 {
				t.Errorf("ben got %d frames", n)
			}
			ben.acks("c-ab", 1)
			w.peek("u-ben", func(c *conn) {
				if c.rtt != (rtt{}) {
					t.Errorf("measured: %+v", c.rtt)
				}
			})
			ana.says("c-ab", "m2", "hi") // the next one counts again
			time.Sleep(time.Millisecond)
			ben.acks("c-ab", 2)
			w.peek("u-ben", func(c *conn) {
				if c.rtt.smoothed != time.Millisecond {
					t.Errorf("measured: %+v", c.rtt)
				}
			})
		})
	}
}

// A former member sees the recall of a message of their time (D8), acknowledges
// it, and is left alone.
func TestAFormerMemberCatchesUpWithARecall(t *testing.T) {
	registry := prometheus.NewRegistry()
	inWorld(t, func(c *Config) { c.Metrics, c.Ladder = registry, noRetry }, func(w *world) {
		w.conversation("c-abc", "u-ana", "u-ben", "u-cleo")
		ana, cleo := w.connect("u-ana", "d"), w.connect("u-cleo", "d")
		ana.says("c-abc", "m1", "a secret")
		_, err := w.logic.RemoveMember(w.t.Context(), "c-abc", "u-cleo")
		must(w.t, err)
		cleo.wants("event", "event")
		ana.send(`{"t":"recall","rid":"r","conv":"c-abc","seq":1,"cmid":"r1"}`)
		if f := cleo.wants("event"); f.ev()["kind"] != "recall" || f.ev().num("seq") != 3 {
			t.Fatalf("event = %v", f)
		}
		time.Sleep(w.g.cfg.Sweep)
		if f := cleo.wants("hint"); f.num("head") != 3 {
			t.Fatalf("hint = %v", f)
		}
		cleo.acks("c-abc", 3)
		ana.acks("c-abc", 3)
		time.Sleep(10 * time.Minute)
		cleo.wants()
		asked := counted(t, registry, "im_sweep_asked_total", "")
		time.Sleep(w.g.cfg.Sweep - time.Second) // the windows of two sweeps have what comes now
		ana.says("c-abc", "m2", "she does not see this")
		ana.acks("c-abc", 4)
		time.Sleep(10 * w.g.cfg.Sweep)
		cleo.wants()
		if asked = counted(t, registry, "im_sweep_asked_total", "") - asked; asked != 1 {
			t.Errorf("the store was asked %v times where cleo stands, after one message", asked)
		}
	})
}

// More conversations than are remembered: the device is told of all of them
// in the end, a part at a time.
func TestMoreFlowsThanAreRemembered(t *testing.T) {
	inWorld(t, func(c *Config) { c.Ladder, c.Compare = noRetry, time.Hour }, func(w *world) {
		const many = maxFlows + 200
		ana, ben := w.connect("u-ana", "d"), w.connect("u-ben", "d")
		w.bus.lose.Store(int32(bus.Wake))
		for i := range many {
			w.conversation(conversationOf(i), "u-ana", "u-ben")
			ana.send(`{"t":"send","rid":"r","conv":"%s","cmid":"m%d","body":"x"}`, conversationOf(i), i)
		}
		hinted := map[string]bool{}
		for range 60 {
			time.Sleep(w.g.cfg.Sweep)
			hints := ben.only("hint")
			if len(hints) > maxHints {
				t.Errorf("%d hints in one sweep", len(hints))
			}
			for _, f := range hints {
				hinted[f["conv"].(string)] = true
				ben.send(`{"t":"ack","rid":"a","conv":"%s","seq":1}`, f["conv"])
			}
			w.peek("u-ben", func(c *conn) {
				if len(c.flows) > maxFlows {
					t.Fatalf("%d flows are remembered", len(c.flows))
				}
			})
		}
		if len(hinted) != many {
			t.Errorf("%d of %d were hinted", len(hinted), many)
		}
		w.peek("u-ben", func(c *conn) {
			if len(c.flows) != 0 || c.more {
				t.Errorf("%d flows are left, and more is %v", len(c.flows), c.more)
			}
		})
	})
}

// Only a cursor that moves starts attempts anew, and a partial move does (D10).
func TestAnAckThatMovesNothingStartsNothing(t *testing.T) {
	inWorld(t, func(c *Config) { c.Sweep = time.Hour }, func(w *world) {
		ana, ben := w.connect("u-ana", "d"), w.connect("u-ben", "d")
		ben.acks("c-ab", 0)
		ana.says("c-ab", "m1", "hi")
		ana.says("c-ab", "m2", "hi")
		time.Sleep(time.Minute)
		ben.wants("event", "event", "hint", "hint", "hint")
		ben.acks("c-ab", 0)
		time.Sleep(time.Minute)
		ben.wants()
		ben.acks("c-ab", 1)
		time.Sleep(time.Minute)
		ben.wants("event", "event", "event")
		ben.acks("c-ab", 2)
		if n, _ := w.g.cfg.Pending.Len(w.t.Context()); n != 0 {
			t.Errorf("%d flows are pending", n)
		}
	})
}

// A device that was hinted less and less, and then moves a part of the way, is
// hinted at the next sweep.
func TestAMovedCursorIsHintedSoon(t *testing.T) {
	inWorld(t, func(c *Config) { c.Ladder, c.Heartbeat = noRetry, time.Hour }, func(w *world) {
		ana, ben := w.connect("u-ana", "d"), w.connect("u-ben", "d")
		ana.says("c-ab", "m1", "hi")
		ana.says("c-ab", "m2", "hi")
		time.Sleep(10*time.Minute + time.Second) // no sweep falls on the ack
		ben.acks("c-ab", 1)
		time.Sleep(2 * w.g.cfg.Sweep)
		if hints := ben.only("hint"); len(hints) == 0 {
			t.Error("no hint")
		}
	})
}

// A wake-up that comes late, of what is long known, takes nothing back.
func TestALateWakeTakesNothingBack(t *testing.T) {
	inWorld(t, func(c *Config) { c.Ladder = noRetry }, func(w *world) {
		ana, ben := w.connect("u-ana", "d"), w.connect("u-ben", "d")
		ana.says("c-ab", "m1", "hi")
		ana.says("c-ab", "m2", "hi")
		ben.take()
		w.g.hear(bus.Message{Kind: bus.Wake, Conv: "c-ab", From: 1, Head: 1})
		ben.acks("c-ab", 1)
		w.peek("u-ben", func(c *conn) {
			if f := c.flows["c-ab"]; f.head != 2 || !f.lags() {
				t.Errorf("%+v", *f)
			}
		})
	})
}

// What was pushed a moment before the sweep may just be on its way back.
func TestAFreshPushIsNotHinted(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		ana, ben := w.connect("u-ana", "d"), w.connect("u-ben", "d")
		time.Sleep(time.Until(w.g.started.Add(3*w.g.cfg.Sweep - freshness/2)))
		ana.says("c-ab", "m1", "hi")
		time.Sleep(freshness)
		ben.wants("event")
	})
}

// Flows that are due together are all tried, however many.
func TestAllDueFlowsAreTried(t *testing.T) {
	inWorld(t, func(c *Config) { c.Sweep = time.Hour }, func(w *world) {
		ana, ben := w.connect("u-ana", "d"), w.connect("u-ben", "d")
		for i := range 2*scanLimit + 1 {
			w.conversation(conversationOf(i), "u-ana", "u-ben")
			ana.send(`{"t":"send","rid":"r","conv":"%s","cmid":"m%d","body":"x"}`, conversationOf(i), i)
		}
		ben.take()
		time.Sleep(time.Second + scanEvery)
		if again := ben.only("event"); len(again) != 2*scanLimit+1 {
			t.Errorf("%d were tried", len(again))
		}
	})
}

// Attempts end with what the sweep learned of a cursor that moved elsewhere.
func TestAFlowThatCaughtUpElsewhereIsNotTried(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		ana, ben := w.connect("u-ana", "d"), w.connect("u-ben", "d")
		ana.says("c-ab", "m1", "hi")
		w.logic.Ack(w.t.Context(), impart.Ack{Session: w.g.conns.of("u-ben")[0].session, Items: []impart.AckItem{{Conv: "c-ab", Seq: 1}}})
		time.Sleep(w.g.cfg.Sweep + time.Second)
		ben.wants("event", "event", "event")
		time.Sleep(time.Minute)
		ben.wants()
	})
}

// forgets takes from the set what it holds, as Redis may lose it.
func (w *world) forgets() {
	for _, c := range w.g.conns.all() {
		must(w.t, w.g.cfg.Pending.Drop(w.t.Context(), c.id))
	}
}

// What the set has forgotten the gateway knows: a flow gets no more attempts for it.
func TestASetThatForgetsGivesNoAttemptsAnew(t *testing.T) {
	inWorld(t, func(c *Config) { c.Sweep = time.Hour }, func(w *world) {
		ana, ben := w.connect("u-ana", "d-phone"), w.connect("u-ben", "d-phone")
		ana.says("c-ab", "m1", "hi")
		ben.wants("event")
		time.Sleep(5 * time.Second)
		ben.wants("event", "event") // attempts 2 and 3
		w.forgets()
		ana.says("c-ab", "m2", "still there?")
		ben.wants("event")
		time.Sleep(time.Second + scanEvery)
		if f := ben.wants("hint"); f["why"] != "retry" { // attempt 4
			t.Errorf("hint = %v", f)
		}
		for i := range 3 {
			time.Sleep(time.Minute)
			ana.says("c-ab", fmt.Sprint("m", 3+i), "still there?")
			ben.wants("event") // live, and no more
			w.forgets()
		}
		if n, _ := w.g.cfg.Pending.Len(t.Context()); n != 0 {
			t.Errorf("%d flows are pending", n)
		}
		ben.acks("c-ab", 1)
		time.Sleep(time.Second + scanEvery)
		ben.wants("hint")
	})
}

// A cursor that moves elsewhere gives attempts anew too.
func TestACursorThatMovesElsewhereGivesAttemptsAnew(t *testing.T) {
	inWorld(t, func(c *Config) { c.Sweep = 20 * time.Second }, func(w *world) {
		ana, ben := w.connect("u-ana", "d"), w.connect("u-ben", "d")
		ben.acks("c-ab", 0)
		ana.says("c-ab", "m1", "hi")
		time.Sleep(27 * time.Second)
		ben.take() // every attempt, and the hint of a sweep
		w.logic.Ack(w.t.Context(), impart.Ack{Session: w.g.conns.of("u-ben")[0].session, Items: []impart.AckItem{{Conv: "c-ab", Seq: 1}}})
		time.Sleep(14 * time.Second) // a sweep finds out
		ben.take()
		ana.says("c-ab", "m2", "hi")
		ben.wants("event")
		time.Sleep(time.Second + scanEvery)
		ben.wants("event")
	})
}

// deadSet is a set whose server can be taken away. Like the one in Redis it answers
// without asking where there is nothing to ask.
type deadSet struct {
	pending.Set
	down atomic.Bool
}

func (s *deadSet) Due(ctx context.Context, limit int) ([]pending.Entry, error) {
	if s.down.Load() {
		return nil, errors.New("nobody answers")
	}
	return s.Set.Due(ctx, limit)
}

func (s *deadSet) Inherit(context.Context, int) ([]pending.Entry, error) { return nil, nil }

// That the pending set is down is told once, and that it works again when it does.
func TestADeadSetIsToldOnce(t *testing.T) {
	set := &deadSet{Set: pending.NewLocal()}
	var told strings.Builder
	inWorld(t, func(c *Config) { c.Pending, c.Log = set, slog.New(slog.NewTextHandler(&told, nil)) }, func(w *world) {
		ana, ben := w.connect("u-ana", "d"), w.connect("u-ben", "d")
		count := func(when string, downs, ups int) {
			t.Helper()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if d, u := strings.Count(told.String(), "set failed"), strings.Count(told.String(), "works again"); d != downs || u != ups {
				t.Errorf("%s: told %d times that it failed and %d times that it works, want %d and %d", when, d, u, downs, ups)
			}
		}
		set.down.Store(true)
		ana.says("c-ab", "m1", "hi")
		ben.take()
		count("down", 1, 0)
		set.down.Store(false)
		count("up", 1, 1)
	})
}
