package dedup

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

// Layers are the caches in front of the store, the quickest first: answers in this
// process, then a filter that knows what is surely not in the cache behind it, and
// then that cache, which nodes share. Each of them may be lost, and each may say
// "maybe" of what is new: then the next one is asked, and in the end the store.
type Layers struct {
	near   Cache
	filter *Filter
	far    Cache
	said   *prometheus.CounterVec
}

var _ Cache = (*Layers)(nil)

// NewLayers puts caches together.
func NewLayers(near Cache, filter *Filter, far Cache) *Layers {
	l := &Layers{near: near, filter: filter, far: far, said: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "im_dedup_filter_total", Help: "Messages that were not found in memory, by what the filter said: surely new, so that Redis was not asked, or maybe known.",
	}, []string{"said"})}
	for _, word := range []string{"new", "maybe"} {
		l.said.WithLabelValues(word)
	}
	return l
}

// Collectors are the metrics of the layers.
func (l *Layers) Collectors() []prometheus.Collector {
	return []prometheus.Collector{l.said, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "im_dedup_filter_keys", Help: "About how many keys the filter knows.",
	}, func() float64 { return float64(l.filter.Size()) })}
}

// Find implements [Cache].
func (l *Layers) Find(ctx context.Context, entries []Entry) {
	l.near.Find(ctx, entries)
	var places []int
	asked := 0
	for i := range entries {
		switch {
		case entries[i].Seq != 0:
		case l.filter.Maybe(entries[i].Key):
			places = append(places, i)
		default:
			asked++
		}
	}
	l.said.WithLabelValues("new").Add(float64(asked))
	if len(places) == 0 {
		return
	}
	l.said.WithLabelValues("maybe").Add(float64(len(places)))
	maybe := make([]Entry, len(places))
	for k, i := range places {
		maybe[k] = entries[i]
	}
	l.far.Find(ctx, maybe)
	for k, i := range places {
		if maybe[k].Seq != 0 {
			maybe[k].Layer = Redis
			entries[i] = maybe[k]
		}
	}
}

// Keep implements [Cache]. What does not say in which history of the store it was
// committed is of no use to others, and stays here.
func (l *Layers) Keep(ctx context.Context, entries []Entry) {
	l.near.Keep(ctx, entries)
	keys := make([]Key, len(entries))
	all := true
	for i := range entries {
		keys[i] = entries[i].Key
		all = all && entries[i].Incarnation != ""
	}
	l.filter.Add(keys...)
	if all {
		l.far.Keep(ctx, entries)
	}
}
