package gateway

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
)

func TestWakesAreMerged(t *testing.T) {
	w := newWakes()
	wants := func(conv impart.ConvID, want span) {
		t.Helper()
		if c, got, ok := w.next(); c != conv || got != want || !ok {
			t.Errorf("next is %s %v %v, want %s %v", c, got, ok, conv, want)
		}
	}
	w.add("a", span{5, 6, 2})
	w.add("b", span{1, 1, 1})
	w.add("a", span{3, 4, 1})
	w.add("a", span{9, 9, 3})
	wants("a", span{3, 9, 3})
	w.add("a", span{10, 10, 3}) // while it is being pushed
	w.add("a", span{11, 12, 0}) // of unknown members
	w.add("a", span{13, 13, 4})
	wants("b", span{1, 1, 1})
	w.done("b")
	w.done("a")
	wants("a", span{10, 13, 0})
	w.done("a")
	if len(w.spans) != 0 {
		t.Errorf("%d spans are left", len(w.spans))
	}
	w.close()
	if _, _, ok := w.next(); ok {
		t.Error("there is something after the end")
	}
}

func TestWakesAreBoundedAndTheRestIsSwept(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		ana, ben := w.connect("u-ana", "d"), w.connect("u-ben", "d")
		w.g.wakes.mu.Lock()
		for i := range maxWakes {
			w.g.wakes.spans[conversationOf(i)] = &span{}
		}
		w.g.wakes.mu.Unlock()
		ana.says("c-ab", "m1", "hi")
		if f := ben.wants("hint"); f["why"] != "sweep" {
			t.Fatalf("hint = %v", f)
		}
		if w.g.wakes.add("one more", span{1, 1, 0}) {
			t.Error("there is no bound")
		}
	})
}

// A wake-up of more events than one read gives.
func TestALongSpanIsPushedToItsEnd(t *testing.T) {
	inWorld(t, func(c *Config) { c.Ladder = noRetry }, func(w *world) {
		ana, ben := w.connect("u-ana", "d"), w.connect("u-ben", "d")
		w.bus.lose.Store(int32(bus.Wake))
		for i := range 450 {
			ana.send(`{"t":"send","rid":"r","conv":"c-ab","cmid":"m%d","body":"x"}`, i)
		}
		ana.take()
		w.g.hear(bus.Message{Kind: bus.Wake, Conv: "c-ab", From: 1, Head: 450})
		events := ben.only("event")
		if len(events) != 450 {
			t.Fatalf("%d events", len(events))
		}
		for i, f := range events {
			if f.ev().num("seq") != impart.Seq(i+1) {
				t.Fatalf("event %d is %v", i, f)
			}
		}
	})
}

// Nothing is read for those who are not here.
func TestNobodyHereCostsNoRead(t *testing.T) {
	inWorld(t, func(c *Config) { c.Sweep = time.Hour }, func(w *world) {
		for _, someone := range []bool{false, true} {
			allowed := int64(0)
			if someone {
				allowed = 1 // of who may see it
				if apart() {
					allowed++ // of the epoch, which a logic node reads once a second
				}
				w.connect("u-dan", "d") // of another conversation
			}
			for i := range 3 {
				sent := w.logic.Send(w.t.Context(), []impart.Send{{Sender: "u-ana", Conv: "c-ab", CMID: impart.CMID(fmt.Sprint(someone, i)), Type: "text"}})
				must(w.t, sent[0].Err)
			}
			reads := w.store.Stats().Reads
			w.g.hear(bus.Message{Kind: bus.Wake, Conv: "c-ab", From: 1, Head: 3})
			synctest.Wait()
			if n := w.store.Stats().Reads - reads; n > allowed {
				t.Errorf("someone else here is %v: %d reads", someone, n)
			}
		}
	})
}

// Two subs of one connection are one subscription.
func TestASecondSubChangesNothing(t *testing.T) {
	inBetween(t, nil, func(w *world, b *between) {
		ana, ben := w.connect("u-ana", "d"), w.connect("u-ben", "d")
		ben.send(`{"t":"sub","rid":"again"}`)
		ben.wants("subbed")
		ana.says("c-ab", "m1", "hi")
		ben.wants("event")
		ben.acks("c-ab", 1)
		time.Sleep(w.g.cfg.Sweep)
		if n := b.compared.Load(); n != 3 {
			t.Errorf("three subs read the store %d times", n)
		}
		compared := b.compared.Load()
		time.Sleep(time.Hour)
		if n := b.compared.Load() - compared; n < 2*13 || n > 2*40 {
			t.Errorf("two connections were compared %d times in an hour", n)
		}
	})
}

// A device that starts anew is told of all its conversations, until it was.
func TestANewInstallIsToldOfAll(t *testing.T) {
	inBetween(t, nil, func(w *world, b *between) {
		ben := w.said("u-ben", "d")
		ben.wants("welcome")
		b.refuse.set(func(impart.Session) error { b.refuse.set(nil); return impart.Errorf(impart.Unavailable, "try again") })
		ben.send(`{"t":"sub","rid":"1"}`)
		ben.wants("error")
		for _, want := range []int{1, 0} {
			ben.send(`{"t":"sub","rid":"2"}`)
			if convs, _ := ben.wants("subbed")["convs"].([]any); len(convs) != want {
				t.Errorf("told of %d conversations, want %d", len(convs), want)
			}
		}
	})
}
