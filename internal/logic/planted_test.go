//go:build fault

package logic_test

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/impart-im/impart/internal/fault"
)

// Every guard of this package that can be switched off is missed by the story
// about it: the tests are run again with the bug planted, and have to fail.
func TestPlantedBugsAreFound(t *testing.T) {
	if os.Getenv("IM_BUG") != "" {
		t.Skip("this is the run with a bug")
	}
	for bug, tests := range map[fault.Bug]string{
		fault.AnswersBeforeCommit: "TestOnlyWhatHasCommittedIsKept",
		fault.AnswersOutliveEpoch: "TestAnswersEndWithTheirEpoch",
	} {
		t.Run(string(bug), func(t *testing.T) {
			if out, err := rerun(t, tests, ""); err != nil {
				t.Fatalf("without a bug: %v\n%s", err, out)
			}
			out, err := rerun(t, tests, bug)
			if err == nil {
				t.Errorf("%s passes with %s planted", tests, bug)
			}
			if !bytes.Contains(out, []byte("--- FAIL")) || bytes.Contains(out, []byte("panic:")) {
				t.Errorf("it did not fail by a check:\n%s", out)
			}
		})
	}
}

func rerun(t *testing.T, tests string, bug fault.Bug) ([]byte, error) {
	t.Helper()
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run", tests)
	again.Env = append(os.Environ(), "IM_BUG="+string(bug))
	return again.CombinedOutput()
}
