package logic

import (
	"fmt"
	"strings"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/store"
)

// Times of beats and judgements.
const (
	// beatEvery is how often a node says that it is alive.
	beatEvery = 2 * time.Second
	// lease is how far a node's last beat may lie behind the newest one of all for it
	// to count as alive at the end of a history. Beats are compared with one another:
	// no clock but the old primary's has to do with it.
	lease = 10 * time.Second
	// reportWithin is how long the verdict of a node that was alive is waited for, by
	// the new primary's clock, from the first verdict on.
	reportWithin = 10 * time.Second
)

// finding is a ruling with its reason, for people.
type finding struct {
	ruling  store.Ruling
	why     string
	waiting []string // names of nodes that were alive and have given no verdict
}

// rule judges a change (D18): the epoch stays only if every node that was alive at
// the end of this history has looked, none of them misses anything, and all have the
// operator's word for the replication. Who was alive is read from the history that
// is judged: a node whose beats it lacks has its last commits after them, lacks them
// too, and finds out by itself.
func rule(b store.Bench) finding {
	if fault.Planted(fault.KeepsEpoch) {
		return finding{store.Keep, "nobody looked", nil}
	}
	given := map[string]bool{}
	missing, behind, unvouched := 0, false, false
	for _, v := range b.Verdicts {
		given[v.Node.ID] = true
		missing += v.Missing
		behind = behind || v.Behind
		unvouched = unvouched || !v.Vouched
	}
	newest := impart.Millis(0)
	for _, n := range b.Nodes {
		newest = max(newest, n.At)
	}
	var silent []string
	for _, n := range b.Nodes {
		if !given[n.Node.ID] && newest-n.At <= impart.Millis(lease.Milliseconds()) {
			silent = append(silent, n.Node.Name)
		}
	}
	switch {
	case len(silent) > 0 && b.Now-b.First < impart.Millis(reportWithin.Milliseconds()):
		return finding{store.Wait, "a node that was alive has not said what it misses", silent}
	case missing > 0:
		return finding{store.Raise, fmt.Sprintf("%d acknowledged commits are missing", missing), silent}
	case behind:
		return finding{store.Raise, "the database ends before a commit that was acknowledged", silent}
	case len(silent) > 0:
		return finding{store.Raise, "not every node that was alive has said what it misses: " + strings.Join(silent, ", "), silent}
	case unvouched:
		return finding{store.Raise, "nobody vouches that the replication is synchronous (IM_REPLICATION)", silent}
	}
	return finding{store.Keep, "every acknowledged commit is there", nil}
}
