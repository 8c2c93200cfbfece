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
	w := &watch{e: e, m: m, window: win, start: time.Now(), last: time.Now()}
	ended := make(chan error, 1)
	go func() { ended <- work(ctx) }()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.look()
		case err := <-ended:
			w.look()
			run := Run{Name: win.name, Unit: win.unit, Seconds: time.Since(w.start).Seconds(), Latency: m.lat.latency(), Points: w.points}
			run.add(win.unit, float64(m.done.Load()), "")
			run.add(win.unit+" a second", float64(m.done.Load())/run.Seconds, "/s")
			return run, err
		}
	}
}

// watch looks at a meter while a window runs.
type watch struct {
	window
	e      *Env
	m      *meter
	start  time.Time
	last   time.Time
	done   int64
	points []Point
}

// look takes a point of what happened since the last one. A stub of a second at
// the end tells nothing and is left out.
func (w *watch) look() {
	now := time.Now()
	span := now.Sub(w.last)
	if span < 100*time.Millisecond {
		return
	}
	done := w.m.done.Load()
	recent := w.m.lat.rotate()
	p := Point{At: now.Sub(w.start).Seconds(), Rate: float64(done-w.done) / span.Seconds()}
	if l := summarize(recent); l != nil {
		p.P50, p.P99 = l.P50, l.P99
	}
	w.points = append(w.points, p)
	w.done, w.last = done, now
	w.e.tell(Progress{
		Window: w.name, Spent: now.Sub(w.start), Of: w.of, Done: done, Rate: p.Rate, Unit: w.unit,
		P99: time.Duration(p.P99 * float64(time.Millisecond)),
	})
}
