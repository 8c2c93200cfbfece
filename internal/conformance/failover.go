package conformance

import (
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// The nodes of the stories.
var (
	nodeOne = store.Node{ID: "n-1", Name: "one"}
	nodeTwo = store.Node{ID: "n-2", Name: "two"}
)

// aloneStories are about whether a store can be replaced under its nodes.
var aloneStories = []story{
	{"a store that nobody can replace never halts, and another one beats", func(w *world) {
		for n := range int64(3) {
			beat, err := w.Store.Beat(w.ctx, nodeOne)
			w.must(err)
			if beat.Alone != (w.Replace == nil) {
				w.t.Fatalf("the store says it is alone: %v", beat.Alone)
			}
			if !beat.Alone {
				same(w, "beat", beat.Number, n+1)
			}
		}
		halt, err := w.Store.Look(w.ctx)
		w.must(err)
		if halt != nil || w.Store.Halted() != nil {
			w.t.Errorf("it is halted: %+v", halt)
		}
		w.must(w.Store.Leave(w.ctx, nodeOne))
	}},
}

// failoverStories are about a history that takes the place of the accepted one.
var failoverStories = []story{
	{"in a history that was not accepted nothing is written or read", func(w *world) {
		w.need(w.Replace != nil, "Replace")
		w.withPhone(3)
		w.Replace(w.t)
		for what, err := range w.everyCall() {
			if e := impart.AsError(err); what != "settings" && (err == nil || e.Code != impart.Unavailable) {
				w.t.Errorf("%s: got %v, want UNAVAILABLE", what, err)
			}
		}
		halt := w.halted()
		if halt.Judged || halt.Was.Incarnation == "" || halt.Now.Incarnation == "" || halt.Change == "" {
			w.t.Errorf("halted by %+v", halt)
		}
		w.judges(w.Store, nodeOne, store.Verdict{}, keepIt)
		same(w, "halted", w.Store.Halted() == nil, true)
		w.stores(w.msg("ana", "c", "after", "x"))
		same(w, "head", w.lag("ana", "phone", 1, "c").Head, impart.Seq(4))
	}},
	{"a judgement keeps the epoch or raises it above all that is known, once", func(w *world) {
		w.need(w.Replace != nil, "Replace")
		before, err := w.Store.Meta(w.ctx)
		w.must(err)
		w.Replace(w.t)
		w.halted()
		kept := w.judges(w.Store, nodeOne, store.Verdict{}, keepIt)
		same(w, "judgement", kept, store.Judgement{Meta: store.Meta{Epoch: before.Epoch, Incarnation: kept.Meta.Incarnation}, Decided: true})
		meta, err := w.Store.Meta(w.ctx)
		w.must(err)
		same(w, "meta", meta, kept.Meta)

		w.Replace(w.t)
		w.halted()
		raised := w.judges(w.Store, nodeOne, store.Verdict{Epoch: 1 << 50}, raiseIt)
		same(w, "epoch", raised.Meta.Epoch, impart.Epoch(1<<50+1))
		same(w, "raised", raised.Raised && raised.Decided, true)
	}},
	{"nothing changes while a verdict is waited for", func(w *world) {
		w.need(w.Replace != nil, "Replace")
		w.Replace(w.t)
		w.halted()
		var first impart.Millis
		waits := func(b store.Bench) store.Ruling { first = b.First; return store.Wait }
		same(w, "judgement", w.judges(w.Store, nodeOne, store.Verdict{}, waits), store.Judgement{Waiting: true})
		if impart.CodeOf(w.Store.Append(w.ctx, []store.Append{w.msg("ana", "c", "k", "x")})[0].Err) != impart.Unavailable {
			w.t.Error("it is written before the judgement")
		}
		// The last verdict of a node counts.
		seen := func(b store.Bench) store.Ruling {
			if len(b.Verdicts) != 1 || b.Verdicts[0].Missing != 4 || b.Verdicts[0].Lost != 2 || !b.Verdicts[0].Vouched || b.Verdicts[0].Node != nodeOne {
				w.t.Errorf("on the bench: %+v", b.Verdicts)
			}
			same(w, "first", b.First, first)
			return store.Keep
		}
		time.Sleep(5 * time.Millisecond)
		w.judges(w.Store, nodeOne, store.Verdict{Checked: 9, Missing: 4, Lost: 2, Vouched: true}, seen)
	}},
	{"the bench knows who has beaten, and who has left", func(w *world) {
		w.need(w.Replace != nil, "Replace")
		for _, n := range []store.Node{nodeOne, nodeTwo, {ID: "n-3", Name: "three"}} {
			_, err := w.Store.Beat(w.ctx, n)
			w.must(err)
		}
		w.must(w.Store.Leave(w.ctx, nodeTwo))
		knows := func(want ...string) store.Rule {
			return func(b store.Bench) store.Ruling {
				var names []string
				newest := impart.Millis(0)
				for _, n := range b.Nodes {
					newest = max(newest, n.At)
				}
				for _, n := range b.Nodes {
					if newest-n.At < impart.Millis(store.DeadFor.Milliseconds()) {
						names = append(names, n.Node.Name)
					}
					if n.At == 0 {
						w.t.Errorf("nobody knows when %s has beaten", n.Node.Name)
					}
				}
				same(w, "nodes", names, want)
				if b.Now < b.First || b.First == 0 {
					w.t.Errorf("the first verdict came at %d, and it is %d", b.First, b.Now)
				}
				return store.Keep
			}
		}
		w.Replace(w.t)
		w.halted()
		w.judges(w.Store, nodeOne, store.Verdict{}, knows("one", "three"))
		w.Replace(w.t)
		w.halted()
		w.judges(w.Store, nodeOne, store.Verdict{}, knows("one")) // three gave no verdict
		// Its beats are there when it comes back and looks for them.
		w.Replace(w.t)
		halt := w.halted()
		missing, err := w.Store.Missing(w.ctx, halt, []store.Promise{{What: store.PromisedBeat, Node: "n-3", Number: 1}})
		w.must(err)
		same(w, "missing", len(missing), 0)
	}},
	{"promises that are not kept are missing, of every kind", func(w *world) {
		w.need(w.Replace != nil, "Replace")
		w.withPhone(5)
		w.acks(phone("ana", "c", 3), 3)
		w.reads("ana", "c", 2, 2)
		mid := w.after("ana", "c", 3).Events[0].MID
		for range 2 {
			_, err := w.Store.Beat(w.ctx, nodeOne)
			w.must(err)
		}
		w.retains(w.after("ana", "c", 2).Events[0].At, 10, 2, false)
		w.Replace(w.t)
		halt := w.halted()
		message := store.Promise{What: store.PromisedMessage, Conv: "c", Seq: 4, MID: mid}
		cursor := store.Promise{What: store.PromisedCursor, User: "ana", Device: "phone", Install: 1, Epoch: 1, Conv: "c", Seq: 3}
		read := store.Promise{What: store.PromisedRead, User: "ana", Epoch: 1, Conv: "c", Seq: 2}
		session := store.Promise{What: store.PromisedSession, User: "ana", Device: "phone", Number: 1}
		head := store.Promise{What: store.PromisedChange, Conv: "c", Seq: 5}
		beat := store.Promise{What: store.PromisedBeat, Node: nodeOne.ID, Number: 2}
		but := func(p store.Promise, change func(*store.Promise)) store.Promise { change(&p); return p }
		kept := []store.Promise{
			message, but(message, func(p *store.Promise) { p.What = store.PromisedShown }),
			{What: store.PromisedMessage, Conv: "c", Seq: 1, MID: "removed since"},
			cursor, but(cursor, func(p *store.Promise) { p.Seq = 1 }), read, session, head, beat,
			but(cursor, func(p *store.Promise) { p.Epoch, p.Seq = 0, 9 }),   // the epoch has moved on
			but(cursor, func(p *store.Promise) { p.Install, p.Seq = 0, 9 }), // so has the install
			but(beat, func(p *store.Promise) { p.Number = 1 }),
		}
		broken := []store.Promise{
			but(message, func(p *store.Promise) { p.MID = "another" }), but(message, func(p *store.Promise) { p.Seq = 6 }),
			but(message, func(p *store.Promise) { p.What, p.MID = store.PromisedShown, "another" }),
			but(message, func(p *store.Promise) { p.Conv = "elsewhere" }),
			but(cursor, func(p *store.Promise) { p.Seq = 4 }), but(cursor, func(p *store.Promise) { p.Install = 2 }),
			but(cursor, func(p *store.Promise) { p.Epoch = 2 }), but(cursor, func(p *store.Promise) { p.Device = "none" }),
			but(read, func(p *store.Promise) { p.Seq = 3 }), but(session, func(p *store.Promise) { p.Number = 2 }),
			but(head, func(p *store.Promise) { p.Seq = 6 }), but(beat, func(p *store.Promise) { p.Number = 3 }),
			but(beat, func(p *store.Promise) { p.Node = nodeTwo.ID }), {What: "something else"},
		}
		missing, err := w.Store.Missing(w.ctx, halt, append(append([]store.Promise(nil), kept...), broken...))
		w.must(err)
		same(w, "missing", missing, broken)
	}},
	{"a node is told of others that have its name and live", func(w *world) {
		w.need(w.Replace != nil, "Replace")
		double := store.Node{ID: "n-3", Name: nodeOne.Name}
		for _, beat := range []struct {
			node      store.Node
			namesakes int
		}{{nodeOne, 0}, {nodeTwo, 0}, {double, 1}, {nodeOne, 1}, {nodeTwo, 0}} {
			got, err := w.Store.Beat(w.ctx, beat.node)
			w.must(err)
			same(w, beat.node.ID+" has namesakes", got.Namesakes, beat.namesakes)
		}
		w.must(w.Store.Leave(w.ctx, double))
		got, err := w.Store.Beat(w.ctx, nodeOne)
		w.must(err)
		same(w, "namesakes that have left", got.Namesakes, 0)
	}},
	{"of two nodes one decides, with the verdicts of both", func(w *world) {
		second := w.second()
		w.Replace(w.t)
		w.halted()
		both := func(b store.Bench) store.Ruling {
			if len(b.Verdicts) < 2 {
				return store.Wait
			}
			return store.Raise
		}
		same(w, "first", w.judges(w.Store, nodeOne, store.Verdict{Missing: 1}, both), store.Judgement{Waiting: true})
		decided := w.judges(second, nodeTwo, store.Verdict{}, both)
		same(w, "second", decided.Decided && decided.Raised, true)
		halt, err := w.Store.Look(w.ctx)
		w.must(err)
		if halt == nil || !halt.Judged {
			w.t.Fatalf("the first finds %+v, want that another node has judged", halt)
		}
		// Its verdict has been counted: nothing is raised again.
		same(w, "first again", w.judges(w.Store, nodeOne, store.Verdict{Missing: 1}, never(w)), store.Judgement{
			Meta: decided.Meta, Counted: []store.Verdict{{Node: nodeOne, Missing: 1}, {Node: nodeTwo}},
		})
		for _, s := range []store.Store{w.Store, second} {
			meta, err := s.Meta(w.ctx)
			w.must(err)
			same(w, "meta", meta, decided.Meta)
		}
	}},
	{"who comes late writes nothing with what it knew, and raises the epoch if something is missing", func(w *world) {
		second := w.second()
		w.conversation("c", "ana")
		if _, err := second.Beat(w.ctx, nodeTwo); err != nil {
			w.t.Fatal(err)
		}
		w.Replace(w.t)
		w.halted()
		kept := w.judges(w.Store, nodeOne, store.Verdict{}, keepIt)
		if err := second.Append(w.ctx, []store.Append{w.msg("ana", "c", "k", "x")})[0].Err; impart.CodeOf(err) != impart.Unavailable {
			w.t.Fatalf("the late node writes: %v", err)
		}
		if halt := second.Halted(); halt == nil || !halt.Judged {
			w.t.Fatalf("the late node finds %+v, want that another node has judged", halt)
		}
		late := w.judges(second, nodeTwo, store.Verdict{Missing: 1, Lost: 1}, never(w))
		same(w, "late", late.Late && late.Raised && !late.Decided, true)
		if late.Meta.Epoch <= kept.Meta.Epoch {
			w.t.Errorf("the epoch is %d, and was %d", late.Meta.Epoch, kept.Meta.Epoch)
		}
		// The first node goes on, in the new epoch.
		got := w.stores(w.msg("ana", "c", "k-2", "x"))[0]
		same(w, "epoch", got.Epoch, late.Meta.Epoch)
		same(w, "once", w.append(w.msg("ana", "c", "k-3", "x", epoch(kept.Meta.Epoch)))[0].Err != nil, true)
	}},
	{"who comes late and lacks nothing raises nothing", func(w *world) {
		second := w.second()
		w.Replace(w.t)
		w.halted()
		kept := w.judges(w.Store, nodeOne, store.Verdict{}, keepIt)
		halt, err := second.Look(w.ctx)
		w.must(err)
		same(w, "judged", halt != nil && halt.Judged, true)
		same(w, "late", w.judges(second, nodeTwo, store.Verdict{Checked: 3}, never(w)), store.Judgement{
			Meta: kept.Meta, Late: true, Counted: []store.Verdict{{Node: nodeOne}},
		})
	}},
}

func keepIt(store.Bench) store.Ruling { return store.Keep }

func raiseIt(store.Bench) store.Ruling { return store.Raise }

// never is the rule where nothing is left to decide.
func never(w *world) store.Rule {
	return func(store.Bench) store.Ruling {
		w.t.Error("a change that was judged is judged again")
		return store.Wait
	}
}

// second is another node's store on the same data.
func (w *world) second() store.Store {
	w.t.Helper()
	w.need(w.Second != nil, "Second")
	s := w.Second(w.t)
	w.t.Cleanup(func() { closeStore(w.t, s) })
	return s
}

func closeStore(t *testing.T, s store.Store) {
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// halted is the change that the store has found.
func (w *world) halted() *store.Halt {
	w.t.Helper()
	halt, err := w.Store.Look(w.ctx)
	w.must(err)
	if halt == nil || w.Store.Halted() == nil {
		w.t.Fatal("the store has not halted")
	}
	return halt
}

// judges gives a node's verdict.
func (w *world) judges(s store.Store, node store.Node, v store.Verdict, rule store.Rule) store.Judgement {
	w.t.Helper()
	halt := s.Halted()
	if halt == nil {
		var err error
		if halt, err = s.Look(w.ctx); err != nil || halt == nil {
			w.t.Fatalf("%s has nothing to judge: %v", node.Name, err)
		}
	}
	v.Node = node
	got, err := s.Judge(w.ctx, halt, v, rule)
	w.must(err)
	return got
}
