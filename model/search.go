package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The kinds of search.
const (
	// every visits each state once, and fails at an assertion or a deadlock.
	every = "every state"
	// endless looks for a run that goes round for ever.
	endless = "endless runs"
	// shortest goes breadth first, so that the violation it finds is a shortest one.
	shortest = "shortest violation"
)

// inTime is the invariant that a run which never ends breaks: whoever lacks
// something gets it in bounded time.
const inTime = "D5"

// fewFaults are enough to break a model that lacks a guard. One is tried first.
const fewFaults = 2

// Limits of one search; one that meets a limit is no proof.
const (
	maxMemory = 1536 // MiB
	maxDepth  = 100_000
	maxTime   = 10 * time.Minute
)

// job is one run of spin: a model, with one macro or with none.
type job struct {
	model  model
	macro  macro // the zero value: the sound model
	search string
	faults int // at most, in one run
}

func (j job) name() string {
	if j.macro.name == "" {
		return j.model.name
	}
	return j.model.name + "/" + j.macro.name
}

// allJobs begins with the sound models, which take longest.
func allJobs(models []model) []job {
	var jobs []job
	for _, m := range models {
		jobs = append(jobs, job{model: m, search: every, faults: m.faults})
	}
	for _, m := range models { // this search is larger, so with one fault fewer
		jobs = append(jobs, job{model: m, search: endless, faults: m.faults - 1})
	}
	for _, m := range models {
		for _, g := range m.guards {
			j := job{m, g, shortest, fewFaults}
			if g.breaks == inTime {
				j.search = endless // which sees assertions too
			}
			jobs = append(jobs, j)
		}
		for _, p := range m.probes {
			jobs = append(jobs, job{m, p, shortest, fewFaults})
		}
	}
	return jobs
}

// result is what became of a job.
type result struct {
	Model   string  `json:"model"`
	Macro   string  `json:"taken_out,omitempty"` // guard or probe; empty: the sound model
	Breaks  string  `json:"should_break,omitempty"`
	Search  string  `json:"search"`
	Faults  int     `json:"faults"` // that could happen in one run
	States  int     `json:"states"`
	Depth   int     `json:"depth"`
	Seconds float64 `json:"seconds"`         // of the search alone
	Found   string  `json:"found,omitempty"` // what broke
	Fault   string  `json:"fault,omitempty"` // why this is not as it should be
	Trail   string  `json:"trail,omitempty"`
}

// tools are the programs that a run needs.
type tools struct {
	spin, cc string
	trail    bool // keep the steps to each violation
	verbose  bool // each statement of them too
}

// do runs one job in a folder of its own. What should break is tried with as few
// faults as possible.
func (t tools) do(ctx context.Context, dir string, j job) result {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	most := j.faults
	if j.macro.name != "" {
		j.faults = min(1, most)
	}
	for ; ; j.faults++ {
		r := result{Model: j.model.name, Macro: j.macro.name, Breaks: j.macro.breaks, Search: j.search, Faults: j.faults}
		name := strings.NewReplacer("/", "-", " ", "-").Replace(fmt.Sprint(j.name(), " ", j.search, " ", j.faults))
		f, err := t.searchIn(ctx, filepath.Join(dir, name), j, &r)
		if err != nil {
			r.Fault = err.Error()
			return r
		}
		r.States, r.Depth, r.Found = f.states, f.depth, f.broke
		r.Fault = j.judge(f)
		if f.broke != "" || j.faults == most {
			return r
		}
	}
}

// searchIn generates, compiles and runs the checker of one job.
func (t tools) searchIn(ctx context.Context, dir string, j job, r *result) (findings, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return findings{}, err
	}
	file := j.model.name + ".pml"
	if err := os.WriteFile(filepath.Join(dir, file), []byte(j.model.text), 0o600); err != nil {
		return findings{}, err
	}
	defines := []string{"-P" + t.cc + " -E -x c", fmt.Sprintf("-DFAULTS=%d", j.faults)}
	if j.macro.name != "" {
		defines = append(defines, "-D"+j.macro.name)
	}
	if _, err := command(ctx, dir, t.spin, append([]string{"-a"}, append(defines, file)...)...); err != nil {
		return findings{}, err
	}
	compile, options := checker(j)
	if _, err := command(ctx, dir, t.cc, append(compile, "-w", fmt.Sprintf("-DMEMLIM=%d", maxMemory), "-o", "pan", "pan.c")...); err != nil {
		return findings{}, err
	}
	start := time.Now()
	out, err := command(ctx, dir, "./pan", append(options, fmt.Sprintf("-m%d", maxDepth), "-w20")...)
	r.Seconds = time.Since(start).Seconds()
	if err != nil {
		return findings{}, err
	}
	f := readSearch(out)
	if f.broke == asserted || f.broke == goesRound && t.trail {
		replay := append([]string{"-t", "-p", "-g"}, append(defines, file)...)
		steps, err := command(ctx, dir, t.spin, replay...)
		if err != nil {
			return f, err
		}
		if f.broke == asserted {
			f.broke = brokenCheck(j.model, steps)
		}
		if t.trail {
			r.Trail = story(j.model, steps)
		}
		if t.trail && t.verbose {
			r.Trail += "\n" + steps
		}
	}
	return f, nil
}

