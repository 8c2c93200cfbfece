package processes

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/impart-im/impart/internal/lab"
	"github.com/impart-im/impart/internal/lab/campaign"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
func TestProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real servers: run without -short")
	}
	binary, err := lab.Program(t.Context(), os.Getenv("IMPART_FAULT_BIN"), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	first, runs := number(t, "CAMPAIGN_SEED", 1), number(t, "CAMPAIGN_RUNS", 4)
	t.Run("seeds", func(t *testing.T) {
		for seed := first; seed < first+runs; seed++ {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				result, err := Run(t.Context(), campaign.Draw(seed, campaign.Length), Config{Binary: binary, Dir: t.TempDir()}, nil)
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
