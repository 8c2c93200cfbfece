package lab

import (
	"strings"
	"testing"
)

func TestVerdicts(t *testing.T) {
	bites := []Bite{{"exit code 137", 1}}
	off := []Sabotage{{Name: "off", What: "the guard is off"}}
	good := outcome{observed: "1 row", bit: bites}
	caught := outcome{bit: bites, violated: []string{"2 rows"}}
	for name, c := range map[string]struct {
		honest    outcome
		sabotages []Sabotage
		twins     []outcome
		want      Verdict
		why       string
	}{
		"all is well":                      {good, off, []outcome{caught}, Pass, ""},
		"something is violated":            {outcome{bit: bites, violated: []string{"2 rows"}}, off, nil, Fail, "2 rows"},
		"it does not come to its end":      {outcome{bit: bites, broken: "no welcome"}, off, nil, Fail, "no welcome"},
		"the fault does not bite":          {outcome{bit: []Bite{{"exit code 137", 1}, {"pushes lost", 0}}}, off, []outcome{caught}, Fail, "did not bite: exit code 137 1, pushes lost 0"},
		"nobody counts the fault":          {outcome{}, off, []outcome{caught}, Fail, "nothing counted it"},
		"the machine lacks something":      {outcome{skipped: "no FUSE here"}, off, nil, NotRun, "no FUSE here"},
		"a violation before a skip":        {outcome{skipped: "no FUSE here", violated: []string{"2 rows"}}, off, nil, Fail, "2 rows"},
		"the twin is not caught":           {good, off, []outcome{good}, Fail, "the twin off was not caught: nothing was reported although the guard is off"},
		"the twin's fault does not bite":   {good, off, []outcome{{violated: []string{"2 rows"}}}, Fail, "did not bite"},
		"the twin only breaks down":        {good, off, []outcome{{bit: bites, broken: "no welcome"}}, Fail, "no welcome"},
		"the twin breaks down and is seen": {good, off, []outcome{{bit: bites, broken: "no welcome", violated: []string{"2 rows"}}}, Pass, ""},
		"the twin cannot run":              {good, off, []outcome{{skipped: "no FUSE here"}}, NotRun, "no FUSE here"},
		"a twin was left out":              {good, off, nil, NotRun, "not every twin"},
		"there is no twin":                 {good, nil, nil, NotRun, "not every twin"},
		"one of two is not caught": {good, []Sabotage{{Name: "a", What: "x"}, {Name: "b", What: "y"}}, []outcome{{skipped: "no FUSE"}, good},
			Fail, "the twin b was not caught"},
	} {
		t.Run(name, func(t *testing.T) {
			v, why, results := judge(&c.honest, c.sabotages, c.twins)
			if v != c.want || !strings.Contains(why, c.why) || (why == "") != (v == Pass) {
				t.Errorf("%s %q, want %s %q", v, why, c.want, c.why)
			}
			if len(results) != len(c.twins) {
				t.Errorf("%d results of %d twins", len(results), len(c.twins))
			}
		})
	}
}

func TestSelect(t *testing.T) {
	all := []Check{{ID: "06-a"}, {ID: "06-b"}, {ID: "power-cut"}}
	for names, want := range map[string]int{"": 3, "06-*": 2, "power-cut": 1, "power-cut 06-a": 2, "06-? 06-a": 2} {
		chosen, err := Select(all, strings.Fields(names))
		if err != nil || len(chosen) != want {
			t.Errorf("%q gives %d checks and %v, want %d", names, len(chosen), err, want)
		}
	}
	for _, wrong := range []string{"07-*", "06-a gone", "06-["} {
		if chosen, err := Select(all, strings.Fields(wrong)); err == nil {
			t.Errorf("%q gives %d checks and no error", wrong, len(chosen))
		}
	}
}
