package rawclient

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/go-cmp/cmp"
)

// Receipt is a `sent` that some client has seen: from then on the server is bound by it.
type Receipt struct {
	User, Conv, CMID, Body, Mid string
	Seq                         int64
	Dup                         bool
}

// Checker compares what the server, the devices and the senders hold of one conversation whose members see all of it.
type Checker struct {
	Conv string
	// Head is the server's head, Truth what a fresh sync from 0 gave.
	Head  int64
	Truth []Event
	// Devices is what each device has stored, by a name for messages.
	Devices map[string][]Event
	// Receipts are all `sent` frames any client saw.
	Receipts []Receipt
}

// maxFindings bounds a report: the first ones tell the story.
const maxFindings = 20

// Check gives every way in which the three disagree; none means that all is well: seqs 1..head without a hole, each mid
// and each (sender, cmid) once, the same on all devices, and every `sent` there with the same seq, mid and body.
func (c Checker) Check() []string {
	var found []string
	say := func(format string, args ...any) {
		if len(found) < maxFindings {
			found = append(found, fmt.Sprintf(format, args...))
		}
	}
	bySeq := c.checkLog("server", c.Truth, say)
	for _, name := range slices.Sorted(maps.Keys(c.Devices)) {
		mine := c.checkLog(name, c.Devices[name], say)
		for seq, ev := range bySeq {
			if got, ok := mine[seq]; ok && got != ev {
				say("%s: seq %d differs from the server's: %s", name, seq, cmp.Diff(ev, got, cmp.AllowUnexported(Event{})))
			}
		}
	}
	for _, r := range c.Receipts {
		if r.Conv != c.Conv {
			continue
		}
		ev, ok := bySeq[r.Seq]
		switch {
		case !ok:
			say("sent says seq %d for cmid %q, which is not in the log", r.Seq, r.CMID)
		case ev.Mid != r.Mid || ev.Sender != r.User || ev.CMID != r.CMID || (ev.Body != r.Body && !ev.Recalled):
			say("sent %.400s is not what the log holds: %.400s", fmt.Sprintf("%+v", r), fmt.Sprintf("%+v", ev))
		}
	}
	return found
}

// checkLog finds holes and doubles in one copy of the log.
func (c Checker) checkLog(name string, log []Event, say func(string, ...any)) map[int64]Event {
	bySeq := make(map[int64]Event, len(log))
	mids := make(map[string]int64, len(log))
	own := make(map[[2]string]int64, len(log))
	for _, ev := range log {
		if ev.unreadable || ev.Conv != c.Conv {
			say("%s: holds an event that does not belong here: %+v", name, ev)
		}
		if _, twice := bySeq[ev.Seq]; twice {
			say("%s: seq %d twice", name, ev.Seq)
		}
		if first, twice := mids[ev.Mid]; twice {
			say("%s: mid %s at seq %d and at %d", name, ev.Mid, first, ev.Seq)
		}
		key := [2]string{ev.Sender, ev.CMID}
		if first, twice := own[key]; twice && ev.CMID != "" {
			say("%s: sender %s cmid %s at seq %d and at %d", name, ev.Sender, ev.CMID, first, ev.Seq)
		}
		bySeq[ev.Seq], mids[ev.Mid], own[key] = ev, ev.Seq, ev.Seq
	}
	for seq := int64(1); seq <= c.Head; seq++ {
		if _, ok := bySeq[seq]; !ok {
			say("%s: seq %d is missing (head %d)", name, seq, c.Head)
		}
	}
	for seq := range bySeq {
		if seq > c.Head {
			say("%s: seq %d is beyond head %d", name, seq, c.Head)
		}
	}
	return bySeq
}
