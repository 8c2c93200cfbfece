package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

var commitStories = []story{
	{"nothing is visible or answered before its commit", func(w *world) {
		w.need(w.OnCommit != nil, "OnCommit")
		w.conversation("c", "ana")
		w.says("ana", "c", "before")
		h := w.hold()
		held := w.sends(w.msg("ana", "c", "k", "held"))
		h.wait()
		w.sees("ana", "c", "1 before")
		r, err := w.Store.Range(w.ctx, "c", 1, 99, 100)
		w.must(err)
		same(w, "range", words(r.Events), []string{"1 before"})
		same(w, "head", r.Head, impart.Seq(1))
		held.unanswered()
		h.release(nil)
		if got := held.answer(); got.Err != nil || got.Seq != 2 {
			w.t.Errorf("got %+v, want seq 2", got)
		}
		w.sees("ana", "c", "1 before", "2 held")
	}},
	{"no reader passes a seq that has not committed", func(w *world) {
		w.need(w.OnCommit != nil, "OnCommit")
		heldSeq(w, nil)
		same(w, "seqs", seqs(w.after("ana", "c", 0).Events), count(1, 41))
	}},
	{"a rollback under load leaves no hole", func(w *world) {
		w.need(w.OnCommit != nil, "OnCommit")
		heldSeq(w, errors.New("deadlock, and you are the victim"))
		same(w, "seqs", seqs(w.after("ana", "c", 0).Events), count(1, 40))
	}},
	{"a failed commit gives its seq and its key back", func(w *world) {
		w.need(w.OnCommit != nil, "OnCommit")
		w.conversation("c", "ana")
		w.says("ana", "c", "one")
		lost := []store.Append{w.msg("ana", "c", "k2", "two"), w.msg("ana", "c", "k3", "three")}
		w.failOnce(false)
		for _, got := range w.append(lost...) {
			w.wantCode(impart.Unavailable, got.Err)
		}
		w.sees("ana", "c", "1 one")
		w.refuses(impart.OutOfOrder, w.msg("ana", "c", "k4", "four", prev("k3")))
		same(w, "seq", w.says("ana", "c", "other"), 2)
		w.stores(lost...)
		w.sees("ana", "c", "1 one", "2 other", "3 two", "4 three")
	}},
	{"a commit whose answer was lost is found again", func(w *world) {
		w.need(w.OnCommit != nil, "OnCommit")
		w.conversation("c", "ana")
		a := w.msg("ana", "c", "k", "did it work?")
		w.failOnce(true)
		// A store may find out by itself what became of its commit.
		if got := w.append(a)[0]; got.Err != nil {
			w.wantCode(impart.Unavailable, got.Err)
		} else if got.Dup || got.Seq != 1 || got.MID != a.MID {
			w.t.Errorf("found again as %+v, want what was stored, and no duplicate", got)
		}
		w.repeats(store.Appended{Seq: 1, MID: a.MID, At: a.At}, w.msg("ana", "c", "k", "did it work?"))
		w.sees("ana", "c", "1 did it work?")
	}},
	{"a failed commit moves no cursor, member or epoch", func(w *world) {
		w.need(w.OnCommit != nil, "OnCommit")
		w.conversation("c", "ana")
		w.chatter("ana", "c", 3)
		w.hello("ana", "phone", "x")
		fails := func(what string, err error) {
			w.t.Helper()
			if impart.CodeOf(err) != impart.Unavailable {
				w.t.Errorf("%s: got %v, want UNAVAILABLE", what, err)
			}
			w.failOnce(false)
		}
		w.failOnce(false)
		fails("ack", w.advance(phone("ana", "c", 2)).Err)
		fails("read", w.markRead(store.MarkRead{User: "ana", Conv: "c", Seq: 2}).Err)
		_, _, err := w.Store.PutMember(w.ctx, "c", impart.Member{User: "ben"}, impart.System, w.stamp)
		fails("join", err)
		_, err = w.Store.RaiseEpoch(w.ctx, 0)
		fails("epoch", err)
		_, err = w.Store.Hello(w.ctx, store.Hello{User: "ana", Device: "phone", Install: "y"})
		fails("hello", err)
		_, _, err = w.Store.Retain(w.ctx, impart.MaxNumber, 10)
		fails("retention", err)
		w.OnCommit(nil, nil)
		w.sees("ana", "c", "1 chat 0", "2 chat 1", "3 chat 2")
		same(w, "state", w.conv("ana", "phone", "c").Delivered, impart.Seq(0))
		same(w, "read", w.conv("ana", "phone", "c").Read, impart.Seq(0))
		info, err := w.Store.Conversation(w.ctx, "c")
		w.must(err)
		same(w, "members", len(info.Members), 1)
		meta, err := w.Store.Meta(w.ctx)
		w.must(err)
		same(w, "epoch", meta.Epoch, impart.Epoch(1))
		same(w, "install", w.hello("ana", "phone", "x").Fresh, false)
	}},
	{"a crash keeps what was answered and forgets what was not", func(w *world) {
		w.need(w.OnCommit != nil && w.Crash != nil, "OnCommit and Crash")
		w.conversation("c", "ana")
		kept := w.msg("ana", "c", "k1", "kept")
		first := w.stores(kept)[0]
		w.hello("ana", "phone", "x")
		w.acks(phone("ana", "c", 1), 1)
		h := w.hold()
		lost := w.msg("ana", "c", "k2", "lost")
		doomed := w.sends(lost)
		h.wait()
		w.crash()
		w.sees("ana", "c", "1 kept")
		w.repeats(first, kept)
		same(w, "cursor", w.lag("ana", "phone", 1, "c"), impart.Lag{Head: 1, Delivered: 1})
		same(w, "seq", w.stores(lost)[0].Seq, 2)
		h.release(errors.New("the machine is off"))
		doomed.answer()
		w.sees("ana", "c", "1 kept", "2 lost")
	}},
	{"writes that arrive during a commit share the next one", func(w *world) {
		w.need(w.OnCommit != nil, "OnCommit")
		w.withPhone(30)
		h := w.holdAll()
		before := w.Store.Stats()
		// A store may commit messages beside cursors: both are held.
		first := w.sends(w.msg("ana", "c", "held", "held"))
		h.wait()
		var wg sync.WaitGroup
		ack := func(seq impart.Seq) {
			if got := w.Store.Advance(w.ctx, []store.Advance{phone("ana", "c", seq)})[0]; got.Err != nil {
				w.t.Errorf("an ack that waited for a commit: %v", got.Err)
			}
		}
		wg.Go(func() { ack(1) })
		for h.held.Load() < 2 && w.Store.Stats().Queue < 1 {
			w.spin("an ack is held or waits")
		}
		for i := range 10 {
			a := w.msg("ana", "c", impart.CMID(fmt.Sprintf("w-%d", i)), "x")
			wg.Go(func() { w.lands(a) })
			wg.Go(func() { ack(impart.Seq(i)) })
			wg.Go(func() {
				if got := w.Store.MarkRead(w.ctx, []store.MarkRead{{User: "ana", Conv: "c", Seq: impart.Seq(i)}})[0]; got.Err != nil {
					w.t.Errorf("a read that waited for a commit: %v", got.Err)
				}
			})
		}
		for w.Store.Stats().Queue < 30 {
			w.spin(fmt.Sprintf("30 items wait for a commit, and the store counts %d", w.Store.Stats().Queue))
		}
		h.release(nil)
		wg.Wait()
		first.answer()
		if n := w.Store.Stats().Commits - before.Commits; n > 5 {
			w.t.Errorf("what was held and 30 items that waited for it took %d commits", n)
		}
	}},
	{"while nothing can be committed nothing is promised", func(w *world) {
		w.need(w.OnCommit != nil, "OnCommit")
		w.conversation("c", "ana")
		w.says("ana", "c", "before")
		var items []store.Append
		for i := range 10 {
			items = append(items, w.msg("ana", "c", impart.CMID(fmt.Sprint(i)), "x"))
		}
		for _, lost := range []bool{false, true} {
			fail := func() error { return errors.New("the disk is full") }
			if lost { // the commit takes effect, and nobody is told
				w.OnCommit(nil, fail)
			} else {
				w.OnCommit(fail, nil)
			}
			w.atOnce(10, func(i int) {
				if got := w.Store.Append(w.ctx, items[i:i+1])[0]; impart.CodeOf(got.Err) != impart.Unavailable {
					w.t.Errorf("without a commit: got %+v, want UNAVAILABLE", got)
				}
			})
			w.OnCommit(nil, nil)
			want := 1
			if lost {
				want = 11
			}
			same(w, "events", len(w.whole("ana", "c", 0).Events), want)
		}
		for i, got := range w.append(items...) {
			w.isDup(store.Appended{Seq: got.Seq, MID: items[i].MID, At: items[i].At}, got)
		}
		same(w, "events", len(w.whole("ana", "c", 0).Events), 11)
	}},
	{"a caller who gives up leaves nothing half done", func(w *world) {
		w.conversation("c", "ana")
		ctx, cancel := context.WithCancel(w.ctx)
		cancel()
		a := w.msg("ana", "c", "k", "never mind")
		gone := w.Store.Append(ctx, []store.Append{a})[0]
		got := w.append(a)[0]
		if got.Err != nil || got.Seq != 1 {
			w.t.Errorf("after a call that was given up (%+v) the message got %+v, want seq 1", gone, got)
		}
		if gone.Err != nil {
			w.wantCode(impart.Unavailable, gone.Err)
		}
		w.sees("ana", "c", "1 never mind")
	}},
}

