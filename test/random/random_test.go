package random

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/impart-im/impart/test/blackbox/impart"
)

// A schedule takes a second, and a fifth of a second of a processor.
func TestMain(m *testing.M) {
	impart.SideBySide(6)
	os.Exit(impart.Main(m))
}

const steps = 40

// number reads a setting of the test from the environment.
func number(t *testing.T, name string, value uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return value
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s must be a number: %v", name, err)
	}
	return n
}

// run takes one schedule to its end and returns what was wrong.
func run(t *testing.T, seed uint64, binary string, env ...string) []string {
	w := newWorld(t, seed, binary, env...)
	for range steps {
		w.step()
	}
	w.judge()
	return w.findings()
}

// TestSchedules: the normal binary breaks nothing, whatever the schedule.
func TestSchedules(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the real binary: run without -short")
	}
	first, runs := number(t, "RANDOM_SEED", 1), number(t, "RANDOM_RUNS", 200)
	for seed := first; seed < first+runs; seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			for _, f := range run(t, seed, "") {
				t.Error(f)
			}
		})
	}
}

// TestTargetedStories: what a short random run would meet too seldom.
func TestTargetedStories(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the real binary: run without -short")
	}
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1, "")
			story(w)
			for _, f := range w.findings() {
				t.Error(f)
			}
		})
	}
}

// stories end the runs that look for a planted bug of their kind.
var stories = map[string]func(*world){
	"quiet":    (*world).quiet,
	"mute":     (*world).mute,
	"stuck":    (*world).stuck,
	"restored": (*world).restored,
}

// planted are the bugs that must be found: by which story, or by schedules.
// The invariant is the one that a finding has to name.
var planted = []struct{ bug, invariant, story string }{
	{"sent-before-commit", "D1", ""},
	{"no-dedup", "D2", ""},
	{"ack-on-push", "D3", ""},
	{"cursor-back", "D4", ""},
	{"cursor-ahead", "D4", ""},
	{"no-sweep", "D5", "quiet"},
	{"seq-hole", "D7", ""},
	{"sees-all-push", "D8", ""},
	{"sees-all-sync", "D8", ""},
	{"old-install-counts", "D9", ""},
	{"n-ignored", "D9", "restored"},
	{"retries-for-ever", "D10", "mute"},
	{"keys-collide", "D12", ""},
	{"batch-fails-together", "D13", ""},
	{"prev-ignored", "D14", ""},
	{"queue-unbounded", "D15", "stuck"},
	{"recall-keeps-body", "D17", ""},
	{"recall-frees-dedup", "D2", ""},
	{"through-skips-visible", "D3", ""},
}

// mostSeeds is how many schedules may pass before a planted bug counts as missed.
const mostSeeds = 40

// TestPlantedBugsAreFound: the checks can fail. Each bug is a guard switched off
// in a binary built with -tags fault.
func TestPlantedBugsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the real binary: run without -short")
	}
	binary := filepath.Join(t.TempDir(), "impart-fault")
	if err := impart.Build(binary, "fault"); err != nil {
		t.Fatal(err)
	}
	t.Run("bugs", func(t *testing.T) {
		for _, p := range planted {
			t.Run(p.bug, func(t *testing.T) {
				t.Parallel()
				for seed := uint64(1); seed <= mostSeeds; seed++ {
					if found := hunt(t, seed, binary, p.bug, p.story); len(found) > 0 {
						t.Logf("seed %d: %s", seed, found[0])
						if !names(found, p.invariant) {
							t.Logf("no finding names %s", p.invariant)
						}
						return
					}
				}
				t.Errorf("%s was not found in %d schedules", p.bug, mostSeeds)
			})
		}
	})
}

// hunt runs one schedule, or one story, against a planted bug.
func hunt(t *testing.T, seed uint64, binary, bug, story string) (found []string) {
	t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
		if story == "" {
			found = run(t, seed, binary, "IM_BUG="+bug)
			return
		}
		w := newWorld(t, seed, binary, "IM_BUG="+bug)
		stories[story](w)
		found = w.findings()
	})
	return found
}

func names(found []string, invariant string) bool {
	for _, f := range found {
		if strings.Contains(f, invariant) {
			return true
		}
	}
	return false
}
