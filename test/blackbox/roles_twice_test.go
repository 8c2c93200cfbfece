package blackbox

// The cases of messages that come twice, with gateways and logic nodes apart and a Redis.

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// Fifty identical sends at once over several gateways and logic nodes: one row, and every loser gets the winner's answer.
func TestCase14_FiftyAtOnceOverTheRoles(t *testing.T) {
	w, _ := onApart(t, 3, 2)
	fiftyAtOnce(t, w)
}

// Gateways and logic nodes are restarted in order, one after the other, under load with resends. Devices go to whichever
// gateway answers.
func TestCase17_RollingRestartOfTheRoles(t *testing.T) {
	w, logic := onApart(t, 2, 2)
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.hasty(w.addr, "ana", "phone"), w.device("ben", "phone")
	ana.Start()
	ben.Start()
	posted := 0
	for i, p := range slices.Repeat(slices.Concat(w.nodes, logic), rounds(1, 3)) {
		for range 60 {
			ana.Post(ab, fmt.Sprint("m", posted))
			posted++
		}
		if code, took := p.Terminate(15 * time.Second); code != 0 {
			t.Fatalf("process %d: SIGTERM under load: exit %d after %v", i, code, took)
		}
		p.MustRestart(t)
	}
	inOrder(t, w.std(ab, "ben", ana, ben), posted)
}

// Receive, ack, reconnect at the other gateway, ten times: nothing comes again once its ack was answered, neither from
// the store nor from what a gateway still had pending in Redis.
func TestCase19_NothingAgainAtEitherGateway(t *testing.T) {
	w, _ := onApart(t, 2, 2, often...)
	nothingAgain(t, w)
}
