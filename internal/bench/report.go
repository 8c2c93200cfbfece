package bench

import (
	"sync"
	"time"
)

// Report is everything that one bench found.
type Report struct {
	Bench   string    `json:"bench"`
	Command string    `json:"command"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	// Stopped: it was interrupted, and holds what was measured until then.
	Stopped bool    `json:"stopped"`
	Machine Machine `json:"machine"`
	Server  string  `json:"server"`
	Runs    []Run   `json:"runs"`
	// Model is what [Env.Model] has found; nil of every other bench.
	Model  *Model   `json:"model,omitempty"`
	Ratios []Ratio  `json:"ratios"`
	Checks []Check  `json:"checks"`
	Notes  []string `json:"notes"`

	mu sync.Mutex // guards Checks and Notes while it is gathered
}

// Loop says how the requests of a run were paced, and so what its latencies mean.
type Loop string

// The loops.
const (
	// Closed: each sender waits for its answer before it sends again. A slow server
	// is asked less, so the latencies are those of the requests that were made.
	Closed Loop = "closed loop: each waits for its answer; latency from the write"
	// Open: requests are due at fixed times, whatever the server does, and latency
	// counts from then.
	Open Loop = "open loop: due at fixed times; latency from when it was due"
)

// Run is one measured window.
type Run struct {
	Name    string   `json:"name"`
	Loop    Loop     `json:"loop,omitempty"`
	Seconds float64  `json:"seconds"`
	Figures []Figure `json:"figures"`
	// Of names what the latency is of.
	Of      string   `json:"latency_of,omitempty"`
	Latency *Latency `json:"latency,omitempty"`
	Points  []Point  `json:"points,omitempty"`
	// PointsOf names what the rate of a point is.
	PointsOf string `json:"points_of,omitempty"`
}

// Point is one second of a run, or about one.
type Point struct {
	At   float64 `json:"at_s"` // seconds after the start
	Rate float64 `json:"rate"` // see Run.PointsOf
	P50  float64 `json:"p50_ms"`
	P99  float64 `json:"p99_ms"`
}

// Figure is one number that was measured or counted.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
}

// Ratio compares two figures of the same report.
type Ratio struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	// Reach is what is aimed at: at least so much, or at most with AtMost; 0: nothing.
	Reach  float64 `json:"reach,omitempty"`
	AtMost bool    `json:"at_most,omitempty"`
	// Why says what is compared with what.
	Why string `json:"why"`
	// Others is how much of a core other processes took meanwhile, in percent; 0: none,
	// or it was not measured.
	Others float64 `json:"others_cpu_percent,omitempty"`
}

// busyShare is how much of a core others may take before it is said of a ratio
// that was not reached, in percent.
const busyShare = 25

// Met reports whether the aim was reached; told is false without one.
func (r Ratio) Met() (met, told bool) {
	if r.Reach == 0 {
		return false, false
	}
	if r.AtMost {
		return r.Value <= r.Reach, true
	}
	return r.Value >= r.Reach, true
}

// Check is something that must hold. A run with one that does not has failed.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// Failed reports whether a check does not hold, or nothing was checked at all.
func (r *Report) Failed() bool {
	for _, c := range r.Checks {
		if !c.OK {
			return true
		}
	}
	return len(r.Checks) == 0
}

func (r *Report) add(checks ...Check) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Checks = append(r.Checks, checks...)
}

func (r *Report) note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Notes = append(r.Notes, text)
}

// figure is the value of a figure by name; 0 if it is not there.
func (r *Run) figure(name string) float64 {
	for _, f := range r.Figures {
		if f.Name == name {
			return f.Value
		}
	}
	return 0
}

func (r *Run) add(name string, value float64, unit string) {
	r.Figures = append(r.Figures, Figure{name, value, unit})
}
