package bench

import (
	"math"
	"sync"
	"testing"
	"time"
)

func TestPercentiles(t *testing.T) {
	r := newRecorder()
	var group sync.WaitGroup
	for part := range 4 { // 1 ms … 1000 ms, each once, from several goroutines
		group.Go(func() {
			for i := part + 1; i <= 1000; i += 4 {
				r.record(time.Duration(i) * time.Millisecond)
			}
		})
	}
	group.Wait()
	if recent := r.rotate(); recent.TotalCount() != 1000 {
		t.Errorf("%d of late", recent.TotalCount())
	}
	if recent := r.rotate(); recent.TotalCount() != 0 {
		t.Errorf("%d after all were taken", recent.TotalCount())
	}
	l := r.latency()
	for name, c := range map[string]struct{ got, want float64 }{
		"count": {float64(l.Count), 1000}, "mean": {l.Mean, 500.5}, "p50": {l.P50, 500}, "p90": {l.P90, 900},
		"p99": {l.P99, 990}, "p99.9": {l.P999, 999}, "longest": {l.Max, 1000},
	} {
		if math.Abs(c.got-c.want) > 0.002*c.want { // the histogram's precision
			t.Errorf("%s is %v, want %v", name, c.got, c.want)
		}
	}
}

func TestLatencyOutOfRangeCountsAsTheLongest(t *testing.T) {
	r := newRecorder()
	r.record(-time.Second)
	r.record(24 * time.Hour)
	l := r.latency()
	if l.Count != 2 || math.Abs(l.Max-float64(longest)/1000) > 0.001*l.Max {
		t.Errorf("%+v", l)
	}
}

func TestNothingRecordedIsNoLatency(t *testing.T) {
	if l := newRecorder().latency(); l != nil {
		t.Errorf("%+v", l)
	}
}

// TestCurveEndsWhereTheDataDoes: of 100 requests nobody knows the 99.9th percentile.
func TestCurveEndsWhereTheDataDoes(t *testing.T) {
	r := newRecorder()
	for range 100 {
		r.record(time.Millisecond)
	}
	curve := r.latency().Curve
	for _, q := range curve[:len(curve)-1] {
		if q.Percent > 99 {
			t.Errorf("a point at %v %%", q.Percent)
		}
	}
	if last := curve[len(curve)-1]; last.Percent != 100 {
		t.Errorf("the last point is %v", last)
	}
}
