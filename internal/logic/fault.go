package logic

import (
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
