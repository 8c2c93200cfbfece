package simulate

import (
	"testing"

	"github.com/impart-im/impart/internal/store/memstore"
)

// mostSeeds is how many plans may pass before a planted bug counts as missed.
const mostSeeds = 150

// broken are guards of the store, with the invariant that a finding has to name.
var broken = []struct {
	guard     memstore.Break
	invariant string
}{
	{memstore.BreakRollbackDedup, "D1"},
	{memstore.BreakUniqueKey, "D2"},
	{memstore.BreakThrough, "D3"},
	{memstore.BreakCursorMonotonic, "D4"},
	{memstore.BreakCursorAhead, "D4"},
	{memstore.BreakSeqHole, "D7"},
	{memstore.BreakSeqTwice, "D7"},
	{memstore.BreakRollbackSeq, "D7"},
	{memstore.BreakMembershipPage, "D8"},
	{memstore.BreakLastLeave, "D5"},
	{memstore.BreakInstallEpoch, "D9"},
	{memstore.BreakNCounter, "D9"},
	{memstore.BreakKeysCollide, "D12"},
	{memstore.BreakFoldCase, "D12"},
	{memstore.BreakTrimSpace, "D12"},
	{memstore.BreakHashCheck, "D12"},
	{memstore.BreakBatchIsolation, "D13"},
	{memstore.BreakPrev, "D14"},
	{memstore.BreakOrderInCall, "D14"},
	{memstore.BreakRecallBody, "D17"},
}

// TestBrokenStoresAreFound: the judge can fail. Each guard of the store in memory
// is switched off in turn.
func TestBrokenStoresAreFound(t *testing.T) {
	few := raced || testing.Short() // all of them are hunted without the race detector
	if few {
		broken = broken[:3]
	}
	for _, b := range broken {
		t.Run(string(b.guard), func(t *testing.T) {
			t.Parallel()
			hunt(t, b.invariant, b.guard)
		})
	}
}

// hunt runs plans until a finding names the invariant.
func hunt(t *testing.T, invariant string, breaks ...memstore.Break) {
	var counts Counts
	others := 0
	for seed := uint64(1); seed <= mostSeeds; seed++ {
		found, err := simulate(t, seed, &counts, breaks...)
		if err != nil {
			t.Logf("seed %d: %v", seed, err)
		}
		for _, f := range found {
			if f.Names(invariant) {
				t.Logf("found with seed %d: %s", seed, f)
				return
			}
		}
		if others += len(found); len(found) > 0 && others == len(found) {
			t.Logf("seed %d, by another name: %s", seed, found[0])
		}
	}
	t.Errorf("not found in %d plans", mostSeeds)
}
