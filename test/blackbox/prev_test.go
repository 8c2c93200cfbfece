package blackbox

import (
	"strings"
	"testing"
)

func TestPrevDemandsTheEarlierMessage(t *testing.T) {
	w := onShared(t)
	ab, ac := w.conv("ab", "ana", "ben"), w.conv("ac", "ana", "ben")
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	send := func(conv, cmid, prev string) F {
		return F{"t": "send", "conv": conv, "cmid": cmid, "body": cmid, "prev": prev}
	}
	ana.refuse("OUT_OF_ORDER", send(ab, "k2", "k1")) // not stored yet
	ana.send(ac, "elsewhere", "x")
	ana.refuse("OUT_OF_ORDER", send(ab, "k2", "elsewhere")) // stored in another conversation
	ben.send(ab, "his", "x")
	ana.refuse("OUT_OF_ORDER", send(ab, "k2", "his")) // stored by another user
	ana.send(ab, "k1", "first")
	f := ana.want("sent", send(ab, "k2", "k1")) // the same frame may be sent again
	if f.Int("seq") != 3 || f.Bool("dup") {
		t.Errorf("sent %s, want seq 3", f.Object)
	}
	if ev := ben.event(ab, 3); ev.Has("prev") {
		t.Errorf("prev is no part of the event: %s", ev)
	}
}

func TestPrevChainsWhilePipelining(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	rids := []string{}
	for i, cmid := range []string{"a", "b", "c", "d"} {
		frame := F{"t": "send", "conv": ab, "cmid": cmid, "body": cmid}
		if i > 0 {
			frame["prev"] = string(rune('a' + i - 1))
		}
		rids = append(rids, ana.post(frame))
	}
	for i, rid := range rids {
		if f := ana.reply(rid); f.Int("seq") != int64(i+1) {
			t.Errorf("message %d: %s", i, f.Object)
		}
	}
}

// When one message of a pipelined chain is refused, those behind it are not stored in its place; the client links the
// next one to the last stored and goes on.
func TestPrevAfterAFinalRefusal(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	r1 := ana.post(F{"t": "send", "conv": ab, "cmid": "a", "body": "a"})
	r2 := ana.post(F{"t": "send", "conv": ab, "cmid": "b", "body": strings.Repeat("x", 65537), "prev": "a"})
	r3 := ana.post(F{"t": "send", "conv": ab, "cmid": "c", "body": "c", "prev": "b"})
	r4 := ana.post(F{"t": "send", "conv": ab, "cmid": "d", "body": "d", "prev": "c"})
	for rid, want := range map[string]string{r1: "", r2: "TOO_LARGE", r3: "OUT_OF_ORDER", r4: "OUT_OF_ORDER"} {
		if f := ana.reply(rid); f.Str("code") != want {
			t.Errorf("%s: %s, want code %q", rid, f.Object, want)
		}
	}
	ana.want("sent", F{"t": "send", "conv": ab, "cmid": "c", "body": "c", "prev": "a"})
	if f := ana.want("sent", F{"t": "send", "conv": ab, "cmid": "d", "body": "d", "prev": "c"}); f.Int("seq") != 3 {
		t.Errorf("sent %s, want seq 3", f.Object)
	}
}

// prev is no part of the content, and it is looked at after dedup and after membership.
func TestPrevIsCheckedAfterDedupAndMembership(t *testing.T) {
	w := onShared(t)
	ab, bc := w.conv("ab", "ana", "ben"), w.conv("bc", "ben", "cai")
	ana := w.online("ana", "phone")
	ana.send(ab, "k1", "x")
	for _, prev := range []string{"never-stored", "k1"} {
		if f := ana.want("sent", F{"t": "send", "conv": ab, "cmid": "k1", "body": "x", "prev": prev}); !f.Bool("dup") {
			t.Errorf("a resend with prev %q: %s, want dup", prev, f.Object)
		}
	}
	ana.refuse("CMID_REUSED", F{"t": "send", "conv": ab, "cmid": "k1", "body": "y", "prev": "never-stored"})
	ana.refuse("NOT_MEMBER", F{"t": "send", "conv": bc, "cmid": "k2", "body": "x", "prev": "never-stored"})
}

// A recalled message was stored: it still counts as an earlier one.
func TestPrevMayNameARecalledMessage(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	ana.send(ab, "k1", "x")
	ana.want("sent", F{"t": "recall", "conv": ab, "seq": 1, "cmid": "k2"})
	ana.want("sent", F{"t": "send", "conv": ab, "cmid": "k3", "body": "x", "prev": "k1"})
}
