package logic_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/logic"
	"github.com/impart-im/impart/internal/store"
	"github.com/impart-im/impart/internal/store/memstore"
)

func (w *world) pull(session impart.Session, limit int) impart.Pulled {
	w.t.Helper()
	pulled, err := w.Pull(w.ctx, impart.Pull{Session: session, Limit: limit})
	if err != nil {
		w.t.Fatal(err)
	}
	return pulled
}

// ackAll acknowledges what a pull brought.
func (w *world) ackAll(session impart.Session, pulled impart.Pulled) {
	w.t.Helper()
	ack := impart.Ack{Session: session, Epoch: pulled.Epoch}
	for _, page := range pulled.Convs {
		ack.Items = append(ack.Items, impart.AckItem{Conv: page.Conv, Seq: page.Through})
	}
	for _, acked := range w.Ack(w.ctx, ack) {
		if acked.Err != nil {
			w.t.Fatal(acked.Err)
		}
	}
}

func eventsOf(pulled impart.Pulled) int {
	n := 0
	for _, page := range pulled.Convs {
		n += len(page.Events)
	}
	return n
}

func TestAnOfflineDevicePullsEverythingInOrder(t *testing.T) { // cases 9 and 28
	w := newWorld(t)
	w.group("c", ana, ben)
	session := w.device(ben, "phone")
	w.sayMany(ana, "c", 500)
	again := startWorld(t, w.memory.Reopen())
	var seqs []impart.Seq
	for {
		pulled := again.pull(session, 0)
		for _, page := range pulled.Convs {
			if page.Head != 500 || page.Floor != 0 {
				t.Fatalf("head %d, floor %d", page.Head, page.Floor)
			}
			for _, ev := range page.Events {
				seqs = append(seqs, ev.Seq)
			}
		}
		again.ackAll(session, pulled)
		if !pulled.More {
			break
		}
	}
	if len(seqs) != 500 {
		t.Fatalf("%d events", len(seqs))
	}
	for i, seq := range seqs {
		if seq != impart.Seq(i+1) {
			t.Fatalf("seq %d in place %d", seq, i+1)
		}
	}
	if rest := again.pull(session, 0); len(rest.Convs) != 0 || rest.More {
		t.Errorf("afterwards %+v", rest)
	}
}

func TestThePageIsTheSameUntilItIsAcknowledged(t *testing.T) {
	w := newWorld(t)
	for i := range 15 {
		conv := impart.ConvID(fmt.Sprintf("c%02d", i))
		w.group(conv, ana, ben)
		w.sayMany(ana, conv, 1+i*3)
	}
	session := w.device(ben, "phone")
	for more := true; more; {
		first, second := w.pull(session, 20), w.pull(session, 20)
		if !reflect.DeepEqual(first, second) {
			t.Fatalf("two pulls without an ack between them differ:\n%+v\n%+v", first, second)
		}
		w.ackAll(session, first)
		more = first.More
	}
}

func TestTurnsAreSharedAndWhatIsLeftIsGivenRoundAgain(t *testing.T) {
	w := newWorld(t)
	for conv, n := range map[impart.ConvID]int{"a": 50, "b": 2, "c": 50} {
		w.group(conv, ana, ben)
		w.sayMany(ana, conv, n)
	}
	session := w.device(ben, "phone")
	pulled := w.pull(session, 30) // ten each; b leaves eight, four more for each of the others
	got := map[impart.ConvID]int{}
	for _, page := range pulled.Convs {
		got[page.Conv] = len(page.Events)
		if page.Through != impart.Seq(len(page.Events)) || page.More != (page.Conv != "b") {
			t.Errorf("%s: through %d after %d events, more %v", page.Conv, page.Through, len(page.Events), page.More)
		}
	}
	if got["a"] != 14 || got["b"] != 2 || got["c"] != 14 || !pulled.More {
		t.Errorf("turns of %v, more %v", got, pulled.More)
	}
}

func TestAPageIsSharedByTenAtATime(t *testing.T) {
	w := newWorld(t)
	for i := range 20 {
		conv := impart.ConvID(fmt.Sprintf("c%02d", i))
		w.group(conv, ana, ben)
		w.sayMany(ana, conv, 15)
	}
	session := w.device(ben, "phone")
	for _, from := range []int{0, 10} {
		pulled := w.pull(session, 100)
		if len(pulled.Convs) != 10 || !pulled.More {
			t.Fatalf("%d conversations, more %v", len(pulled.Convs), pulled.More)
		}
		for i, page := range pulled.Convs {
			if want := fmt.Sprintf("c%02d", from+i); len(page.Events) != 10 || string(page.Conv) != want {
				t.Errorf("%d events of %s, want 10 of %s", len(page.Events), page.Conv, want)
			}
		}
		w.ackAll(session, pulled)
	}
}

func TestAConversationThatCannotBeReadStaysBehindAlone(t *testing.T) { // case 33
	sick := true
	var w *world
	broken := &faulty{page: func(query store.PageQuery) error {
		if sick && query.Conv == "c5" {
			return errors.New("a damaged page of the table")
		}
		return nil
	}}
	memory := memstore.New(memstore.Options{})
	broken.Store = memory
	w = startWorld(t, memory, func(cfg *logic.Config) { cfg.Store = broken })
	for i := range 10 {
		conv := impart.ConvID(fmt.Sprint("c", i))
		w.group(conv, ana, ben)
		w.say(ana, conv, "hi")
	}
	session := w.device(ben, "phone")
	pulled := w.pull(session, 100)
	if len(pulled.Convs) != 9 || len(pulled.Failed) != 1 || pulled.Failed[0] != (impart.PullFailure{Conv: "c5", Code: impart.Unavailable}) {
		t.Fatalf("pulled %d conversations, failed %+v", len(pulled.Convs), pulled.Failed)
	}
	if pulled.More {
		t.Error("nobody should pull again for the one that fails alone")
	}
	w.ackAll(session, pulled)
	sick = false
	pulled = w.pull(session, 100)
	if len(pulled.Convs) != 1 || pulled.Convs[0].Conv != "c5" || len(pulled.Convs[0].Events) != 1 || len(pulled.Failed) != 0 {
		t.Errorf("the next pull brought %+v", pulled)
	}
}

