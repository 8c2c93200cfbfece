package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/api"
	"github.com/impart-im/impart/internal/store"
)

// historyCheck tells of a failover that waits for its judgement, and of what the last
// one has cost.
func (p *parts) historyCheck(ctx context.Context) api.Check {
	c := api.Check{Name: "history", State: api.OK}
	h, err := p.rules.History(ctx)
	switch {
	case err != nil:
		return check("history", err, "is not known")
	case h.State == impart.HistoryHalted:
		c.State, c.Detail = api.Fail, fmt.Sprintf("the database's history is %s and was %s: nothing is written or read until it has been judged", h.Met, h.Incarnation)
	case h.State == impart.HistoryJudging:
		c.State, c.Detail = api.Fail, "the database's history is being judged; no verdict yet from "+strings.Join(h.Waiting, ", ")
	case h.Last != nil:
		c.Detail = lastJudgement(h.Last)
		if h.Lost > 0 {
			c.State = api.Warn
			c.Detail += fmt.Sprintf("; %d acknowledged messages of this node are gone: the log names them, and clients send them again", h.Lost)
		}
	}
	if standby := p.standby.Load(); c.State == api.Fail && stuck(standby) {
		c.Detail += "; the judgement itself cannot be written: " + waitsFor(standby) + "; " + endTheWait(standby)
	}
	return c
}

// lastJudgement tells what became of the last change.
func lastJudgement(last *impart.JudgementInfo) string {
	what := "the epoch was kept"
	if last.Raised {
		what = fmt.Sprintf("the epoch was raised to %d", last.Epoch)
	}
	return fmt.Sprintf("judged %s: %s: %s", time.UnixMilli(int64(last.At)).UTC().Format(time.RFC3339), what, last.Why)
}

// failoverFinding says what a failover of the database will mean.
// standbys is how many follow the server, or less than 0 where that is not known.
func failoverFinding(settings []store.Setting, replication string, standbys int) finding {
	f := finding{Check: "failover", Verdict: good}
	waits := false
	for i := range settings {
		s := &settings[i]
		waits = waits || ofStandbys(s) && s.Value != "" && s.Value != "none"
	}
	switch {
	case replication == "sync" && waits:
		f.Found = "keeps the epoch if every node finds what it has acknowledged (IM_REPLICATION=sync)"
	case replication == "sync":
		f.Verdict = warn
		f.Found = "raises the epoch: IM_REPLICATION=sync does not count while no commit waits for a standby"
		f.Advice = "set up synchronous replication, or IM_REPLICATION=none"
	case waits:
		f.Found = "raises the epoch: every device compares its messages and syncs again"
		f.Advice = "if a commit waits for every standby that may be promoted, set IM_REPLICATION=sync"
	case standbys == 0:
		f.Found = "no standby follows the database; a backup that is put back needs a new epoch (impart admin epoch raise)"
	default:
		f.Verdict = warn
		f.Advice = "set up synchronous replication, and IM_REPLICATION=sync, where that is too much to ask of the clients"
		f.Found = "raises the epoch, and may lose messages that were answered with sent; clients send them again"
	}
	return f
}

// showHistory prints what a server knows of the store's history.
func showHistory(w io.Writer, h *api.History) error {
	lines := []string{fmt.Sprintf("the epoch is %d", h.Epoch)}
	switch h.State {
	case impart.HistoryHalted:
		lines = append(lines, fmt.Sprintf("halted: the database's history is %s and was %s", h.Met, h.Incarnation))
	case impart.HistoryJudging:
		lines = append(lines, fmt.Sprintf("halted: the database's history is %s; no verdict yet from %s", h.Met, strings.Join(h.Waiting, ", ")))
	}
	if l := h.Last; l != nil {
		lines = append(lines, lastJudgement(&impart.JudgementInfo{At: l.At, Raised: l.Raised, Epoch: l.Epoch, Why: l.Why}),
			fmt.Sprintf("this server had halted for %d ms, and misses %d acknowledged commits, %d of them messages", l.Halted, l.Missing, l.Lost))
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}
