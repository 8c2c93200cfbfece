package processes

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/impart-im/impart/internal/lab/campaign"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(building{m}) }

func number(t *testing.T, name string, value uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return value
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s should be a number: %v", name, err)
	}
	return n
}

// TestProcesses: nothing is found on the clean server.
func TestProcesses(t *testing.T) { clean(t, "CAMPAIGN_RUNS", 4, "", campaign.Draw) }

// clean runs the plans that draw makes, as many as the variable says or so many of
// them, and wants no finding.
func clean(t *testing.T, variable string, many uint64, store string, draw func(seed uint64, steps int) *campaign.Plan) {
	t.Parallel()
	binary := program(t)
	first, runs := number(t, "CAMPAIGN_SEED", 1), number(t, variable, many)
	t.Run("seeds", func(t *testing.T) {
		for seed := first; seed < first+runs; seed++ {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				result, err := Run(t.Context(), draw(seed, campaign.Length), Config{Binary: binary, Dir: t.TempDir(), Store: store}, steps(t))
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
