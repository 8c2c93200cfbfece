package bus_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
)

func wakes(from, n int) []bus.Message {
	out := make([]bus.Message, n)
	for i := range out {
		out[i] = bus.Message{Kind: bus.Wake, Conv: impart.ConvID(fmt.Sprint(from + i))}
	}
	return out
}

var word = bus.Message{Kind: bus.Missed}

// holds wants these messages in the outbox, and this many dropped so far. It takes them.
func holds(t *testing.T, o *bus.Outbox, dropped int64, want ...bus.Message) {
	t.Helper()
	if n := o.Len(); n != len(want) {
		t.Errorf("%d messages wait, want %d", n, len(want))
	}
	if got := o.Take(nil); !slices.Equal(got, want) {
		t.Errorf("%d messages, the first of %v; want %d, the first of %v", len(got), first(got), len(want), first(want))
	}
	if n := o.Dropped(); n != dropped {
		t.Errorf("%d were dropped, want %d", n, dropped)
	}
}

func first(of []bus.Message) []bus.Message { return of[:min(3, len(of))] }

func TestAnOutboxKeepsTheOrder(t *testing.T) {
	o := bus.NewOutbox(0)
	o.Put(wakes(0, 3))
	o.Put(nil)
	o.Put(wakes(3, 2))
	select {
	case <-o.More():
	default:
		t.Error("the teller is not told that something waits")
	}
	holds(t, o, 0, wakes(0, 5)...)
	holds(t, o, 0)
}

func TestAnOutboxLeavesOutWhatOthersTell(t *testing.T) {
	o := bus.NewOutbox(bus.Wake)
	o.Put(wakes(0, 3))
	select {
	case <-o.More():
		t.Error("the teller is told of nothing")
	default:
	}
	typing := bus.Message{Kind: bus.Typing, Conv: "c"}
	o.Put([]bus.Message{wakes(0, 1)[0], typing})
	holds(t, o, 0, typing)
}

// Past the limit all that waits goes, and one word stands for it, which is no message.
func TestAFullOutboxSaysSoOnce(t *testing.T) {
	o := bus.NewOutbox(0)
	o.Put(wakes(0, bus.OutboxLimit))
	holds(t, o, 0, wakes(0, bus.OutboxLimit)...)
	for range 3 {
		o.Put(wakes(0, bus.OutboxLimit))
	}
	o.Put(wakes(7, 1))
	// The first filling takes the limit; each one after it is one message shorter, beside the word.
	if n, want := o.Dropped(), int64(3*bus.OutboxLimit-2); n != want {
		t.Errorf("%d were dropped, want %d", n, want)
	}
	kept := o.Take(nil)
	if int64(len(kept))-1+o.Dropped() != 3*bus.OutboxLimit+1 {
		t.Errorf("%d kept and %d dropped are not all that was published", len(kept)-1, o.Dropped())
	}
	if kept[0] != word || slices.Contains(kept[1:], word) || kept[len(kept)-1] != wakes(7, 1)[0] {
		t.Errorf("%d are kept: %v", len(kept), first(kept))
	}
}

// What waits was published later: it stays, and the word of the loss goes before it,
// once, also where what was lost had such a word itself.
func TestWhatCouldNotBeToldIsLostWithOneWord(t *testing.T) {
	o := bus.NewOutbox(0)
	o.Put(wakes(0, 2))
	taken := o.Take(nil)
	o.Put(wakes(2, 1))
	o.Lost(taken)
	o.Lost(wakes(0, 1))
	o.Lost(nil)
	want := append([]bus.Message{word}, wakes(2, 1)...)
	if n := o.Len(); n != 2 {
		t.Fatalf("%d wait, want %v", n, want)
	}
	taken = o.Take(nil)
	if !slices.Equal(taken, want) {
		t.Fatalf("%v waits, want %v", taken, want)
	}
	o.Lost(taken) // the word is lost too, and is no message
	holds(t, o, 4, word)
}

func TestAClosedOutboxTakesNothingAndWaitsForItsTeller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := bus.NewOutbox(0)
		o.Put(wakes(0, 1))
		began := time.Now()
		o.Close(time.Second)
		if took := time.Since(began); took != time.Second {
			t.Errorf("closing waited %v for a teller that is not there", took)
		}
		o.Put(wakes(1, 1))
		if o.Empty() {
			t.Error("it is empty before the rest is taken")
		}
		holds(t, o, 0, wakes(0, 1)...)
		if !o.Empty() {
			t.Error("it is not empty")
		}

		told := bus.NewOutbox(0)
		go func() {
			defer told.Finish()
			for range told.More() {
				if told.Empty() {
					return
				}
			}
		}()
		synctest.Wait()
		began = time.Now()
		told.Close(time.Second)
		if took := time.Since(began); took != 0 {
			t.Errorf("closing waited %v for a teller with nothing to tell", took)
		}
	})
}
