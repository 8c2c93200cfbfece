package simulate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
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
		result, err = campaign.Execute(t.Context(), campaign.Draw(seed, campaign.Length), field, steps.add)
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

// TestSimulation: nothing is found on the clean server and the clean SDK. With
// CAMPAIGN_LEDGER it goes on where that ends; impart lab campaign --simulate runs
// it so.
func TestSimulation(t *testing.T) {
	runs := uint64(defaultRuns)
	if testing.Short() {
		runs = 10
	}
	c := &campaign.Campaign{
		First: number(t, "CAMPAIGN_SEED", 1), Runs: number(t, "CAMPAIGN_RUNS", runs), Steps: campaign.Length, Parallel: runtime.GOMAXPROCS(0),
		Version: os.Getenv("CAMPAIGN_VERSION"), Kind: campaign.Simulated,
	}
	if path := os.Getenv("CAMPAIGN_LEDGER"); path != "" {
		var err error
		if c.Ledger, err = campaign.OpenLedger(path, c.Version, c.Kind, c.Steps); err != nil {
			t.Fatal(err)
		}
		defer c.Ledger.Close()
	}
	var counts Counts
	ran := 0
	c.Run = func(_ context.Context, plan *campaign.Plan) (result campaign.Result, err error) {
		t.Run(fmt.Sprint(plan.Seed), func(t *testing.T) { result.Findings, err = simulate(t, plan.Seed, &counts) })
		return result, err
	}
	c.Told = func(e campaign.Entry, before bool) {
		for _, f := range e.Findings {
			t.Errorf("seed %d: %s", e.Seed, f)
		}
		if e.Error != "" {
			t.Errorf("seed %d: %s", e.Seed, e.Error)
		}
		if !before {
			ran++
		}
	}
	if err := c.Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d plans, %d frames: %d lost, %d twice, %d cuts, %d late; %d deaths, %d kills, %d restores", ran,
		counts.Frames.Load(), counts.Lost.Load(), counts.Twice.Load(), counts.Cut.Load(), counts.Late.Load(),
		counts.Deaths.Load(), counts.Kills.Load(), counts.Restores.Load())
	if ran >= 20 && (counts.Lost.Load() == 0 || counts.Cut.Load() == 0 || counts.Deaths.Load() == 0 || counts.Restores.Load() == 0) {
		t.Error("something was never broken: these runs show nothing about it")
	}
}
