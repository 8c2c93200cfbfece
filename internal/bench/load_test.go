package bench

import (
	"strings"
	"testing"
	"time"
)

func TestCarried(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*held)
		want  string
	}{
		"all is well":                 {func(*held) {}, "1,300"},
		"the bench is too slow":       {func(h *held) { h.sent = 0.95 * 13_000 }, "the bench itself"},
		"the server falls behind":     {func(h *held) { h.waiting = 1000 }, "1000 messages waited"},
		"some wait too long":          {func(h *held) { h.sends.Latency.P99 = 1500 }, "waited longer than 1000 ms"},
		"nothing was answered":        {func(h *held) { h.sends.Latency = nil }, "waited longer"},
		"a device lacks something":    {func(h *held) { h.behind = 2 }, "2 devices never had everything"},
		"the last ones are under way": {func(h *held) { h.waiting = 20 }, "1,300"},
	} {
		h := &held{due: 1300, sent: 13_000, span: 10 * time.Second, sends: Run{Latency: &Latency{P99: 5}}}
		c.spoil(h)
		fine := strings.HasPrefix(c.want, "1,300")
		if h.carried() != fine || !fine && !strings.Contains(h.why(), c.want) {
			t.Errorf("%s: carried %v: %s", name, h.carried(), h.why())
		}
	}
}
