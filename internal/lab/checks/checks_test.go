package checks

import (
	"testing"

	"github.com/impart-im/impart/internal/lab"
)

func TestEveryCheckCanShowThatItCanFail(t *testing.T) {
	for _, f := range lab.Faults(All()) {
		t.Error(f)
	}
	short := 0
	for _, c := range All() {
		if c.Short {
			short++
		}
	}
	if short == 0 {
		t.Error("the quick set is empty")
	}
}

// TestWhatTheLabDemandsOfAChecks plants one fault each.
func TestWhatTheLabDemandsOfAChecks(t *testing.T) {
	good := All()[0]
	for name, spoil := range map[string]func(*lab.Check){
		"no twin":             func(c *lab.Check) { c.Twins = nil },
		"no sentence":         func(c *lab.Check) { c.What = "" },
		"no invariant":        func(c *lab.Check) { c.Invariant = "" },
		"an id with a glob":   func(c *lab.Check) { c.ID = "06-*" },
		"a twin without name": func(c *lab.Check) { c.Twins = []lab.Sabotage{{What: "the guard is off"}} },
		"a twin twice":        func(c *lab.Check) { c.Twins = append(c.Twins, c.Twins...) },
	} {
		c := good
		spoil(&c)
		if len(lab.Faults([]lab.Check{c})) == 0 {
			t.Errorf("a check with %s is taken", name)
		}
	}
	if len(lab.Faults([]lab.Check{good, good})) == 0 {
		t.Error("an id may be used twice")
	}
}