// heldSeq holds the commit of one message while forty others are sent to the
// same conversation and forty to another, and readers look on (case 23). outcome
// is what becomes of the held one.
func heldSeq(w *world, outcome error) {
	w.conversation("c", "ana")
	w.conversation("c-2", "ana")
	h := w.hold()
	var writers, readers sync.WaitGroup
	first := w.msg("ana", "c", "held", "held")
	writers.Go(func() { w.append(first) })
	h.wait()
	for i := range 40 {
		a := w.msg("ana", "c", impart.CMID(fmt.Sprintf("a-%d", i)), "x")
		b := w.msg("ana", "c-2", impart.CMID(fmt.Sprintf("b-%d", i)), "x")
		writers.Go(func() { w.lands(a) })
		writers.Go(func() { w.lands(b) })
	}
	released := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for range 100 {
				w.whole("ana", "c", 0)
				w.whole("ana", "c-2", 0)
			}
			<-released
			for range 20 {
				w.whole("ana", "c", 0)
			}
		})
	}
	for range 50 {
		if got := w.whole("ana", "c", 0); len(got.Events) > 0 && got.Events[0].CMID == "held" {
			w.t.Error("the held message is visible")
		}
	}
	h.release(outcome)
	close(released)
	writers.Wait()
	readers.Wait()
}

