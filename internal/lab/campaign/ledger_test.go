package campaign

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/impart-im/impart/internal/lab/campaign/history"
)

// campaignOf runs seeds 1 to 10 with a ledger, and gives those that were run.
func campaignOf(t *testing.T, path, version string, run func(seed uint64) (Result, error)) (ran []uint64, entries map[uint64]Entry) {
	t.Helper()
	l, err := OpenLedger(path, version, Simulated, Length)
	if err != nil {
		t.Fatal(err)
	}
	entries = map[uint64]Entry{}
	c := &Campaign{
		First: 1, Runs: 10, Steps: Length, Parallel: 1, Version: version, Kind: Simulated, Ledger: l,
		Run: func(_ context.Context, p *Plan) (Result, error) {
			ran = append(ran, p.Seed)
			return run(p.Seed)
		},
		Told: func(e Entry, _ bool) { entries[e.Seed] = e },
	}
	if err := errors.Join(c.Do(t.Context()), l.Close()); err != nil {
		t.Fatal(err)
	}
	return ran, entries
}

func TestACampaignGoesOnWhereItStopped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "ledger.jsonl")
	clean := func(uint64) (Result, error) { return Result{}, nil }
	some := func(seed uint64) (Result, error) {
		switch {
		case seed == 3:
			return Result{Findings: []history.Finding{{Breaks: []string{"D2"}, What: "twice"}}}, nil
		case seed > 6:
			return Result{}, errors.New("the machine is full")
		}
		return Result{}, nil
	}
	if ran, _ := campaignOf(t, path, "v1", some); len(ran) != 10 {
		t.Errorf("at first it ran %v", ran)
	}
	// A process that was killed leaves a line that is torn.
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, `{"version":"v1","kind":"simulated","seed":8`...), 0o600); err != nil {
		t.Fatal(err)
	}
	ran, entries := campaignOf(t, path, "v1", clean)
	if !slices.Equal(ran, []uint64{7, 8, 9, 10}) {
		t.Errorf("it went on with %v, and should with what could not be run", ran)
	}
	if three, eight := entries[3], entries[8]; three.Clean() || !eight.Clean() || len(entries) != 10 {
		t.Errorf("it told of %+v", entries)
	}
	if ran, _ := campaignOf(t, path, "v1", clean); len(ran) != 0 {
		t.Errorf("a third time it ran %v", ran)
	}
	if ran, _ := campaignOf(t, path, "v2", clean); len(ran) != 10 {
		t.Errorf("another version was run only with %v", ran)
	}
}
