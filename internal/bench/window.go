package bench

import (
	"context"
	"sync/atomic"
	"time"
)

// meter is what the workers of a window count.
type meter struct {
	done atomic.Int64
	lat  *recorder
}

func newMeter() *meter { return &meter{lat: newRecorder()} }

// finish counts one operation that took d.
func (m *meter) finish(d time.Duration) {
	m.lat.record(d)
	m.done.Add(1)
}

// window is a stretch of time in which something is measured.
type window struct {
	name, unit string        // what goes on; what is counted
	of         time.Duration // 0: it ends by itself
	grace      time.Duration // how much longer work may take to end by itself
	also       []*track      // what else is counted meanwhile
}

// track is a meter with its course over a window.
type track struct {
	name, unit string
	m          *meter
	done       int64
	points     []Point
}

// look takes a point of what has happened in the span that ends now.
func (t *track) look(at, span time.Duration) Point {
	done := t.m.done.Load()
	p := Point{At: at.Seconds(), Rate: float64(done-t.done) / span.Seconds()}
	if l := summarize(t.m.lat.rotate()); l != nil {
		p.P50, p.P99 = l.P50, l.P99
	}
	t.points = append(t.points, p)
	t.done = done
	return p
}

// run sums up a window of so many seconds.
func (t *track) run(seconds float64) Run {
	run := Run{Name: t.name, PointsOf: t.unit + " a second", Seconds: seconds, Latency: t.m.lat.latency(), Points: t.points}
	done := float64(t.m.done.Load())
	run.add(t.unit, done, "")
	run.add(t.unit+" a second", done/seconds, "/s")
	return run
}

// window runs work until its time is over, or ctx ends, whichever is first, and
// looks at m once a second. The context of work ends then; work returns when all
// that it started has ended.
func (e *Env) window(ctx context.Context, win window, m *meter, work func(ctx context.Context) error) (Run, error) {
	if win.of > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, win.of+win.grace)
		defer cancel()
	}
	main := &track{name: win.name, unit: win.unit, m: m}
	start := time.Now()
	last := start
	look := func() {
		now := time.Now()
		span := now.Sub(last)
		if span < 100*time.Millisecond {
			return // the stub of a second at the end tells nothing
		}
		last = now
		for _, t := range win.also {
			t.look(now.Sub(start), span)
		}
		p := main.look(now.Sub(start), span)
		e.tell(Progress{
			Window: win.name, Spent: now.Sub(start), Of: win.of, Done: main.done, Rate: p.Rate, Unit: win.unit,
			P99: time.Duration(p.P99 * float64(time.Millisecond)),
		})
	}
	ended := make(chan error, 1)
	go func() { ended <- work(ctx) }()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			look()
		case err := <-ended:
			look()
			return main.run(time.Since(start).Seconds()), err
		}
	}
}
