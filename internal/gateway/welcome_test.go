package gateway

import (
	"sync/atomic"
	"testing"

	"github.com/impart-im/impart"
)

// A client drops a message that is TOO_LARGE for good: welcome promises no more than
// what both the gateway and the rules take.
func TestWelcomeTellsTheSmallerLimitOfABody(t *testing.T) {
	var rules atomic.Int64
	inWorld(t, func(c *Config) { c.MaxBody, c.RulesBody = 1000, func() int { return int(rules.Load()) } }, func(w *world) {
		for takes, want := range map[int64]impart.Seq{0: 1000, 100: 100, 5000: 1000} {
			rules.Store(takes)
			ana := w.dial()
			ana.send(`{"t":"hello","rid":"h","token":"dev:u-ana","device":"d-phone","install":"i","proto":1}`)
			limits, _ := ana.wants("welcome")["limits"].(map[string]any)
			if got := frame(limits).num("body"); got != want {
				t.Errorf("where the rules take %d, the limit told is %d, want %d", takes, got, want)
			}
		}
	})
}
