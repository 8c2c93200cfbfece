// Package lab breaks real processes and judges what is left from outside. A
// check passes only if its fault bit, nothing was violated, and the same check
// reports a violation on each of its twins, in which one guard is switched off.
// It promises nothing about what a check does not look at, and a check that
// could not run is never counted as passed.
package lab

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/impart-im/impart/internal/fault"
)

// Check is one thing that must hold while something breaks.
type Check struct {
	ID        string   // "06-lost-push-swept"
	Invariant string   // what must hold: D1 to D18
	What      string   // one sentence: what is broken and what is looked at
	Expect    string   // what has to be observed
	Short     bool     // belongs to the quick set
	Only      []Engine // the engines that it is about; none: any
	Shape     Shape    // the shape that it is about; "": any
	// Twins are the same check with one guard switched off, at least one.
	Twins []Sabotage
	// Limit bounds one run of the check; 0 is [defaultLimit].
	Limit time.Duration
	// Run carries the check out. What it sees it tells b: [Bench.Saw], [Bench.Bit]
	// and [Bench.Violated]. It ends early through [Bench.Must] and its siblings.
	Run func(ctx context.Context, b *Bench)
}

// On says on which stores a check is run, and in which shape of servers if only in one.
func (c *Check) On() string {
	var engines []string
	for _, e := range c.Only {
		engines = append(engines, map[Engine]string{SQLite: "SQLite", PostgreSQL: "PostgreSQL", MySQL: "MySQL"}[e])
	}
	on := cmp.Or(strings.Join(engines, " and "), "all")
	if c.Shape != "" {
		on += ", " + string(c.Shape)
	}
	return on
}

// defaultLimit bounds one run of a check.
const defaultLimit = 90 * time.Second

// Sabotage is a guard that a twin runs without. Its zero value switches nothing
// off: the honest run.
type Sabotage struct {
	Name string // also the twin's folder in the evidence
	What string // one sentence: which guard is off
	// Bug is planted in every server and client of the run (IM_BUG).
	Bug fault.Bug
	// Env are settings of the servers, as "IM_ALLOW_UNSAFE_DURABILITY=true".
	Env []string
	// Settings are those of the database servers.
	Settings Settings
}

// Planted is the twin with this bug in it.
func Planted(bug fault.Bug, what string) Sabotage {
	return Sabotage{Name: string(bug), What: what, Bug: bug}
}

// Honest reports whether no guard is off.
func (s Sabotage) Honest() bool { return s.Name == "" }

// folder is where its evidence goes.
func (s Sabotage) folder() string {
	if s.Honest() {
		return "honest"
	}
	return s.Name
}

// UnknownError is a name or pattern that is no check's.
type UnknownError struct{ Name string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("no check is called %q; impart lab list shows them", e.Name)
}

// Select gives the checks whose ids match one of the patterns (as [path.Match]
// has them), in their own order; all of them without patterns. A pattern that
// matches nothing is an [UnknownError].
func Select(checks []Check, patterns []string) ([]Check, error) {
	if len(patterns) == 0 {
		return checks, nil
	}
	wanted := map[string]bool{}
	for _, pattern := range patterns {
		found := false
		for _, c := range checks {
			match, err := path.Match(pattern, c.ID)
			if err != nil {
				return nil, fmt.Errorf("the pattern %q: %w", pattern, err)
			}
			found = found || match
			wanted[c.ID] = wanted[c.ID] || match
		}
		if !found {
			return nil, &UnknownError{pattern}
		}
	}
	return slices.DeleteFunc(slices.Clone(checks), func(c Check) bool { return !wanted[c.ID] }), nil
}

// Faults are what is wrong with the checks themselves: an id that is used twice,
// a check without a twin or without words.
func Faults(checks []Check) []string {
	var faults []string
	seen := map[string]bool{}
	for _, c := range checks {
		say := func(what string) { faults = append(faults, fmt.Sprintf("check %q %s", c.ID, what)) }
		if c.ID == "" || seen[c.ID] || strings.ContainsAny(c.ID, `/\*?[ `) {
			say("has no id that names it alone")
		}
		seen[c.ID] = true
		if !strings.HasPrefix(c.Invariant, "D") || c.What == "" || c.Expect == "" || c.Run == nil {
			say("lacks an invariant, a sentence, an expectation or a run")
		}
		if len(c.Twins) == 0 {
			say("has no twin: it cannot show that it can fail")
		}
		names := map[string]bool{}
		for _, s := range c.Twins {
			if s.Honest() || s.What == "" || names[s.Name] || strings.ContainsAny(s.Name, `/\ .`) {
				say(fmt.Sprintf("has a twin %q without a name of its own or a sentence", s.Name))
			}
			names[s.Name] = true
		}
	}
	return faults
}
