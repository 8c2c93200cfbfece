package logic

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

func TestReadingsOfAClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock{machine: func() impart.Millis { return 5 }}
		if got := c.now(); got != 5 {
			t.Fatalf("without a reading it is %d, want the machine's", got)
		}
		for _, step := range []struct {
			what   string
			passed time.Duration
			shows  impart.Millis // 0: not read
			took   time.Duration
			want   impart.Millis
		}{
			{"the first reading", 0, 100_000, 10 * time.Millisecond, 100_000},
			{"time passes without one", time.Second, 0, 0, 101_000},
			{"a slow answer tells nothing new", time.Second, 102_900, 2 * time.Second, 102_000},
			{"a quick one does", time.Second, 103_300, 2 * time.Millisecond, 103_300},
			{"a little back: it stands still", 100 * time.Millisecond, 103_100, 2 * time.Millisecond, 103_300},
			{"and goes on", time.Second, 0, 0, 104_100},
			{"the store's clock is set forward", time.Second, 9_000_000, 2 * time.Millisecond, 9_000_000},
			{"and back", time.Second, 106_100, 2 * time.Millisecond, 106_100},
			{"and on", time.Second, 0, 0, 107_100},
		} {
			time.Sleep(step.passed)
			if step.shows != 0 {
				c.set(&store.Vitals{Now: step.shows, Asked: time.Now(), Took: step.took})
			}
			if got := c.now(); got != step.want {
				t.Fatalf("%s: %d, want %d", step.what, got, step.want)
			}
		}
	})
}

func TestIdsRiseWhateverTheClockDoes(t *testing.T) {
	var m mids
	last := impart.MID("")
	for _, now := range []impart.Millis{1_790_000_000_000, 1_790_000_000_000, 1_790_000_000_001, 1_780_000_000_000, 1_790_000_000_000, 1_790_000_000_002} {
		for range 5000 { // more than fit into a millisecond
			mid := m.next(now)
			if mid <= last {
				t.Fatalf("%s comes after %s", mid, last)
			}
			last = mid
		}
	}
}

func TestAnIdTellsItsTimeAndItsVersion(t *testing.T) {
	var m mids
	mid := m.next(0x0123_4567_89ab)
	if got := string(mid[:15]); got != "01234567-89ab-7" || len(mid) != 36 || mid[19] < '8' || mid[19] > 'b' {
		t.Errorf("%s is no UUID of version 7 of that time", mid)
	}
}
