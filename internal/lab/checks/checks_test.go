package checks

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/impart-im/impart/internal/lab"
)

var update = flag.Bool("update", false, "write the table of docs/lab.md anew")

const (
	tableBegin = "<!-- checks:begin (written by `go test ./internal/lab/checks -update`; a test compares it with the code) -->\n"
	tableEnd   = "<!-- checks:end -->"
)

// table is the table of all checks as the documentation has it.
func table() string {
	var b strings.Builder
	b.WriteString("| check | holds | on | what is broken | expected | twins |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, c := range All() {
		var twins []string
		for _, s := range c.Twins {
			twins = append(twins, "`"+s.Name+"`")
		}
		id := "`" + c.ID + "`"
		if c.Short {
			id += " *"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", id, c.Invariant, c.On(), c.What, c.Expect, strings.Join(twins, ", "))
	}
	return b.String() + "\n\\* in the quick set.\n"
}

func TestTheDocumentedChecksAreTheseChecks(t *testing.T) {
	name := filepath.Join("..", "..", "..", "docs", "lab.md")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), tableBegin)
	found, after, ends := strings.Cut(rest, tableEnd)
	if !begins || !ends {
		t.Fatalf("%s has lost the marks around its table", name)
	}
	if *update {
		if err := os.WriteFile(name, []byte(before+tableBegin+table()+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if found != table() {
		t.Errorf("%s has another table than the code: go test ./internal/lab/checks -update", name)
	}
}

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
