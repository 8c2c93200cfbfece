package sqlstore

import (
	"errors"
	"testing"

	"github.com/impart-im/impart"
)

// known is an identity that has accepted system 7 on timeline 2, judged as 5, with a
// commit acknowledged after place 1000, in epoch 3.
func known() *identity {
	d := &identity{}
	d.open(history{incarnation: "7/00000002", judged: 5, epoch: 3})
	d.acknowledged(d.before(), 1000, 3)
	return d
}

func TestWhatAStoreMakesOfAServer(t *testing.T) {
	for name, c := range map[string]struct {
		server         string
		end            int64
		row            history
		halts          bool
		judged, behind bool
		refused        bool // without a halt
	}{
		"the accepted one":                                {server: "7/00000002", end: 1000, row: history{incarnation: "7/00000002", judged: 5, epoch: 3}},
		"the accepted one, in a raised epoch":             {server: "7/00000002", end: 2000, row: history{incarnation: "7/00000002", judged: 5, epoch: 4}},
		"a promoted standby":                              {server: "7/00000003", end: 1000, row: history{incarnation: "7/00000002", judged: 5, epoch: 3}, halts: true},
		"a promoted standby that lacks a commit":          {server: "7/00000003", end: 999, row: history{incarnation: "7/00000002", judged: 5, epoch: 3}, halts: true, behind: true},
		"a promoted standby that another node has judged": {server: "7/00000003", end: 5000, row: history{incarnation: "7/00000003", judged: 6, epoch: 3}, halts: true, judged: true},
		"another system":                                  {server: "8/00000001", end: 5000, row: history{incarnation: "7/00000002", judged: 5, epoch: 3}, halts: true},
		"a backup on the same timeline":                   {server: "7/00000002", end: 10, row: history{incarnation: "7/00000002", judged: 5, epoch: 3}, halts: true, behind: true},
		"a backup of an older epoch":                      {server: "7/00000002", end: 5000, row: history{incarnation: "7/00000002", judged: 5, epoch: 2}, halts: true, behind: true},
		"a backup from before the last judgement":         {server: "7/00000002", end: 5000, row: history{incarnation: "7/00000001", judged: 4, epoch: 3}, halts: true},
		"a backup that another node has judged":           {server: "7/00000002", end: 5000, row: history{incarnation: "7/00000002/9", judged: 9, epoch: 4}, halts: true, judged: true},
		"the old primary":                                 {server: "7/00000001", end: 9000, row: history{incarnation: "7/00000001", judged: 4, epoch: 3}, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := known()
			_, err := d.meet(d.before(), c.server, c.end, c.row)
			if (err != nil) != (c.halts || c.refused) || err != nil && impart.CodeOf(err) != impart.Unavailable {
				t.Errorf("met with %v", err)
			}
			halt := d.halted()
			if (halt != nil) != c.halts {
				t.Fatalf("halted by %+v", halt)
			}
			if halt != nil && (halt.Judged != c.judged || halt.Behind != c.behind) {
				t.Errorf("judged %v, behind %v", halt.Judged, halt.Behind)
			}
			if c.halts {
				if _, err := d.meet(d.before(), "7/00000002", 5000, history{incarnation: "7/00000002", judged: 5, epoch: 3}); err == nil {
					t.Error("a halt is forgotten when the accepted history is met again")
				}
			}
		})
	}
}

func TestAHaltEndsWithALookAtWhatWasAccepted(t *testing.T) {
	d := known()
	accepted := history{incarnation: "7/00000002", judged: 5, epoch: 3}
	if _, err := d.meet(d.before(), "8/00000001", 5000, history{incarnation: "8/00000001", judged: 1, epoch: 1}); err == nil {
		t.Fatal("a foreign database is accepted")
	}
	if halt, err := d.look(d.before(), "7/00000002", 5000, accepted); halt != nil || err != nil || d.halted() != nil {
		t.Errorf("still halted by %+v, %v", halt, err)
	}
	// Not so once a newer timeline was met: what was accepted is the old primary now.
	if _, err := d.meet(d.before(), "7/00000003", 5000, accepted); err == nil {
		t.Fatal("a promoted standby is accepted")
	}
	if halt, err := d.look(d.before(), "7/00000002", 5000, accepted); halt == nil || err == nil {
		t.Errorf("the old primary is gone back to: %+v, %v", halt, err)
	}
}

func TestWhatWasBehindStaysSoWhileItsLogGrows(t *testing.T) {
	d := known()
	row := history{incarnation: "7/00000002", judged: 5, epoch: 3}
	_, _ = d.meet(d.before(), "7/00000003", 900, row)
	halt, err := d.look(d.before(), "7/00000003", 1100, row)
	if err != nil || !halt.Behind {
		t.Errorf("%+v, %v", halt, err)
	}
}

func TestAnAnswerFromBeforeAJudgementSaysNothing(t *testing.T) {
	d := known()
	was := d.before()
	d.adopt(history{incarnation: "7/00000003", judged: 6, epoch: 4})
	if _, err := d.meet(was, "7/00000003", 5000, history{incarnation: "7/00000002", judged: 5, epoch: 3}); !errors.Is(err, errAgain) || d.halted() != nil {
		t.Errorf("an older answer was taken for %+v, %v", d.halted(), err)
	}
	if _, err := d.meet(was, "7/00000003", 10, history{incarnation: "7/00000003", judged: 6, epoch: 4}); err != nil {
		t.Errorf("what was adopted meanwhile: %v", err)
	}
	// A commit that began before it tells nothing of the new log.
	d.acknowledged(was, 1<<40, 99)
	if _, err := d.meet(d.before(), "7/00000003", 10, history{incarnation: "7/00000003", judged: 6, epoch: 4}); err != nil {
		t.Errorf("a place of the old log counts in the new one: %v", err)
	}
}

func TestTimelinesAreComparedAsNumbers(t *testing.T) {
	if _, line := timelineOf("7/0000000A"); line != 10 {
		t.Errorf("timeline %d, want 10", line)
	}
	if physical("7/0000000A/1700000000000") != "7/0000000A" {
		t.Errorf("physical: %s", physical("7/0000000A/1700000000000"))
	}
}
