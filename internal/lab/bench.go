package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"time"
)

// Bench is what one run of a check works on: processes, clients and folders of
// its own, and the list of what was seen. Methods that end the run early may only
// be called by the goroutine that runs the check, or inside [Bench.Each].
type Bench struct {
	// Sabotage is the guard that is off; its zero value in the honest run.
	Sabotage Sabotage
	// Dir is the folder of the evidence: logs and what is written down.
	Dir string
	// Data is a folder for stores. It is removed after the run unless the lab keeps it.
	Data string
	// Binary is a program built with fault points.
	Binary string
	// Engine is what stores are made in, unless a check says otherwise.
	Engine Engine
	// Shape is what nodes consist of.
	Shape Shape

	ctx      context.Context
	pool     *pool
	timeline *timeline

	mu       sync.Mutex // guards what follows
	seen     outcome
	cleanups []func()
	named    map[string]int // how many processes have begun with a name
	redis    *Redis
	redisAt  string // where servers look for it instead
}

// Sabotaged reports whether the run is the twin of that name.
func (b *Bench) Sabotaged(name string) bool { return b.Sabotage.Name == name }

// Saw says in one line what was observed; the last call counts. As in all texts here,
// "%d row(s)" becomes "1 row" or "3 rows".
func (b *Bench) Saw(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen.observed = sentence(format, args...)
}

// Bit counts that something broke: "exit code 137", "pushes dropped". Each that
// is named has to have happened at least once, or the run does not count.
func (b *Bench) Bit(what string, times int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.seen.bit {
		if b.seen.bit[i].What == what {
			b.seen.bit[i].Times += times
			return
		}
	}
	b.seen.bit = append(b.seen.bit, Bite{what, times})
}

// Figure reports a measurement. It is never judged.
func (b *Bench) Figure(what string, value float64, unit string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen.figures = append(b.seen.figures, Figure{what, math.Round(value*100) / 100, unit})
}

// maxViolations bounds the list: one cause can show a thousand times.
const maxViolations = 10

// Violated reports something that must never be seen.
func (b *Bench) Violated(format string, args ...any) {
	text := sentence(format, args...)
	b.Note(judgeName, "violated", "%s", text)
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.seen.violated) < maxViolations {
		b.seen.violated = append(b.seen.violated, text)
	}
}

// Wants reports a violation unless ok.
func (b *Bench) Wants(ok bool, format string, args ...any) {
	if !ok {
		b.Violated(format, args...)
	}
}

// Note puts a moment on the timeline: who (a process or client), what (one word),
// and a text.
func (b *Bench) Note(who, what, format string, args ...any) {
	b.timeline.add(who, what, sentence(format, args...))
}

// ended is what ends a run early, through panic and recover within this package.
type ended struct{ broken, skipped string }

// Must ends the run if err is one: the check could not be carried out.
func (b *Bench) Must(err error) {
	if err == nil {
		return
	}
	if b.ctx.Err() != nil {
		err = fmt.Errorf("%w (%w)", context.Cause(b.ctx), err)
	}
	panic(ended{broken: err.Error()})
}

// Broken ends the run: the check could not be carried out.
func (b *Bench) Broken(format string, args ...any) { b.Must(errors.New(sentence(format, args...))) }

// NotRun ends the run because this machine lacks what it needs. A reason is
// needed: without one the check fails.
func (b *Bench) NotRun(reason string) {
	if reason == "" {
		b.Broken("NOT_RUN needs a reason")
	}
	panic(ended{skipped: reason})
}

// Cleanup registers what to do at the end of the run; the last one comes first.
func (b *Bench) Cleanup(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cleanups = append(b.cleanups, f)
}

// Eventually waits until ok is true, and reports whether it was within the time.
func (b *Bench) Eventually(within time.Duration, ok func() bool) bool {
	late := time.NewTimer(within)
	defer late.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-late.C:
			return ok()
		case <-b.ctx.Done():
			b.Must(b.ctx.Err())
		}
	}
	return true
}

// Pause lets time pass. It is for checks that are about time; others wait for
// something with [Bench.Eventually].
func (b *Bench) Pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-b.ctx.Done():
		b.Must(b.ctx.Err())
	}
}

// Each runs f for 0 to n-1 at once and waits for all. If one of them ends the
// run, the run ends when all are done.
func (b *Bench) Each(n int, f func(i int)) {
	var wg sync.WaitGroup
	ends := make([]*ended, n)
	for i := range n {
		wg.Go(func() { ends[i] = b.attempt(func() { f(i) }) })
	}
	wg.Wait()
	for _, e := range ends {
		if e != nil {
			panic(*e)
		}
	}
}

// attempt runs f and gives how it ended early, nil if it did not.
func (b *Bench) attempt(f func()) (e *ended) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case ended:
			e = &r
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

// run carries check out on b and gives the outcome. Whatever the check has
// started is gone afterwards.
func (b *Bench) run(check *Check) outcome {
	limit := check.Limit
	if limit == 0 {
		limit = defaultLimit
	}
	ctx, cancel := context.WithTimeoutCause(b.ctx, limit, fmt.Errorf("it took longer than %v", limit))
	defer cancel()
	b.ctx = ctx
	e := b.attempt(func() { check.Run(ctx, b) })
	b.timeline.end()
	b.cleanUp()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen.ms = time.Since(b.timeline.began).Milliseconds()
	if e != nil {
		b.seen.broken, b.seen.skipped = e.broken, e.skipped
	}
	return b.seen
}

func (b *Bench) cleanUp() {
	b.mu.Lock()
	todo := b.cleanups
	b.cleanups = nil
	b.mu.Unlock()
	for _, f := range slices.Backward(todo) {
		f()
	}
}

// newBench makes the folders of one run of a check. The data folder is short and
// elsewhere, because sockets and mounts want short paths.
func newBench(ctx context.Context, o *Options, dir string, s Sabotage) (*Bench, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	data, err := os.MkdirTemp("", "impart-lab-")
	if err != nil {
		return nil, err
	}
	t, err := newTimeline(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(data))
	}
	return &Bench{Sabotage: s, Dir: dir, Data: data, Binary: o.Binary, Engine: o.Store, Shape: o.Shape, ctx: ctx, pool: o.pool, timeline: t}, nil
}
