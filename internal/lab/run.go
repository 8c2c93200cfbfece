package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Options say how to run checks. Binary and Out are needed.
type Options struct {
	Binary  string // a program built with fault points, see [Program]
	Version string // of the program, for the result
	Out     string // folder of this run's evidence; it is made
	Keep    bool   // keep the stores of all runs; else those of failed checks are kept
	Store   Engine // what servers keep their messages in; "" is SQLite
	Shape   Shape  // what nodes consist of; "" is Whole
	// Progress is told of each step, by one goroutine; nil is fine.
	Progress func(Step)

	pool *pool
}

// Step is something to show while the lab works. Exactly one of Result and Run
// is set.
type Step struct {
	Index, Of int // of the checks: 1 to Of
	Check     *Check
	Run       string       // "honest", or the twin's sabotage: it starts now
	Result    *CheckResult // the check is done
}

// runLayout names runs by their time, so that they sort.
const runLayout = "20060102-150405"

// NewRun makes the folder under dir of a run that starts now, and gives its path.
func NewRun(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	name := filepath.Join(dir, time.Now().Format(runLayout))
	out := name
	for n := 2; ; n++ {
		err := os.Mkdir(out, 0o755)
		if !errors.Is(err, os.ErrExist) {
			return out, err
		}
		out = fmt.Sprint(name, "-", n) // two of them in one second
	}
}

// Run carries out the checks, one after another, each honestly and on its twins,
// and writes result.json and the timeline after each of them. When ctx ends, the
// rest is NOT_RUN and ctx's cause comes back with the result.
func Run(ctx context.Context, checks []Check, o Options) (_ *Result, err error) {
	o.Store, o.Shape = cmp.Or(o.Store, SQLite), cmp.Or(o.Shape, Whole)
	o.pool = new(pool)
	defer func() { err = errors.Join(err, o.pool.close()) }()
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return nil, err
	}
	r := &Result{Run: filepath.Base(o.Out), Version: o.Version, Store: string(o.Store), Shape: o.Shape, Checks: []CheckResult{}}
	for i := range checks {
		progress := func(s Step) {
			if o.Progress != nil {
				s.Index, s.Of, s.Check = i+1, len(checks), &checks[i]
				o.Progress(s)
			}
		}
		done, err := runCheck(ctx, &checks[i], &o, progress)
		if err != nil {
			return r, fmt.Errorf("check %s: %w", checks[i].ID, err)
		}
		r.Checks = append(r.Checks, *done)
		progress(Step{Result: done})
		if err := r.write(o.Out); err != nil {
			return r, err
		}
	}
	return r, context.Cause(ctx)
}

// runCheck runs one check honestly, then its twins. Once the honest run has
// failed, the twins would show nothing.
func runCheck(ctx context.Context, c *Check, o *Options, progress func(Step)) (*CheckResult, error) {
	out := &CheckResult{ID: c.ID, Invariant: c.Invariant, What: c.What, Expect: c.Expect}
	began := time.Now()
	honest, err := runOnce(ctx, c, o, Sabotage{}, progress)
	if err != nil {
		return nil, err
	}
	var twins []outcome
	if honest.skipped == "" && honest.broken == "" && len(honest.violated) == 0 {
		for _, s := range c.Twins {
			twin, err := runOnce(ctx, c, o, s, progress)
			if err != nil {
				return nil, err
			}
			twins = append(twins, twin)
		}
	}
	out.Observed, out.Bit, out.Figures = honest.observed, honest.bit, honest.figures
	out.Verdict, out.Why, out.Twins = judge(&honest, c.Twins, twins)
	if ctx.Err() != nil {
		out.Verdict, out.Why = NotRun, context.Cause(ctx).Error()
	}
	out.MS = time.Since(began).Milliseconds()
	return out, nil
}

// runOnce runs a check with one sabotage, or honestly. An error is one of the
// lab itself.
func runOnce(ctx context.Context, c *Check, o *Options, s Sabotage, progress func(Step)) (_ outcome, err error) {
	if ctx.Err() != nil {
		return outcome{skipped: context.Cause(ctx).Error()}, nil
	}
	progress(Step{Run: s.folder()})
	dir := Folder(o.Out, c.ID, s.Name)
	b, err := newBench(ctx, o, dir, s)
	if err != nil {
		return outcome{}, err
	}
	defer func() { err = errors.Join(err, b.timeline.close()) }()
	done := b.run(c)
	failed := s.Honest() && (done.broken != "" || len(done.violated) > 0)
	if o.Keep || failed {
		return done, keepData(b.Data, filepath.Join(dir, "data"))
	}
	return done, os.RemoveAll(b.Data)
}

// keepData moves the stores of a run to its evidence, or copies them where that
// is another disk.
func keepData(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if os.Rename(from, to) == nil {
		return nil
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	return os.RemoveAll(from)
}
