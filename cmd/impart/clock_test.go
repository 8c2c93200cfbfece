//go:build fault

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// setClock moves a server's clock by what text says, at once.
func setClock(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// TestFaultAClockThatIsSet moves the clock of a server that runs, forward and
// back, and wants its messages stamped accordingly, and each found by the sweep
// though its push was lost. (That the store's own clock is never set back is shown
// beside it, in internal/store/sqlstore.)
func TestFaultAClockThatIsSet(t *testing.T) {
	clock := filepath.Join(t.TempDir(), "clock")
	p := faulty(t, t.TempDir(), "gw.push:drop", "IM_CLOCK="+clock, "IM_RETRY_MS=60000,60000,60000,60000")
	makeConversation(t, p)
	ana, ben := p.come(t, "u-ana"), p.come(t, "u-ben")
	seq, overdue := 0, time.Now().Add(readyTime)
	for _, step := range []time.Duration{0, time.Hour, -time.Hour, 0} {
		setClock(t, clock, step.String())
		for off := 24 * time.Hour; off.Abs() > time.Minute; { // until the server has read it
			if time.Now().After(overdue) {
				t.Fatalf("clock moved by %v: the server is %v off", step, off)
			}
			seq++
			ana.say(fmt.Sprintf(`{"t":"send","rid":"r","conv":"c-ab","cmid":"m-%d","body":"hi"}`, seq))
			at := time.UnixMilli(int64(ana.hears("sent")["at"].(float64)))
			off = at.Sub(time.Now().Add(step))
			for ben.hears("hint")["head"] != float64(seq) {
			}
			ben.say(fmt.Sprintf(`{"t":"ack","rid":"a","conv":"c-ab","seq":%d,"n":%d}`, seq, seq))
			ben.hears("acked")
		}
	}
}
