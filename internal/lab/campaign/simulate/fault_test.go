//go:build fault

package simulate

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/impart-im/impart/internal/fault"
)

// planted are the bugs of the logic, of the gateway and of the SDK, with the invariant that a
// finding has to name. Those of the SQLite store are hunted by process runs.
var planted = []struct {
	bug       fault.Bug
	invariant string
}{
	{fault.AnswersBeforeCommit, "D1"},
	{fault.AckOnPush, "D3"},
	{fault.NoSweep, "D5"},
	{fault.SeesAllPush, "D8"},
	{fault.RetriesForEver, "D10"},
	{fault.QueueUnbounded, "D15"},
	{fault.ClientCMIDAnew, "D2"},
	{fault.ClientAcksEarly, "D3"},
	{fault.ClientCursorOverGap, "D3"},
	{fault.ClientHandsOverGap, "D7"},
	{fault.ClientHidesN, "D9"},
	{fault.ClientReturns, "D9"},
	{fault.ClientRefusesAll, "D13"},
	{fault.ClientNoPrev, "D14"},
	{fault.ClientForgetsSent, "D16"},
	{fault.ClientForgetsUndone, "D16"},
	{fault.ClientWaitsForEver, "D16"},
	{fault.ClientKeepsBody, "D17"},
	{fault.ClientLateBody, "D17"},
	{fault.ClientForgetsCancelled, "D17"},
}

// huntTime bounds the hunt for one bug: one that makes a run turn in circles never
// lets virtual time go on.
const huntTime = 3 * time.Minute

var foundLine = regexp.MustCompile(`found with seed .*`)

// TestPlantedBugsAreFound hunts each bug in a process of its own, for a bug is
// planted when a process starts.
func TestPlantedBugsAreFound(t *testing.T) {
	if invariant := os.Getenv("CAMPAIGN_HUNT"); invariant != "" {
		hunt(t, invariant)
		return
	}
	for _, p := range planted {
		t.Run(string(p.bug), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), huntTime)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run", "^TestPlantedBugsAreFound$", "-test.v")
			cmd.Env = append(os.Environ(), "IM_BUG="+string(p.bug), "CAMPAIGN_HUNT="+p.invariant)
			out, err := cmd.CombinedOutput()
			if line := foundLine.Find(out); err == nil && line != nil {
				t.Logf("%s", line)
				return
			}
			t.Errorf("%s is not found (%v): %s", p.bug, err, out[max(0, len(out)-2000):])
		})
	}
}
