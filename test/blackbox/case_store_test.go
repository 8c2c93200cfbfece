package blackbox

// Cases of a database that refuses, or takes its time. Faults inside a transaction (16, 23, 33) and dead pooled
// connections (7) are tested where the store is.

import (
	"fmt"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// The database refuses writes for a while: sends get UNAVAILABLE, OVERLOADED or no reply, never `sent`; reading goes on;
// after the recovery a resend gives one row.
func TestCase01_TheDatabaseRefusesWrites(t *testing.T) {
	w := onOwn(t)
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	ana.send(ab, "before", "before")
	ben.event(ab, 1)
	release := w.srv.HoldWrites(t)
	rids := []string{}
	for i := range 20 {
		rids = append(rids, ana.post(F{"t": "send", "conv": ab, "cmid": fmt.Sprint("k", i), "body": "x"}))
	}
	if events, _ := ben.log(ab, 0); len(events) != 1 {
		t.Errorf("while the database refuses writes the log has %d events, want 1", len(events))
	}
	ana.noneFor(4*time.Second, "a sent that cannot be true", 0, func(f rawclient.Frame) bool {
		return f.T() == "sent" && f.Int("seq") > 1
	})
	for _, f := range ana.Frames() {
		if f.T() != "error" {
			continue
		}
		checkError(t, f.Object)
		if code := f.Str("code"); code != "UNAVAILABLE" && code != "OVERLOADED" {
			t.Errorf("a send that could not be stored: %s", f.Object)
		}
	}
	release()
	for i := range rids {
		cmid := fmt.Sprint("k", i)
		deadline := time.Now().Add(patience)
		f := ana.ask(F{"t": "send", "conv": ab, "cmid": cmid, "body": "x"})
		for f.Bool("retry") && time.Now().Before(deadline) {
			<-time.After(100 * time.Millisecond)
			f = ana.ask(F{"t": "send", "conv": ab, "cmid": cmid, "body": "x"})
		}
		if f.T() != "sent" {
			t.Fatalf("after the recovery: %s", f.Object)
		}
	}
	events, head := ben.log(ab, 0)
	seen := map[string]int{}
	for _, ev := range events {
		seen[ev.CMID]++
	}
	if head != 21 || len(seen) != 21 {
		t.Errorf("head %d with %d messages, want 21 rows, each once: %v", head, len(seen), seen)
	}
	ben.event(ab, 21)
}

// A correct client keeps its order over an outage.
func TestCase01_TheOutboxOverAnOutage(t *testing.T) {
	w := onOwn(t)
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.device("ana", "phone"), w.device("ben", "phone")
	ana.Start()
	ben.Start()
	for i := range 60 {
		ana.Post(ab, fmt.Sprint("m", i))
	}
	for range 2 {
		release := w.srv.HoldWrites(t)
		<-time.After(3 * time.Second)
		release()
		<-time.After(200 * time.Millisecond)
	}
	settled(t, bulk, ana)
	for i, body := range bodies(w.std(ab, "ben", ana, ben)) {
		if body != fmt.Sprint("m", i) {
			t.Fatalf("place %d holds %q: the order of sending is lost", i, body)
		}
	}
}

// A slow disk: every commit waits for seconds. Retryable errors or late replies, no crash, and SIGTERM still ends in time.
func TestCase43_SlowDisk(t *testing.T) {
	w := onOwn(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	for round := range 2 {
		release := w.srv.HoldWrites(t)
		timer := time.AfterFunc(3*time.Second, release)
		f := ana.ask(F{"t": "send", "conv": ab, "cmid": fmt.Sprint("k", round), "body": "x"})
		if f.T() != "sent" && !f.Bool("retry") {
			t.Errorf("a send to a slow disk: %s, want sent or a retryable error", f.Object)
		}
		ana.alive()
		timer.Stop()
		release()
	}
	ben := w.online("ben", "phone")
	release := w.srv.HoldWrites(t)
	ana.post(F{"t": "send", "conv": ab, "cmid": "last", "body": "x"})
	code, took := w.srv.Terminate(20 * time.Second)
	release()
	if code != 0 && code != 1 || took > 10*time.Second { // 1: that commit could not be finished, and the exit code says so
		t.Errorf("SIGTERM with a commit that hangs: exit code %d after %v, want an end within 10 s", code, took)
	}
	ben.bye(patience, "DRAIN", false)
	ana.ended(patience)
	for _, f := range ana.Frames() {
		if f.T() == "sent" && f.Int("seq") > 2 {
			t.Errorf("sent for what the database never took: %s", f.Object)
		}
	}
}
