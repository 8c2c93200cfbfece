//go:build fault

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

// TestFaultANodeWhoseClockIsFast shares a database with nobody whose clock it could
// mislead: its messages have the database's time, and it removes none of them.
func TestFaultANodeWhoseClockIsFast(t *testing.T) {
	_, dsn, _ := database(t)
	clock := filepath.Join(t.TempDir(), "clock")
	setClock(t, clock, "1h")
	p := faulty(t, t.TempDir(), "", "IM_STORE="+dsn, "IM_CLOCK="+clock, "IM_RETENTION=30m")
	makeConversation(t, p)
	ana := p.come(t, "u-ana")
	ana.say(`{"t":"send","rid":"r","conv":"c-ab","cmid":"m","body":"hi"}`)
	at := time.UnixMilli(int64(ana.hears("sent")["at"].(float64)))
	if off := time.Since(at); off.Abs() > readyTime {
		t.Errorf("the message's time is %v off", off)
	}
	late, again := time.After(readyTime), time.NewTicker(100*time.Millisecond)
	defer again.Stop()
	for !strings.Contains(p.log(), "nothing is removed") {
		select {
		case <-again.C:
		case <-late:
			t.Fatalf("nothing is told of the clocks:\n%s", p.log())
		}
	}
	ana.say(`{"t":"sync","rid":"s","conv":"c-ab","after":0}`)
	if got := ana.hears("synced"); got["floor"] != 0.0 || got["head"] != 1.0 {
		t.Errorf("afterwards: %v", got)
	}
}
