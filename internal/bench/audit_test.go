package bench

import (
	"testing"

	"github.com/impart-im/impart"
)

// TestAuditWantsSomethingSent: a run in which nothing happened shows nothing.
func TestAuditWantsSomethingSent(t *testing.T) {
	a := newAudit(newLedger("run", []impart.ConvID{"c"}))
	if err := a.log(0, func(impart.Seq) (impart.Page, error) { return impart.Page{}, nil }); err != nil {
		t.Fatal(err)
	}
	if checks := a.checks(); checks[0].OK {
		t.Error("it holds that nothing was lost of nothing")
	}
}

// TestAuditForgivesOnlyWhatNobodyWasAnswered: a message whose answer was cut off
// may be in the log, but no more of them than there were.
func TestAuditForgivesOnlyWhatNobodyWasAnswered(t *testing.T) {
	l := newLedger("run", []impart.ConvID{"c"})
	events := make([]impart.Event, 3)
	for i := range events {
		cmid := l.cmid(message{1, int64(i)})
		events[i] = impart.Event{Seq: impart.Seq(i + 1), CMID: cmid, MID: "m"}
		if i == 0 {
			if err := l.sent(0, cmid, 1, "m"); err != nil {
				t.Fatal(err)
			}
		}
	}
	for unanswered, want := range map[int64]bool{1: false, 2: true} {
		l.unanswered.Store(unanswered)
		a := newAudit(l)
		err := a.log(0, func(impart.Seq) (impart.Page, error) { return impart.Page{Events: events, Head: 3, Through: 3}, nil })
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range a.checks() {
			if wanted := want || c.Name != "nothing in the logs that nobody sent"; c.OK != wanted {
				t.Errorf("with %d unanswered, %s: %v: %s", unanswered, c.Name, c.OK, c.Detail)
			}
		}
	}
}

func TestLedgerKnowsOnePlaceForEachMessage(t *testing.T) {
	l := newLedger("run", []impart.ConvID{"c"})
	for _, sent := range []struct {
		cmid impart.CMID
		seq  impart.Seq
	}{{"run-0-0", 1}, {"run-0-1", 2}, {"run-0-0", 1}, {"run-0-2", 2}} {
		if err := l.sent(0, sent.cmid, sent.seq, "m"); err != nil {
			t.Fatal(err)
		}
	}
	if l.count() != 2 || l.twice.Load() != 1 {
		t.Errorf("%d messages, %d places given twice; want 2 and 1", l.count(), l.twice.Load())
	}
	if err := l.sent(0, "run-0-3", 0, "m"); err == nil {
		t.Error("seq 0 is taken")
	}
}

func TestCMIDIsReadBack(t *testing.T) {
	l := newLedger("run", nil)
	for _, m := range []message{{0, 0}, {255, 1 << 40}} {
		if got, ours := l.parse(l.cmid(m)); !ours || got != m {
			t.Errorf("%v comes back as %v, %v", m, got, ours)
		}
	}
	for _, cmid := range []impart.CMID{"", "run", "other-1-1", "run-1", "run--1-1", "run-1-x!"} {
		if m, ours := l.parse(cmid); ours {
			t.Errorf("%q is taken for %v", cmid, m)
		}
	}
}