func TestConversationsThatFailDoNotHideThoseBehindThem(t *testing.T) {
	memory := memstore.New(memstore.Options{})
	w := startWorld(t, memory, func(cfg *logic.Config) {
		cfg.Store = &faulty{Store: memory, page: func(query store.PageQuery) error {
			if query.Conv < "z" {
				return errors.New("a damaged table")
			}
			return nil
		}}
	})
	for i := range 150 {
		conv := impart.ConvID(fmt.Sprintf("bad %03d", i))
		w.group(conv, ana, ben)
		w.say(ana, conv, "hi")
	}
	w.group("z", ana, ben)
	w.say(ana, "z", "hi")
	pulled := w.pull(w.device(ben, "phone"), 1)
	if len(pulled.Convs) != 1 || pulled.Convs[0].Conv != "z" || len(pulled.Failed) != 150 || pulled.More {
		t.Errorf("pulled %d conversations, %d failed, more %v", len(pulled.Convs), len(pulled.Failed), pulled.More)
	}
}

func TestAPullIsAllOfOneEpoch(t *testing.T) {
	memory := memstore.New(memstore.Options{})
	raise := false
	w := startWorld(t, memory, func(cfg *logic.Config) {
		cfg.Store = &faulty{Store: memory, page: func(store.PageQuery) error {
			if raise {
				raise = false
				_, err := memory.RaiseEpoch(context.Background(), 7)
				return err
			}
			return nil
		}}
	})
	for _, conv := range []impart.ConvID{"a", "b"} {
		w.group(conv, ana, ben)
		w.sayMany(ana, conv, 3)
	}
	session := w.device(ben, "phone")
	w.ack(session, "a", 3)
	raise = true
	pulled := w.pull(session, 100)
	if pulled.Epoch != 7 || len(pulled.Convs) != 2 || eventsOf(pulled) != 6 {
		t.Errorf("pulled %d events in epoch %d: cursors of the older epoch do not count", eventsOf(pulled), pulled.Epoch)
	}
}

func TestAPullOfAnotherInstallIsRefused(t *testing.T) {
	w := newWorld(t)
	w.group("c", ana, ben)
	old := w.device(ben, "phone")
	w.hello(impart.Hello{Identity: impart.Identity{User: ben}, Device: "phone", Install: "second"})
	_, err := w.Pull(w.ctx, impart.Pull{Session: old})
	wantCode(t, "an older install", err, impart.StaleInstall)
	_, err = w.Pull(w.ctx, impart.Pull{Session: impart.Session{User: ben, Device: "never seen", Install: 1}})
	wantCode(t, "an unknown device", err, impart.StaleInstall)
	_, err = w.Pull(w.ctx, impart.Pull{Session: impart.Session{User: ben}})
	wantCode(t, "no device", err, impart.BadFrame)
	_, err = w.Pull(w.ctx, impart.Pull{Session: old, Limit: 1001})
	wantCode(t, "a limit", err, impart.BadFrame)
}

// A conversation among C that lag is served within C / 10 pages (more with a
// page smaller than ten events), however deep the others are, and the pages
// bring every event once and in order.
func TestNobodyStarves(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		depths := rapid.SliceOfN(rapid.IntRange(1, 60), 1, 40).Draw(rt, "depths")
		limit := rapid.IntRange(1, 50).Draw(rt, "limit")
		memory := memstore.New(memstore.Options{})
		w := startWorld(t, memory, func(cfg *logic.Config) { cfg.Metrics = nil })
		defer w.Close()
		for i, depth := range depths {
			conv := impart.ConvID(fmt.Sprintf("c%02d", i))
			w.group(conv, ana, ben)
			w.sayMany(ana, conv, depth)
		}
		session := w.device(ben, "phone")
		seen := map[impart.ConvID]impart.Seq{}
		width := min(10, limit)
		patience := (len(depths) + width - 1) / width
		for pages := 1; ; pages++ {
			pulled := w.pull(session, limit)
			if n := eventsOf(pulled); n > limit || n == 0 {
				rt.Fatalf("%d events in a page of %d", n, limit)
			}
			for _, page := range pulled.Convs {
				for _, ev := range page.Events {
					if ev.Seq != seen[page.Conv]+1 {
						rt.Fatalf("%s: seq %d after %d", page.Conv, ev.Seq, seen[page.Conv])
					}
					seen[page.Conv] = ev.Seq
				}
				if page.Through != seen[page.Conv] {
					rt.Fatalf("%s: through %d, seen %d", page.Conv, page.Through, seen[page.Conv])
				}
			}
			w.ackAll(session, pulled)
			if pages == patience && len(seen) != len(depths) {
				rt.Fatalf("after %d pages %d of %d conversations have had a turn", pages, len(seen), len(depths))
			}
			if !pulled.More {
				break
			}
		}
		for i, depth := range depths {
			if conv := impart.ConvID(fmt.Sprintf("c%02d", i)); seen[conv] != impart.Seq(depth) {
				rt.Fatalf("%s ended at %d of %d", conv, seen[conv], depth)
			}
		}
	})
}
