package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestTheReadmeListsEveryMacro holds the tables of README.md against the models.
func TestTheReadmeListsEveryMacro(t *testing.T) {
	models, err := readModels(files)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := tables(models); !strings.Contains(string(text), want) {
		t.Errorf("README.md should hold these tables:\n%s", want)
	}
}

// tables are the lists of guards and probes as README.md has them.
func tables(models []model) string {
	var b strings.Builder
	b.WriteString("| model | taken out | breaks | what then no longer holds |\n| --- | --- | --- | --- |\n")
	for _, m := range models {
		for _, g := range m.guards {
			fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", m.name, g.name, g.breaks, g.what)
		}
	}
	b.WriteString("\nProbes:\n\n| model | probe | what must be reachable |\n| --- | --- | --- |\n")
	for _, m := range models {
		for _, p := range m.probes {
			fmt.Fprintf(&b, "| %s | `%s` | %s |\n", m.name, p.name, p.what)
		}
	}
	return b.String()
}

// TestJobsCoverEveryMacro wants each model whole, each searched for endless
// runs, and each macro once.
func TestJobsCoverEveryMacro(t *testing.T) {
	models, err := readModels(files)
	if err != nil {
		t.Fatal(err)
	}
	jobs := allJobs(models)
	for _, m := range models {
		for _, search := range []string{every, endless} {
			if !slices.ContainsFunc(jobs, func(j job) bool { return j.name() == m.name && j.search == search && j.faults > 0 }) {
				t.Errorf("no job looks for %s of %s with a fault", search, m.name)
			}
		}
		for _, each := range slices.Concat(m.guards, m.probes) {
			if !slices.ContainsFunc(jobs, func(j job) bool { return j.name() == m.name+"/"+each.name }) {
				t.Errorf("no job takes %s out of %s", each.name, m.name)
			}
		}
	}
}

const fine = ` *
 * NO_LOCK  D7  one writer at a time
 * PROBE_X  something happens
 */
#define FAULTS 2
#ifndef NO_LOCK
	lock();
#endif
#ifdef PROBE_X
	assert(false); /* PROBE_X */
#endif
	assert(a == b); /* D7 */
`

// TestModelsAreHeldAgainstTheirLists plants one mistake for each rule.
func TestModelsAreHeldAgainstTheirLists(t *testing.T) {
	if _, err := readModels(fstest.MapFS{"a.pml": {Data: []byte(fine)}}); err != nil {
		t.Fatal(err)
	}
	for name, plant := range map[string]struct{ old, new, want string }{
		"a macro that is not listed":       {"#endif", "#endif\n#ifdef OTHER\n#endif", "OTHER is not in the list"},
		"a macro that changes nothing":     {"#ifndef NO_LOCK", "#ifndef FAULTS", "NO_LOCK is listed, and changes nothing"},
		"a macro listed twice":             {" * PROBE_X", " * NO_LOCK  D7  again\n * PROBE_X", "listed twice"},
		"an invariant that nobody asserts": {"NO_LOCK  D7", "NO_LOCK  D8", "should break D8"},
		"a probe that asserts nothing":     {"assert(false); /* PROBE_X */", "skip", "should break PROBE_X"},
		"an assertion about nothing":       {"/* D7 */", "", "does not say"},
		"no number of faults":              {"#define FAULTS 2", "", "FAULTS has no default"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(fine, plant.old, plant.new, 1)
			_, err := readModels(fstest.MapFS{"a.pml": {Data: []byte(text)}})
			if err == nil || !strings.Contains(err.Error(), plant.want) {
				t.Errorf("the reader does not find it; it says: %v", err)
			}
		})
	}
}

