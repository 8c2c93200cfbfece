package sqlstore

import (
	"testing"
	"time"

	"github.com/impart-im/impart"
)

// Whoever says hello after the answer to the last one is never taken for earlier,
// however long it took to ask for the time.
func TestAHelloThatFollowsIsNeverEarlier(t *testing.T) {
	const answered = 100 * time.Millisecond // by the store's clock; the second is said then
	for _, slow := range []time.Duration{0, time.Microsecond, 999 * time.Microsecond, 5 * time.Millisecond, time.Second} {
		for _, gap := range []time.Duration{0, 300 * time.Microsecond, 2 * time.Millisecond, time.Minute} {
			clock := func(at time.Duration) impart.Millis { return impart.Millis(at.Milliseconds()) }
			first, _ := saidBetween(clock(answered), 0, slow)
			asked := answered + gap
			_, second := saidBetween(clock(asked), gap, gap+slow)
			if second < first {
				t.Errorf("with %v to ask and %v to wait: the second was said at %d, the first at %d", slow, gap, second, first)
			}
		}
	}
	first, _ := saidBetween(1000, 10*time.Millisecond, 11*time.Millisecond)
	if _, given := saidBetween(1500, 600*time.Millisecond, 601*time.Millisecond); given >= first {
		t.Errorf("one that waited longer is taken for later: said at %d, the other at %d", given, first)
	}
}
