package bench

import (
	"maps"
	"slices"
	"sync"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

// refusals counts what a server refused for the moment (OVERLOADED, RATE_LIMITED
// and their like), which is sent again and is no fault.
type refusals struct {
	mu sync.Mutex // guards n
	n  map[impart.Code]int64
}

// take counts an error frame. It is an error unless the same frame may be sent again.
func (r *refusals) take(f *wire.ErrorFrame) error {
	if !f.Retry {
		return f.Err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == nil {
		r.n = map[impart.Code]int64{}
	}
	r.n[f.Err.Code]++
	return nil
}

// describe adds what was refused since the last call to a run.
func (r *refusals) describe(run *Run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, code := range slices.Sorted(maps.Keys(r.n)) {
		run.add("refused for now, "+string(code), float64(r.n[code]), "")
	}
	clear(r.n)
}