// What spin's checker prints, cut to the lines that count.
const (
	head      = "(Spin Version 6.5.2 -- 6 December 2019)\n\t+ Partial Order Reduction\n\nFull statespace search for:\n\nState-vector 84 byte, depth reached 12, errors: "
	seen      = head + "0\n    3.2e+06 states, stored\nunreached in proctype Server\n\tsend.pml:209, state 49, \"-end-\"\n"
	asserts   = "pan:1: assertion violated (a==b) (at depth 9)\nWarning: Search not completed\n" + head + "1\n  77 states, stored\n"
	cycles    = "pan:1: non-progress cycle (at depth 9)\nWarning: Search not completed\n" + head + "1\n  77 states, stored\n"
	stuck     = "pan:1: invalid end state (at depth 9)\nWarning: Search not completed\n" + head + "1\n  77 states, stored\n"
	tooDeep   = "error: max search depth too small\n" + seen
	noMemory  = "pan: reached -DMEMLIM bound\nWarning: Search not completed\n" + seen
	partly    = "Bit statespace search for:\n\nState-vector 84 byte, depth reached 12, errors: 0\n  77 states, stored\n"
	asleep    = seen + "\tsend.pml:113, state 20, \"rows = (rows+1)\"\n"
	nothing   = head + "0\n        0 states, stored\n"
	noSearch  = "Segmentation fault\n"
	atD7      = "spin: a.pml:12, Error: assertion violated\nspin: text of failed assertion: assert((a==b))\n"
	elsewhere = "spin: a.pml:90, Error: assertion violated\n"
)

// TestVerdicts gives the runner what spin prints, for better and for worse.
func TestVerdicts(t *testing.T) {
	m, err := parseModel("a", fine)
	if err != nil {
		t.Fatal(err)
	}
	sound, endlessly := job{model: m, search: every}, job{model: m, search: endless}
	d7 := job{model: m, macro: macro{name: "NO_LOCK", breaks: "D7"}, search: shortest}
	d5 := job{model: m, macro: macro{name: "NO_SWEEP", breaks: inTime}, search: endless}
	for name, c := range map[string]struct {
		job         job
		out, replay string
		want        string
	}{
		"a sound model":                      {job: sound, out: seen},
		"a sound model that ends":            {job: endlessly, out: seen},
		"a sound model with a violation":     {job: sound, out: asserts, replay: atD7, want: "breaks D7"},
		"a sound model that is stuck":        {job: sound, out: stuck, want: "breaks a deadlock"},
		"a sound model that goes round":      {job: endlessly, out: cycles, want: "breaks an endless run"},
		"a search that was too deep":         {job: sound, out: tooDeep, want: "not every state was seen"},
		"a search without memory":            {job: endlessly, out: noMemory, want: "not every state was seen"},
		"a search that guesses":              {job: sound, out: partly, want: "not every state was seen"},
		"a statement that nothing reaches":   {job: sound, out: asleep, want: "nothing reaches send.pml:113"},
		"a search that saw nothing":          {job: sound, out: nothing, want: "no state was seen"},
		"a search that did not run":          {job: sound, out: noSearch, want: "did not finish"},
		"a guard that is missed":             {job: d7, out: asserts, replay: atD7},
		"a guard that nobody misses":         {job: d7, out: seen, want: "D7 should break and does not"},
		"a guard missed, or not looked well": {job: d7, out: tooDeep, want: "not every state was seen"},
		"a guard whose lack breaks another":  {job: d7, out: asserts, replay: elsewhere, want: "this should break D7"},
		"a trail that does not replay":       {job: d7, out: asserts, want: "this should break D7"},
		"a guard whose lack is a deadlock":   {job: d7, out: stuck, want: "this should break D7"},
		"a guard whose lack never ends":      {job: d5, out: cycles},
		"an endless run that is not D5":      {job: d7, out: cycles, want: "this should break D7"},
	} {
		t.Run(name, func(t *testing.T) {
			f := readSearch(c.out)
			if f.broke == asserted {
				f.broke = brokenCheck(m, c.replay)
			}
			verdict := c.job.judge(f)
			if c.want == "" && verdict != "" || !strings.Contains(verdict, c.want) {
				t.Errorf("the verdict is %q and should say %q", verdict, c.want)
			}
		})
	}
	if f := readSearch(seen); f.states != 3_200_000 || f.depth != 12 {
		t.Errorf("states %d, depth %d of %q", f.states, f.depth, seen)
	}
}
