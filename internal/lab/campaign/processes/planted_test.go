package processes

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/lab"
	"github.com/impart-im/impart/internal/lab/campaign"
)

// mostSeeds is how many plans may pass before a planted bug counts as missed.
const mostSeeds = 40

// plant is a planted bug with the invariant that a finding has to name. The short
// ones are part of every run of the tests.
type plant struct {
	bug       fault.Bug
	invariant string
	short     bool
}

// planted are bugs of the server and its SQLite store. Those of the gateway that
// need single frames to be lost, and those of the SDK, are hunted in virtual time.
var planted = []plant{
	{fault.SentBeforeCommit, "D1", false},
	{fault.DedupApart, "D2", false},
	{fault.NoDedup, "D2", true},
	{fault.ThroughSkipsVisible, "D3", true},
	{fault.CursorBack, "D4", false},
	{fault.CursorAhead, "D4", false},
	{fault.SeqHole, "D7", false},
	{fault.SeesAllPush, "D8", false},
	{fault.SeesAllSync, "D8", false},
	{fault.OldInstallCounts, "D9", false},
	{fault.NIgnored, "D9", false},
	{fault.RetriesForEver, "D10", false},
	{fault.KeysCollide, "D12", false},
	{fault.BatchFailsTogether, "D13", false},
	{fault.PrevIgnored, "D14", true},
	{fault.RecallKeepsBody, "D17", false},
	{fault.RecallFreesDedup, "D2", false},
}

// TestPlantedBugsAreFound: the judge can fail. CAMPAIGN_ALL=1 hunts all.
func TestPlantedBugsAreFound(t *testing.T) {
	t.Parallel()
	binary := program(t)
	t.Run("bugs", func(t *testing.T) {
		for _, p := range chosen(planted) {
			t.Run(string(p.bug), func(t *testing.T) {
				t.Parallel()
				hunt(t, binary, p, "", campaign.Draw)
			})
		}
	})
}

// built is the binary of the servers, which the first who needs it builds.
var built struct {
	once      sync.Once
	dir, path string
	err       error
}

// building removes that binary after the tests.
type building struct{ m *testing.M }

func (b building) Run() int {
	code := b.m.Run()
	if err := os.RemoveAll(built.dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// program is the binary of the servers.
func program(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts real servers: run without -short")
	}
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "impart-processes-"); built.err == nil {
			built.path, built.err = lab.Program(context.Background(), os.Getenv("IMPART_FAULT_BIN"), built.dir)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

// chosen are the bugs to hunt in this run.
func chosen(all []plant) []plant {
	if os.Getenv("CAMPAIGN_ALL") != "" {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(p plant) bool { return !p.short })
}

// hunt runs the plans that draw makes until a finding names the invariant.
func hunt(t *testing.T, binary string, p plant, store string, draw func(seed uint64, steps int) *campaign.Plan) {
	for seed := uint64(1); seed <= mostSeeds; seed++ {
		result, err := Run(t.Context(), draw(seed, campaign.Length), Config{Binary: binary, Bug: string(p.bug), Dir: t.TempDir(), Store: store}, nil)
		if err != nil {
			t.Logf("seed %d: %v", seed, err)
		}
		for _, f := range result.Findings {
			if f.Names(p.invariant) {
				t.Logf("found with seed %d: %s", seed, f)
				return
			}
		}
	}
	t.Errorf("%s was not found in %d plans", p.bug, mostSeeds)
}
