//go:build fault

package sqlstore

import (
	"bytes"
	"os"
	"testing"

	"github.com/impart-im/impart/internal/fault"
)

// Guards that this engine has in its own code are missed by the suite when they are
// switched off; those in the rules are for TestPlantedBugsAreFound.
func TestPlantedBugsAreFoundOnMySQL(t *testing.T) {
	if os.Getenv("IM_BUG") != "" {
		t.Skip("this is the run with a bug")
	}
	t.Parallel()
	needMySQL(t)
	for bug, tests := range map[fault.Bug]string{
		fault.SentBeforeCommit: "TestMySQLConformance/commit",
		fault.NoDedup:          "TestMySQLConformance/dedup",
		fault.DupUnwritten:     "TestMySQLConformance/dedup",
		fault.SeqHole:          "TestMySQLConformance/append",
		fault.KeepsEpoch:       "TestMySQLConformance/failover",
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
	if out, err := rerun(t, "TestMySQLConformance/(append|dedup|failover)", ""); err != nil {
		t.Errorf("without a bug: %v\n%s", err, out)
	}
}
