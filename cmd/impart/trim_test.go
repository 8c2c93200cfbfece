package main

import "testing"

func TestMemoryIsGivenBackWhenItIsQuiet(t *testing.T) {
	const mb = 1 << 20
	var tr trimmer
	for i, step := range []struct {
		now heap
		due bool
	}{
		{heap{allocated: 100 * mb, unused: 50 * mb}, false}, // busy since the start
		{heap{allocated: 200 * mb, unused: 50 * mb}, false}, // busy
		{heap{allocated: 201 * mb, unused: 50 * mb}, true},
		{heap{allocated: 202 * mb, unused: 1 * mb}, false},                 // nothing to give
		{heap{allocated: 203 * mb, unused: 9 * mb, live: 100 * mb}, false}, // little, and much to look through
		{heap{allocated: 204 * mb, unused: 13 * mb, live: 100 * mb}, true},
	} {
		if got := tr.due(step.now); got != step.due {
			t.Errorf("look %d: due is %v", i, got)
		}
	}
	if h := heapNow(); h.allocated == 0 {
		t.Error("the runtime does not say what was allocated: its metrics have other names")
	}
}
