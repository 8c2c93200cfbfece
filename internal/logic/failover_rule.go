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
	for _, v := range b.Verdicts {
		given[v.Node.ID] = true
	}
	all := sum(b.Verdicts)
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
	case all.missing > 0 || all.behind:
		return finding{store.Raise, all.lack(), silent}
	case len(silent) > 0:
		return finding{store.Raise, whySilent + ": " + strings.Join(silent, ", "), silent}
	case all.unvouched:
		return finding{store.Raise, whyUnvouched, silent}
	}
	return finding{store.Keep, whyKept, nil}
}

// Reasons of a ruling.
const (
	whyKept      = "every acknowledged commit is there"
	whySilent    = "not every node that was alive has said what it misses"
	whyUnvouched = "nobody vouches that the replication is synchronous (IM_REPLICATION)"
)

// tally is what verdicts come to.
type tally struct {
	missing           int
	behind, unvouched bool
}

func sum(verdicts []store.Verdict) (all tally) {
	for _, v := range verdicts {
		all.missing += v.Missing
		all.behind = all.behind || v.Behind
		all.unvouched = all.unvouched || !v.Vouched
	}
	return all
}

// lack says what is missing, "" if nothing is.
func (a tally) lack() string {
	switch {
	case a.missing > 0:
		return fmt.Sprintf("%d acknowledged commits are missing", a.missing)
	case a.behind:
		return "the database ends before a commit that was acknowledged"
	}
	return ""
}

// reasonOf is the reason of another node's decision, from the verdicts that it has
// counted. Who was silent then is in its log alone.
func reasonOf(counted []store.Verdict, raised bool) string {
	all := sum(counted)
	switch {
	case all.lack() != "":
		return all.lack()
	case !raised:
		return whyKept
	case all.unvouched:
		return whyUnvouched
	}
	return whySilent + "; its log names them"
}
