//go:build fault

package sqlstore

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/impart-im/impart/internal/fault"
)

// Every guard of this package that can be switched off is missed by the suite
// when it is: the tests are run again with the bug planted, and have to fail.
func TestPlantedBugsAreFound(t *testing.T) {
	if os.Getenv("IM_BUG") != "" {
		t.Skip("this is the run with a bug")
	}
	t.Parallel()
	for bug, tests := range map[fault.Bug]string{
		fault.SentBeforeCommit:    "TestConformance/commit",
		fault.NoDedup:             "TestConformance/dedup",
		fault.CursorBack:          "TestConformance/cursors",
		fault.CursorAhead:         "TestConformance/cursors",
		fault.SeqHole:             "TestConformance/append",
		fault.SeesAllSync:         "TestConformance/page",
		fault.OldInstallCounts:    "TestConformance/install",
		fault.NIgnored:            "TestConformance/install",
		fault.OldSessionAcks:      "TestConformance/install",
		fault.KeysCollide:         "TestConformance/keys",
		fault.BatchFailsTogether:  "TestConformance/append",
		fault.PrevIgnored:         "TestConformance/prev",
		fault.RecallKeepsBody:     "TestConformance/recall",
		fault.RecallFreesDedup:    "TestConformance/recall",
		fault.ThroughSkipsVisible: "TestConformance/page",
	} {
		t.Run(string(bug), func(t *testing.T) {
			t.Parallel()
			out, err := rerun(t, tests, bug)
			if err == nil {
				t.Errorf("%s passes with %s planted", tests, bug)
			}
			if !bytes.Contains(out, []byte("--- FAIL")) || bytes.Contains(out, []byte("panic:")) {
				t.Errorf("it did not fail by a check:\n%s", out)
			}
		})
	}
	if out, err := rerun(t, "TestConformance/(append|dedup|cursors|install|page)", ""); err != nil {
		t.Errorf("without a bug: %v\n%s", err, out)
	}
}

func rerun(t *testing.T, tests string, bug fault.Bug) ([]byte, error) {
	t.Helper()
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run", tests)
	again.Env = append(os.Environ(), "IM_BUG="+string(bug))
	return again.CombinedOutput()
}
