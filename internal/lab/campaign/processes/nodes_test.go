package processes

import (
	"fmt"
	"os"
	"testing"

	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/lab"
	"github.com/impart-im/impart/internal/lab/campaign"
)

// plantedNodes are bugs of several nodes on PostgreSQL, with the invariant
// that a finding has to name.
var plantedNodes = []struct {
	bug       fault.Bug
	invariant string
	short     bool
}{
	{fault.NoDedup, "D2", true},
	{fault.SentBeforeCommit, "D1", false},
	{fault.NoFlush, "D1", false},
	{fault.SeqHole, "D7", false},
	{fault.PrevIgnored, "D14", false},
	{fault.CursorAhead, "D4", false},
	{fault.NIgnored, "D9", false},
	{fault.RecallKeepsBody, "D17", false},
}

// TestNodes: nothing is found on clean nodes.
func TestNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real servers: run without -short")
	}
	binary, err := lab.Program(t.Context(), os.Getenv("IMPART_FAULT_BIN"), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	first, runs := number(t, "CAMPAIGN_SEED", 1), number(t, "CAMPAIGN_NODE_RUNS", 1)
	t.Run("seeds", func(t *testing.T) {
		for seed := first; seed < first+runs; seed++ {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				result, err := Run(t.Context(), campaign.DrawNodes(seed, campaign.Length), Config{Binary: binary, Dir: t.TempDir()}, steps(t))
				if err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
				for _, f := range result.Findings {
					t.Errorf("seed %d: %s", seed, f)
				}
			})
		}
	})
}

// steps tells of each step, with CAMPAIGN_TRACE.
func steps(t *testing.T) func(string) {
	if os.Getenv("CAMPAIGN_TRACE") == "" {
		return nil
	}
	return func(text string) { t.Log(text) }
}

// TestPlantedBugsOfNodesAreFound: the judge can fail here too. CAMPAIGN_ALL=1 hunts
// all.
func TestPlantedBugsOfNodesAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real servers: run without -short")
	}
	binary, err := lab.Program(t.Context(), os.Getenv("IMPART_FAULT_BIN"), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range plantedNodes {
		if !p.short && os.Getenv("CAMPAIGN_ALL") == "" {
			continue
		}
		t.Run(string(p.bug), func(t *testing.T) {
			huntNodes(t, Config{Binary: binary, Bug: string(p.bug)}, p.invariant)
		})
	}
}

// huntNodes runs plans until a finding names the invariant.
func huntNodes(t *testing.T, cfg Config, invariant string) {
	for seed := uint64(1); seed <= mostSeeds; seed++ {
		cfg.Dir = t.TempDir()
		result, err := Run(t.Context(), campaign.DrawNodes(seed, campaign.Length), cfg, nil)
		if err != nil {
			t.Logf("seed %d: %v", seed, err)
		}
		for _, f := range result.Findings {
			if f.Names(invariant) {
				t.Logf("found with seed %d: %s", seed, f)
				return
			}
		}
	}
	t.Errorf("%s was not found in %d plans", cfg.Bug, mostSeeds)
}
