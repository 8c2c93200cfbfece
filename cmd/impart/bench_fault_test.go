//go:build fault

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestPlantedBugFailsABench: a server that stores retries twice is found by the
// bench that it is under, and the same load passes without the bug.
func TestPlantedBugFailsABench(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for bug, want := range map[string][]string{
		"":         {"ok      every resend was answered as the duplicate it is", "ok      no message twice"},
		"no-dedup": {"FAILED  every resend was answered as the duplicate it is", "FAILED  no message twice"},
	} {
		cmd := exec.CommandContext(t.Context(), exe, "bench", "storm", "--clients", "5", "--messages", "2", "--live", "2", "--rate", "50", "--duration", "1s", "--every", "300ms")
		cmd.Args[0] = "impart"
		cmd.Env = []string{endAtOnce, "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir(), "IM_BUG=" + bug}
		out, err := cmd.Output()
		if passed := err == nil; passed != (bug == "") {
			t.Errorf("with the bug %q it ends with %v", bug, err)
		}
		for _, line := range want {
			if text := strings.Join(strings.Fields(string(out)), " "); !strings.Contains(text, strings.Join(strings.Fields(line), " ")) {
				t.Errorf("with the bug %q, %q is not in\n%s", bug, line, out)
			}
		}
	}
}
