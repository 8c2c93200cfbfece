package checks

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/impart-im/impart/internal/lab"
)

// labRow is a row of the evidence whose command is a run of the lab.
var labRow = regexp.MustCompile("(?m)^\\| (\\S+) \\|.*\\| `make lab LABFLAGS=(.+)` \\|$")

// TestEveryCheckIsEvidence wants each check in a row of docs/guarantees.md that is
// about its invariant, and no other name there.
func TestEveryCheckIsEvidence(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "guarantees.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range evidenceFaults(string(text), All()) {
		t.Error("docs/guarantees.md: " + fault)
	}
}

// evidenceFaults are checks without a row, and rows that name something else.
func evidenceFaults(text string, all []lab.Check) (faults []string) {
	shown := map[string]bool{}
	for _, row := range labRow.FindAllStringSubmatch(text, -1) {
		flags, names := strings.Fields(strings.Trim(row[2], "'")), []string(nil)
		engine, shape := lab.SQLite, lab.Whole
		if len(flags) > 1 && flags[0] == "--store" {
			engine, flags = lab.Engine(flags[1]), flags[2:]
		}
		if len(flags) > 0 && flags[0] == "--redis" {
			shape, flags = lab.Apart, flags[1:]
		}
		names = flags
		chosen, err := lab.Select(all, names)
		if err != nil {
			faults = append(faults, err.Error())
		}
		if len(lab.On(engine, shape, chosen)) < len(chosen) {
			faults = append(faults, "a row of "+row[1]+" names a check that is not for "+string(engine)+", "+string(shape))
		}
		for _, c := range chosen {
			shown[c.ID] = true
			if c.Invariant != row[1] {
				faults = append(faults, c.ID+" holds "+c.Invariant+" and stands in a row of "+row[1])
			}
		}
	}
	for _, c := range all {
		if !shown[c.ID] {
			faults = append(faults, "no row of the evidence runs "+c.ID)
		}
	}
	return faults
}

func TestEvidenceFaults(t *testing.T) {
	all := []lab.Check{{ID: "06-a", Invariant: "D1", Only: onSQLite}, {ID: "06-b", Invariant: "D1"}}
	for row, want := range map[string]string{
		"| D1 | x | `make lab LABFLAGS='06-*'` |":                       "",
		"| D1 | x | `make lab LABFLAGS=06-a` |":                         "no row of the evidence runs 06-b",
		"| D2 | x | `make lab LABFLAGS='06-a 06-b'` |":                  "stands in a row of D2",
		"| D1 | x | `make lab LABFLAGS='06-* gone'` |":                  `no check is called "gone"`,
		"| D1 | x | `make lab LABFLAGS='--store postgres 06-a 06-b'` |": "not for postgres",
	} {
		got := strings.Join(evidenceFaults(row+"\n", all), "; ")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", row, got, want)
		}
	}
}
