package sqlstore

import (
	"testing"
	"time"

	"github.com/impart-im/impart"
)

func TestTheClockIsNeverSetBack(t *testing.T) {
	c := new(clock)
	for _, step := range []struct {
		what    string
		machine impart.Millis
		passed  time.Duration
		want    impart.Millis
	}{
		{"the start", 100_000, 0, 100_000},
		{"two seconds later", 102_000, 2 * time.Second, 102_000},
		{"set back by a minute", 42_001, 2*time.Second + time.Millisecond, 102_001},
		{"it goes on from there", 45_000, 5 * time.Second, 105_000},
		{"half a millisecond", 45_000, 5*time.Second + 500*time.Microsecond, 105_000},
		{"and the other half", 45_001, 5*time.Second + time.Millisecond, 105_001},
		{"a caller that was overtaken", 44_000, 4 * time.Second, 105_001},
		{"set right", 300_000, 6 * time.Second, 300_000},
		{"and on", 301_000, 7 * time.Second, 301_000},
	} {
		if got := c.read(step.machine, step.passed); got != step.want {
			t.Fatalf("%s: %d, want %d", step.what, got, step.want)
		}
	}
}
