package main

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Of giving memory back.
const (
	trimEvery = 15 * time.Second
	// trimQuiet is how much may be allocated between two looks for the time to count
	// as quiet: a collection then costs nobody anything.
	trimQuiet = 32 << 20
	// trimWorth is how much must be unused for it to be worth a collection, and
	// trimShare which part of what lives: a large heap costs more to look through.
	trimWorth = 2 << 20
	trimShare = 8
)

// trim gives the memory of a busy time back to the system once it is quiet, until
// stop is closed. The runtime alone keeps as much again as what lives, which is
// most of what many idle connections take.
func trim(stop <-chan struct{}) {
	tick := time.NewTicker(trimEvery)
	defer tick.Stop()
	var t trimmer
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			if t.due(heapNow()) {
				debug.FreeOSMemory()
			}
		}
	}
}

// heap is what the runtime says of its memory, in bytes.
type heap struct {
	allocated uint64 // since the start
	unused    uint64 // held and neither used nor given back
	live      uint64 // at the end of the last collection
}

func heapNow() heap {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
	}
	metrics.Read(samples)
	value := func(i int) uint64 {
		if samples[i].Value.Kind() != metrics.KindUint64 {
			return 0
		}
		return samples[i].Value.Uint64()
	}
	h := heap{allocated: value(0), unused: value(1), live: value(2)}
	if objects := value(3); objects > h.live {
		h.unused += objects - h.live // garbage, mostly
	}
	return h
}

// trimmer decides when it is quiet.
type trimmer struct {
	last uint64 // allocated at the last look
}

// due reports whether little has happened since the last look and much is unused.
func (t *trimmer) due(now heap) bool {
	quiet := now.allocated-t.last < trimQuiet
	t.last = now.allocated
	return quiet && now.unused >= max(trimWorth, now.live/trimShare)
}
