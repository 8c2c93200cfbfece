package logic

import (
	"context"
	"slices"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/dedup"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/store"
)

// afterCommit strikes at sends that have committed and are neither published nor
// answered: their senders then learn nothing, and the sweep alone finds them.
func afterCommit(op string, results []store.Appended) {
	if !fault.Enabled || op != "send" {
		return
	}
	for i := range results {
		if results[i].Err == nil {
			if err := fault.At(fault.AfterCommit); err != nil {
				results[i].Err = err
			}
		}
	}
}

// wouldHideBug reports whether a bug is planted in the unique key, which answers
// from before it would hide.
func wouldHideBug() bool {
	return fault.Planted(fault.NoDedup) || fault.Planted(fault.RecallFreesDedup)
}

// keepEarly keeps answers of what has not committed, with a seq that is guessed:
// the bug that a cache in front of a store must not have.
func (s *Service) keepEarly(ctx context.Context, entries []dedup.Entry, items []store.Append) {
	if !fault.Planted(fault.AnswersBeforeCommit) {
		return
	}
	hoped := make([]store.Appended, len(items))
	for i := range items {
		hoped[i] = store.Appended{Seq: 1, MID: items[i].MID, At: items[i].At, Epoch: impart.Epoch(s.epoch.value.Load())}
	}
	s.keep(ctx, "", slices.Clone(entries), items, hoped)
}
