package logic

import (
	"fmt"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

func TestRule(t *testing.T) {
	node := func(id string) store.Node { return store.Node{ID: id, Name: id} }
	good := func(id string) store.Verdict { return store.Verdict{Node: node(id), Checked: 5, Vouched: true} }
	seen := func(id string, at impart.Millis) store.Seen { return store.Seen{Node: node(id), At: at} }
	const late = impart.Millis(10_000)
	for name, c := range map[string]struct {
		bench store.Bench
		want  store.Ruling
	}{
		"everybody has looked and vouches": {store.Bench{Nodes: []store.Seen{seen("a", 100), seen("b", 90)}, Verdicts: []store.Verdict{good("a"), good("b")}}, store.Keep},
		"a start where nobody was":         {store.Bench{Verdicts: []store.Verdict{good("a")}}, store.Keep},
		"one does not vouch":               {store.Bench{Verdicts: []store.Verdict{good("a"), {Node: node("b")}}}, store.Raise},
		"one misses something":             {store.Bench{Verdicts: []store.Verdict{good("a"), {Node: node("b"), Vouched: true, Missing: 1}}}, store.Raise},
		"the log ends too early":           {store.Bench{Verdicts: []store.Verdict{{Node: node("a"), Vouched: true, Behind: true}}}, store.Raise},
		"one is waited for":                {store.Bench{Now: 5, First: 5, Nodes: []store.Seen{seen("b", 1)}, Verdicts: []store.Verdict{good("a")}}, store.Wait},
		"and until the end of the time":    {store.Bench{Now: late - 1, Nodes: []store.Seen{seen("b", 1)}, Verdicts: []store.Verdict{good("a")}}, store.Wait},
		"and not longer":                   {store.Bench{Now: late, Nodes: []store.Seen{seen("b", 1)}, Verdicts: []store.Verdict{good("a")}}, store.Raise},
		"also where something is missing":  {store.Bench{Now: 5, First: 5, Nodes: []store.Seen{seen("b", 1)}, Verdicts: []store.Verdict{{Node: node("a"), Missing: 1}}}, store.Wait},
		// The clock of the new primary is an hour behind that of the old one, or ahead.
		"beats are held against beats":           {store.Bench{Now: 5, First: 5, Nodes: []store.Seen{seen("a", 3_600_000), seen("b", 3_595_000)}, Verdicts: []store.Verdict{good("a")}}, store.Wait},
		"who died long before is not waited for": {store.Bench{Now: 9_000_000, First: 9_000_000, Nodes: []store.Seen{seen("a", 100_000), seen("b", 89_999)}, Verdicts: []store.Verdict{good("a")}}, store.Keep},
	} {
		t.Run(name, func(t *testing.T) {
			if got := rule(c.bench); got.ruling != c.want {
				t.Errorf("ruling %d (%s), want %d", got.ruling, got.why, c.want)
			}
		})
	}
}

func TestTheReasonOfAnotherNodesDecision(t *testing.T) {
	good := store.Verdict{Checked: 5, Vouched: true}
	for _, c := range []struct {
		counted []store.Verdict
		raised  bool
		want    string
	}{
		{[]store.Verdict{good, good}, false, whyKept},
		{[]store.Verdict{good, {Vouched: true, Missing: 2}, {Missing: 1}}, true, "3 acknowledged commits are missing"},
		{[]store.Verdict{good, {Vouched: true, Behind: true}}, true, "the database ends before a commit that was acknowledged"},
		{[]store.Verdict{good, {Checked: 1}}, true, whyUnvouched},
		{[]store.Verdict{good}, true, whySilent + "; its log names them"},
	} {
		if got := reasonOf(c.counted, c.raised); got != c.want {
			t.Errorf("%+v, raised %v: %q, want %q", c.counted, c.raised, got, c.want)
		}
	}
}

func promiseOf(n int) store.Promise {
	return store.Promise{What: store.PromisedMessage, Conv: "c", Seq: impart.Seq(n), Made: impart.Millis(n)}
}

func TestTheLedgerKeepsTheNewestOfEachKind(t *testing.T) {
	var l ledger
	const many = 20_000
	for n := range many {
		l.enter(l.begin(), shelfMessages, promiseOf(n))
	}
	for n := range many { // a storm of resends pushes out no message
		l.enter(l.begin(), shelfRepeats, store.Promise{What: store.PromisedMessage, Conv: "r", Seq: impart.Seq(n), Made: many})
	}
	held := map[string]int{}
	oldest := many
	for _, p := range l.read(0) {
		held[string(p.Conv)]++
		if p.Conv == "c" {
			oldest = min(oldest, int(p.Seq))
		}
	}
	if want := map[string]int{"c": 16 << 10, "r": 4 << 10}; fmt.Sprint(held) != fmt.Sprint(want) || oldest != many-16<<10 {
		t.Errorf("held: %v from %d on, want %v", held, oldest, want)
	}
}

func TestTheLedgerForgetsWhatIsOldOrBroken(t *testing.T) {
	var l ledger
	for n := range 16<<10 + 10 {
		l.enter(l.begin(), shelfMessages, promiseOf(n))
	}
	l.forget(16_000, []store.Promise{promiseOf(16_200)})
	l.enter(l.begin(), shelfMessages, promiseOf(99_999))
	all := l.read(0)
	if len(all) != 16<<10+10-16_000 || all[0].Seq != 16_000 || all[len(all)-1].Seq != 99_999 {
		t.Fatalf("%d are left, from %d to %d", len(all), all[0].Seq, all[len(all)-1].Seq)
	}
	for _, p := range all {
		if p.Seq == 16_200 {
			t.Error("a broken promise is kept")
		}
	}
	if got := l.read(99_000); len(got) != 1 {
		t.Errorf("%d are young", len(got))
	}
}

func TestAPromiseOfAnOlderTurnIsNotGiven(t *testing.T) {
	var l ledger
	turn := l.begin()
	l.read(0)
	if l.enter(turn, shelfMessages, promiseOf(1)) || l.valid(turn) {
		t.Error("a promise is given that the verdict does not know")
	}
	if !l.enter(l.begin(), shelfMessages, promiseOf(2)) {
		t.Error("a promise of the new turn is not given")
	}
	l.close()
	if !l.enter(turn, shelfMessages, promiseOf(3)) || len(l.read(0)) != 0 {
		t.Error("a ledger that nobody needs keeps something, or refuses")
	}
}

func TestRepeatsHaveAShelfOfTheirOwn(t *testing.T) {
	s := &Service{cfg: Config{Now: time.Now}}
	items := []store.Append{{Conv: "c", CMID: "new"}, {Conv: "c", CMID: "again"}, {Conv: "c", CMID: "refused"}}
	results := []store.Appended{{Seq: 2, MID: "m2"}, {Seq: 1, MID: "m1", Dup: true}, {Err: overtaken()}}
	s.promiseStored(s.ledger.begin(), items, results)
	stored, repeated := s.ledger.shelf[shelfMessages].promises, s.ledger.shelf[shelfRepeats].promises
	if len(stored) != 1 || stored[0].CMID != "new" || len(repeated) != 1 || repeated[0].CMID != "again" {
		t.Errorf("stored: %+v, repeated: %+v", stored, repeated)
	}
}