// lands appends a message from any goroutine, again as often as its outcome is
// unknown: it shares a commit with others, which may be failed.
func (w *world) lands(a store.Append) store.Appended {
	for range 5 {
		got := w.Store.Append(w.ctx, []store.Append{a})[0]
		if impart.CodeOf(got.Err) == impart.Unavailable {
			continue
		}
		if got.Err != nil {
			w.t.Errorf("cmid %q got %v", a.CMID, got.Err)
		}
		return got
	}
	w.t.Errorf("cmid %q was never stored", a.CMID)
	return store.Appended{}
}

// whole reads a page after seq and checks that it can be a state of a log that
// its reader sees whole: no hole, nothing above head, through at its end.
func (w *world) whole(user impart.UserID, conv impart.ConvID, after impart.Seq) impart.Page {
	q := ask(user, conv)
	q.After = after
	page, err := w.Store.Page(w.ctx, q)
	if err != nil {
		w.t.Errorf("reading %q: %v", conv, err)
		return page
	}
	next := after
	for _, ev := range page.Events {
		if next++; ev.Seq != next {
			w.t.Errorf("%q: seq %d follows %d", conv, ev.Seq, next-1)
			return page
		}
	}
	switch {
	case next > page.Head:
		w.t.Errorf("%q: seq %d is above head %d", conv, next, page.Head)
	case page.More != (next < page.Head):
		w.t.Errorf("%q: more is %t, and the page ends at %d of %d", conv, page.More, next, page.Head)
	case page.Through != next:
		w.t.Errorf("%q: through is %d, and the page ends at %d", conv, page.Through, next)
	}
	return page
}
