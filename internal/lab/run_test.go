package lab

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// guarded is a check of a guard that its twin lacks.
func guarded() Check {
	return Check{
		ID: "guarded", Invariant: "D2", What: "Something breaks.", Expect: "1 row",
		Twins: []Sabotage{{Name: "unguarded", What: "the guard is off"}},
		Run: func(_ context.Context, b *Bench) {
			rows := 1
			if b.Sabotaged("unguarded") {
				rows = 2
			}
			b.Note("server", "killed", "SIGKILL")
			b.Bit("exit code 137", 1)
			b.Wants(rows == 1, "%d rows", rows)
			b.Saw("%d rows", rows)
		},
	}
}

func runChecks(t *testing.T, o Options, checks ...Check) *Result {
	t.Helper()
	if o.Out == "" {
		o.Out = filepath.Join(t.TempDir(), "run-1")
	}
	r, err := Run(t.Context(), checks, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestResultFile(t *testing.T) {
	dull, away := guarded(), guarded()
	dull.ID, away.ID = "dull", "away"
	dull.Run = func(_ context.Context, b *Bench) { b.Bit("exit code 137", 0) }
	away.Run = func(_ context.Context, b *Bench) { b.NotRun("no FUSE here") }
	out := filepath.Join(t.TempDir(), "run-1")
	runChecks(t, Options{Out: out, Version: "v1"}, guarded(), dull, away)
	r, err := ReadResult(out)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Checks { // the only thing that differs from run to run
		r.Checks[i].MS = 1
		for j := range r.Checks[i].Twins {
			r.Checks[i].Twins[j].MS = 1
		}
	}
	again := t.TempDir()
	if err := r.write(again); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(again, resultName))
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "result.json")
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("result.json has another shape (-want +got):\n%s", diff)
	}
	moments, err := ReadMoments(Folder(out, "guarded", "unguarded"))
	if err != nil || len(moments) != 2 || moments[0].What != "killed" || moments[1].What != "violated" {
		t.Errorf("the timeline has %+v, %v", moments, err)
	}
}

func TestNotRunNeedsAReason(t *testing.T) {
	c := guarded()
	c.Run = func(_ context.Context, b *Bench) { b.NotRun("") }
	if r := runChecks(t, Options{}, c).Checks[0]; r.Verdict != Fail || !strings.Contains(r.Why, "needs a reason") {
		t.Errorf("%s %q", r.Verdict, r.Why)
	}
}

func TestAHonestFailureRunsNoTwins(t *testing.T) {
	c := guarded()
	c.Run = func(_ context.Context, b *Bench) {
		b.Bit("x", 1)
		b.Must(errors.New("no welcome"))
		t.Error("it goes on")
	}
	r := runChecks(t, Options{}, c).Checks[0]
	if r.Verdict != Fail || r.Why != "no welcome" || len(r.Twins) != 0 {
		t.Errorf("%+v", r)
	}
}

func TestARunEndsAtItsLimit(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := guarded()
		c.Limit = time.Minute
		c.Run = func(_ context.Context, b *Bench) { b.Eventually(time.Hour, func() bool { return false }) }
		r, err := Run(t.Context(), []Check{c}, Options{Out: filepath.Join(dir, "r")})
		if err != nil || r.Checks[0].Verdict != Fail || !strings.Contains(r.Checks[0].Why, "longer than 1m0s") {
			t.Errorf("%v %+v", err, r.Checks)
		}
	})
}

func TestAnInterruptedLabSaysWhatDidNotRun(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	cleaned := false
	first, second := guarded(), guarded()
	second.ID = "second"
	first.Run = func(_ context.Context, b *Bench) {
		b.Cleanup(func() { cleaned = true })
		stop(errors.New("Ctrl-C"))
		b.Pause(time.Hour)
	}
	r, err := Run(ctx, []Check{first, second}, Options{Out: filepath.Join(t.TempDir(), "r")})
	if err == nil || !cleaned || r.Count(NotRun) != 2 || !strings.Contains(r.Checks[1].Why, "Ctrl-C") {
		t.Errorf("%v, cleaned %v, %+v", err, cleaned, r.Checks)
	}
}

func TestCleanupIsTheLastFirst(t *testing.T) {
	var order []string
	c := guarded()
	run := c.Run
	c.Run = func(ctx context.Context, b *Bench) {
		b.Cleanup(func() { order = append(order, "server") })
		b.Cleanup(func() { order = append(order, "client") })
		run(ctx, b)
		b.Must(errors.New("in the middle"))
	}
	runChecks(t, Options{}, c)
	if strings.Join(order, " ") != "client server" {
		t.Errorf("cleaned up in the order %v", order)
	}
}

func TestStoresOfFailuresAreKept(t *testing.T) {
	for name, c := range map[string]struct {
		fails, keep, want bool
	}{"a pass": {}, "a failure": {fails: true, want: true}, "a pass with --keep": {keep: true, want: true}} {
		t.Run(name, func(t *testing.T) {
			check := guarded()
			run := check.Run
			check.Run = func(ctx context.Context, b *Bench) {
				b.Must(os.WriteFile(filepath.Join(b.Data, "impart.db"), []byte("rows"), 0o644))
				run(ctx, b)
				b.Wants(!c.fails, "a row is missing")
			}
			out := filepath.Join(t.TempDir(), "r")
			runChecks(t, Options{Out: out, Keep: c.keep}, check)
			_, err := os.Stat(filepath.Join(Folder(out, "guarded", ""), "data", "impart.db"))
			if (err == nil) != c.want {
				t.Errorf("the store: %v", err)
			}
		})
	}
}

func TestTwoRunsNeverShareAFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "evidence")
	synctest.Test(t, func(t *testing.T) { // at one instant
		first, err := NewRun(dir)
		second, err2 := NewRun(dir)
		if err != nil || err2 != nil || first == second || first > second {
			t.Errorf("%s %v, %s %v", first, err, second, err2)
		}
	})
}

func TestEachWaitsForAll(t *testing.T) {
	c := guarded()
	c.Run = func(_ context.Context, b *Bench) {
		done := make([]bool, 3)
		e := b.attempt(func() {
			b.Each(3, func(i int) {
				if i == 0 {
					b.Must(errors.New("one gives up"))
				}
				done[i] = true
			})
		})
		if e == nil || e.broken != "one gives up" || !done[1] || !done[2] {
			t.Errorf("%+v %v", e, done)
		}
	}
	runChecks(t, Options{}, c)
}
