package link

import (
	"testing"
	"time"
)

func TestShapesInWords(t *testing.T) {
	for want, s := range map[string]Shape{
		"as it comes":                                     {},
		"20ms later, up to 60ms later by chance":          {Latency: 20 * time.Millisecond, Jitter: 60 * time.Millisecond},
		"2000 bytes a second, frozen":                     {Rate: 2000, Frozen: true},
		"all is lost":                                     {BlackHole: true},
		"cut after 7 bytes, cut in the middle of a frame": {CutAfter: 7, CutMiddle: true},
	} {
		if got := s.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if Up.String() != "up" || Down.String() != "down" || Both.String() != "both ways" {
		t.Error(Up, Down, Both)
	}
}
