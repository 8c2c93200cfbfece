package bench

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The range of a latency, in microseconds, and its precision in decimal digits.
// What is longer counts as the longest.
const (
	shortest  = 1
	longest   = int64(10 * time.Minute / time.Microsecond)
	precision = 3
)

// shards is how many histograms share the recording, so that many goroutines
// seldom wait for one another.
const shards = 8

// recorder counts latencies. It is safe for concurrent use.
type recorder struct {
	parts [shards]struct {
		mu sync.Mutex
		h  *hdrhistogram.Histogram // since the last rotate
	}
	mu    sync.Mutex // guards total
	total *hdrhistogram.Histogram
}

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(shortest, longest, precision) }

func newRecorder() *recorder {
	r := &recorder{total: newHistogram()}
	for i := range r.parts {
		r.parts[i].h = newHistogram()
	}
	return r
}

// record counts one latency.
func (r *recorder) record(d time.Duration) {
	part := &r.parts[rand.IntN(shards)]
	part.mu.Lock()
	defer part.mu.Unlock()
	_ = part.h.RecordValue(min(max(d.Microseconds(), shortest), longest)) // in range, so it never fails
}

// rotate returns what was recorded since the last call.
func (r *recorder) rotate() *hdrhistogram.Histogram {
	recent := newHistogram()
	for i := range r.parts {
		part := &r.parts[i]
		part.mu.Lock()
		recent.Merge(part.h)
		part.h.Reset()
		part.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total.Merge(recent)
	return recent
}

// latency sums up all that was recorded; nil when nothing was.
func (r *recorder) latency() *Latency {
	r.rotate()
	r.mu.Lock()
	defer r.mu.Unlock()
	return summarize(r.total)
}

// Latency is the distribution of durations, in milliseconds.
type Latency struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean_ms"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p999_ms"`
	Max   float64 `json:"max_ms"`
	// Curve is the whole distribution, for a plot.
	Curve []Quantile `json:"curve"`
}

// Quantile is the latency that a share of the requests did not pass.
type Quantile struct {
	Percent float64 `json:"percent"`
	Millis  float64 `json:"ms"`
}

// curvePoints are the percentiles of a curve; a plot spaces them by their nines.
var curvePoints = []float64{0, 10, 20, 30, 40, 50, 60, 70, 75, 80, 85, 90, 92.5, 95, 97, 98, 99, 99.5, 99.7, 99.9, 99.95, 99.99, 99.999, 100}

// Tells reports whether there are enough values for a percentile: at least one
// above it.
func (l *Latency) Tells(percent float64) bool {
	return (100-percent)/100*float64(l.Count) > 0.999
}

func summarize(h *hdrhistogram.Histogram) *Latency {
	if h.TotalCount() == 0 {
		return nil
	}
	at := func(percent float64) float64 { return float64(h.ValueAtQuantile(percent)) / 1000 }
	l := &Latency{
		Count: h.TotalCount(), Mean: h.Mean() / 1000,
		P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: float64(h.Max()) / 1000,
	}
	for _, percent := range curvePoints {
		if percent < 100 && !l.Tells(percent) {
			continue
		}
		l.Curve = append(l.Curve, Quantile{percent, at(percent)})
	}
	return l
}
