package client_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/impart-im/impart/internal/lab/world"
)

// badNetwork loses, doubles, delays and cuts, both ways.
func badNetwork(seed uint64) world.Rule {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, seed))
	return func(world.Frame) world.Fate {
		mu.Lock()
		fate, delay := world.Pass, time.Duration(r.IntN(400))*time.Millisecond
		switch n := r.IntN(100); {
		case n < 3:
			fate = world.Drop
		case n < 4:
			fate = world.Cut
		case n < 5:
			fate = world.CutAfter
		case n < 12:
			fate = world.Twice
		}
		mu.Unlock()
		time.Sleep(delay)
		return fate
	}
}

// The story of an application: it writes offline for a minute, is killed, starts
// again, and comes online on a bad network.
func TestAnApplicationsStory(t *testing.T) {
	for seed := range uint64(min(3, crowd(8))) {
		story(t, func(t *testing.T, w *server) {
			ana, ben := w.app("ana"), w.app("ben")
			ana.online()
			ana.link.Off()
			texts := numbered("m", 120)
			for _, text := range texts[:60] {
				ana.send(ab, text)
				time.Sleep(time.Second)
			}
			ana.restart()
			ana.link.Rule(badNetwork(seed))
			ben.link.Rule(badNetwork(seed + 100))
			ana.link.On()
			for i, text := range texts[60:] {
				ana.send(ab, text)
				time.Sleep(500 * time.Millisecond)
				if i == 30 {
					ana.restart()
				}
			}
			time.Sleep(20 * time.Minute)
			ana.through()
			w.wantsLog(ab, texts...)
			ben.wants(ab, texts...)
			ana.wants(ab, texts...)
		})
	}
}
