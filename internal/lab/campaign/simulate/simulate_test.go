package simulate

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/impart-im/impart/internal/lab/campaign"
	"github.com/impart-im/impart/internal/lab/campaign/history"
	"github.com/impart-im/impart/internal/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// length is how many steps a schedule has.
const length = 60

// trace keeps what happened until it is wanted.
type trace struct {
	mu    sync.Mutex // guards what follows
	lines []string
}

func (tr *trace) add(text string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.lines = append(tr.lines, time.Now().Format("04:05.000 ")+text)
}

// show tells it, if that is wanted.
func (tr *trace) show(t *testing.T) {
	if os.Getenv("CAMPAIGN_TRACE") == "" {
		return
	}
	for _, line := range tr.lines {
		fmt.Println(line)
	}
}

// memory is a folder whose files need no disk where there is one: what a run in
// virtual time waits for would be real.
func memory(t *testing.T) string {
	if info, err := os.Stat("/dev/shm"); err != nil || !info.IsDir() {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp("/dev/shm", "impart-campaign-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// simulate runs the plan of a seed and gives what was found.
func simulate(t *testing.T, seed uint64, counts *Counts, breaks ...memstore.Break) (found []history.Finding, err error) {
	dir := memory(t)
	synctest.Test(t, func(t *testing.T) {
		field := New(seed, dir, counts, breaks...)
		var steps trace
		if os.Getenv("CAMPAIGN_TRACE") != "" {
			field.Trace = steps.add
		}
		var result campaign.Result
		result, err = campaign.Execute(t.Context(), campaign.Draw(seed, length), field, steps.add)
		if err != nil || len(result.Findings) > 0 {
			steps.show(t)
		}
		err = errors.Join(err, field.Close())
		found = result.Findings
	})
	return found, err
}

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

// TestSimulation: nothing is found on the clean server and the clean SDK.
func TestSimulation(t *testing.T) {
	first, runs := number(t, "CAMPAIGN_SEED", 1), number(t, "CAMPAIGN_RUNS", 100)
	var counts Counts
	t.Run("seeds", func(t *testing.T) {
		for seed := first; seed < first+runs; seed++ {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				found, err := simulate(t, seed, &counts)
				if err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
				for _, f := range found {
					t.Errorf("seed %d: %s", seed, f)
				}
			})
		}
	})
	t.Logf("%d frames: %d lost, %d twice, %d cuts, %d late; %d deaths, %d kills, %d restores",
		counts.Frames.Load(), counts.Lost.Load(), counts.Twice.Load(), counts.Cut.Load(), counts.Late.Load(),
		counts.Deaths.Load(), counts.Kills.Load(), counts.Restores.Load())
}
