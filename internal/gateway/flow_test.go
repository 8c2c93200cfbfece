package gateway

import (
	"testing"
	"time"

	"github.com/impart-im/impart/internal/pending"
)

// A network whose acknowledgements take 2 s is not answered with a retry after
// 1 s (hole 5); one that is quick keeps the ladder.
func TestTheLadderFollowsTheMeasuredTime(t *testing.T) {
	var unmeasured, quick, slow rtt
	for range 20 {
		quick.sample(20 * time.Millisecond)
		slow.sample(2 * time.Second)
	}
	if got := unmeasured.ladder(pending.DefaultLadder); got != pending.DefaultLadder {
		t.Errorf("unmeasured: %v", got)
	}
	if got := quick.ladder(pending.DefaultLadder); got != pending.DefaultLadder {
		t.Errorf("quick: %v", got)
	}
	got := slow.ladder(pending.DefaultLadder)
	if got[0] < 2*time.Second || got[0] > 4*time.Second || got[3] < got[2] || got[2] < got[1] {
		t.Errorf("slow: %v", got)
	}
	var jittery rtt
	for i := range 40 {
		jittery.sample(time.Duration(i%2) * 2 * time.Second)
	}
	if got := jittery.ladder(pending.DefaultLadder); got[0] < 2*time.Second {
		t.Errorf("with a jitter of 2 s the first wait is %v", got[0])
	}
	var dead rtt
	dead.sample(time.Hour)
	if got := dead.ladder(pending.DefaultLadder); got[0] > maxWait {
		t.Errorf("unbounded: %v", got)
	}
}
