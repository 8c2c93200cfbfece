package lab

import (
	"fmt"
	"strings"
)

// outcome is one run of a check: the honest one or a twin.
type outcome struct {
	observed string
	bit      []Bite
	figures  []Figure
	violated []string
	broken   string // why the run did not come to its end; "" if it did
	skipped  string // why it could not be done at all on this machine
	ms       int64
}

// judge makes a verdict of the honest run and the twins, which are in the order
// of their sabotages.
func judge(honest *outcome, sabotages []Sabotage, twins []outcome) (v Verdict, why string, results []TwinResult) {
	results = make([]TwinResult, len(twins))
	for i := range twins {
		results[i] = judgeTwin(sabotages[i], &twins[i])
	}
	switch {
	case len(honest.violated) > 0:
		return Fail, strings.Join(honest.violated, "; "), results
	case honest.skipped != "":
		return NotRun, honest.skipped, results
	case honest.broken != "":
		return Fail, honest.broken, results
	case !bit(honest.bit):
		return Fail, "the fault did not bite: " + biteText(honest.bit), results
	}
	if len(twins) < len(sabotages) || len(sabotages) == 0 {
		return NotRun, "not every twin was run, so nothing shows that the check can fail", results
	}
	v = Pass
	for i, r := range results {
		switch {
		case r.Caught:
		case twins[i].skipped != "":
			if v == Pass {
				v, why = NotRun, fmt.Sprintf("the twin %s could not run: %s", r.Sabotage, r.Why)
			}
		default:
			return Fail, fmt.Sprintf("the twin %s was not caught: %s", r.Sabotage, r.Why), results
		}
	}
	return v, why, results
}

// judgeTwin wants a violation, in a run whose fault bit: a twin that merely
// broke down shows nothing.
func judgeTwin(s Sabotage, o *outcome) TwinResult {
	r := TwinResult{Sabotage: s.Name, What: s.What, Observed: o.observed, Violated: o.violated, MS: o.ms}
	switch {
	case o.skipped != "":
		r.Why = o.skipped
	case bit(o.bit) && len(o.violated) > 0:
		r.Caught = true
	case o.broken != "":
		r.Why = o.broken
	case !bit(o.bit):
		r.Why = "the fault did not bite: " + biteText(o.bit)
	default:
		r.Why = "nothing was reported although " + s.What
	}
	return r
}

// bit reports whether everything that was to break did.
func bit(bites []Bite) bool {
	for _, b := range bites {
		if b.Times <= 0 {
			return false
		}
	}
	return len(bites) > 0
}

func biteText(bites []Bite) string {
	if len(bites) == 0 {
		return "nothing counted it"
	}
	var parts []string
	for _, b := range bites {
		parts = append(parts, fmt.Sprintf("%s %d", b.What, b.Times))
	}
	return strings.Join(parts, ", ")
}