// checker is how the checker of a job is compiled and run.
func checker(j job) (compile, options []string) {
	optimize := "-O2"
	if j.macro.name != "" {
		optimize = "-O0" // what is broken is found sooner than a better checker is compiled
	}
	switch j.search {
	case endless:
		return []string{optimize, "-DNP"}, []string{"-l"}
	case shortest:
		return []string{optimize, "-DSAFETY", "-DBFS"}, nil
	}
	return []string{optimize, "-DSAFETY"}, nil
}

// command runs a program and returns what it printed.
func command(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "TMPDIR="+dir) // what it leaves there goes with dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 2 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// findings are what a search says of itself.
type findings struct {
	states, depth int
	broke         string   // asserted, deadlock, goesRound, or the check that failed
	partial       string   // why the search did not see everything
	unreached     []string // statements that no run has reached
}

// What a search can find.
const (
	asserted  = "an assertion"
	deadlock  = "a deadlock"
	goesRound = "an endless run"
)

var (
	statesLine    = regexp.MustCompile(`(?m)^ *([0-9.e+]+) states, stored`)
	depthLine     = regexp.MustCompile(`depth reached (\d+), errors: (\d+)`)
	unreachedLine = regexp.MustCompile(`(?m)^\t\S+\.pml:\d+, state \d+, "(.*)"$`)
	partialLine   = regexp.MustCompile(`(?mi)^.*(search depth too small|search not completed|MEMLIM bound|out of memory|aborted|bit statespace|hash.compact).*$`)
	failedLine    = regexp.MustCompile(`\S+\.pml:(\d+), Error: assertion violated`)
)

// readSearch reads what a checker printed.
func readSearch(out string) findings {
	var f findings
	if found := statesLine.FindStringSubmatch(out); found != nil {
		states, _ := strconv.ParseFloat(found[1], 64)
		f.states = int(states)
	}
	found := depthLine.FindStringSubmatch(out)
	if found == nil || !strings.Contains(out, "Full statespace search") && !strings.Contains(out, "Breadth-First Search") {
		f.partial = "it did not finish: " + strings.TrimSpace(out)
		return f
	}
	f.depth, _ = strconv.Atoi(found[1])
	f.partial = strings.TrimSpace(partialLine.FindString(out))
	for _, line := range unreachedLine.FindAllStringSubmatch(out, -1) {
		if line[1] != "-end-" { // of processes that go on as long as something happens
			f.unreached = append(f.unreached, strings.TrimSpace(line[0]))
		}
	}
	if found[2] == "0" {
		return f
	}
	switch {
	case strings.Contains(out, "assertion violated"):
		f.broke = asserted
	case strings.Contains(out, "non-progress cycle"):
		f.broke = goesRound
	default:
		f.broke = deadlock
	}
	return f
}

// brokenCheck is what the assertion is about at which a replay fails first.
func brokenCheck(m model, replay string) string {
	found := failedLine.FindStringSubmatch(replay)
	if found == nil {
		return "the replay breaks nothing"
	}
	number, _ := strconv.Atoi(found[1])
	lines := strings.Split(m.text, "\n")
	if number < 1 || number > len(lines) {
		return "an assertion outside of the model"
	}
	return checkOf(lines[number-1])
}

// judge says why the findings are not what the job should find; empty if they are.
func (j job) judge(f findings) string {
	if j.macro.name != "" {
		return j.judgeBroken(f)
	}
	switch {
	case f.broke != "":
		return "the sound model breaks " + f.broke
	case f.partial != "":
		return "not every state was seen: " + f.partial
	case f.states == 0:
		return "no state was seen"
	case j.search == every && len(f.unreached) > 0:
		return "nothing reaches " + strings.Join(f.unreached, ", ")
	}
	return ""
}

func (j job) judgeBroken(f findings) string {
	switch {
	case f.broke == "" && f.partial != "":
		return "nothing found, and not every state was seen: " + f.partial
	case f.broke == "":
		return j.macro.breaks + " should break and does not"
	case f.broke != j.macro.breaks && !(f.broke == goesRound && j.macro.breaks == inTime):
		return "this should break " + j.macro.breaks
	}
	return ""
}
