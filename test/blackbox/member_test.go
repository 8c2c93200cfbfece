package blackbox

import (
	"fmt"
	"testing"

	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// Joins and leaves after the creation are events; the creation writes none.
func TestJoinsAndLeavesAreEvents(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	if _, head := ana.log(ab, 0); head != 0 {
		t.Fatalf("head %d right after the creation, want 0", head)
	}
	w.join(ab, "cai")
	w.leave(ab, "cai")
	for seq, kind := range map[int64]string{1: "join", 2: "leave"} {
		ev := ana.event(ab, seq)
		shaped(t, ev, memberShape)
		if ev.Str("kind") != kind || ev.Str("user") != w.user("cai") || ev.Str("by") != "system" || ev.Str("sender") != "system" {
			t.Errorf("event %s, want %s of cai by system", ev, kind)
		}
	}
	events, _ := ana.log(ab, 0)
	if len(events) != 2 || events[0].Kind != "join" || events[1].Kind != "leave" {
		t.Errorf("the log has %v, want join and leave", events)
	}
}

// Adding a member who is there and removing one who is not change nothing.
func TestMembershipChangesAreIdempotent(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	w.join(ab, "ben")
	w.join(ab, "cai") // 1
	w.join(ab, "cai")
	w.leave(ab, "cai") // 2
	path := "/admin/v1/conversations/" + ab + "/members/"
	for _, who := range []string{"cai", "never"} {
		if r := w.srv.Request(t, "DELETE", path+w.user(who), nil, nil); r.Status >= 500 {
			t.Errorf("removing one who is no member: %s", r)
		}
	}
	if _, head := ana.log(ab, 0); head != 2 {
		t.Errorf("head %d, want 2", head)
	}
}

// PUT of a conversation adds members and never removes any.
func TestPutNeverRemovesMembers(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	ana.send(ab, "k1", "x") // 1
	w.conv("ab", "ana", "cai")
	ben.send(ab, "k2", "still here")
	cai := w.online("cai", "phone")
	cai.send(ab, "k3", "new here")
	events, _ := ana.log(ab, 0)
	joins := 0
	for _, ev := range events {
		if ev.Kind == "join" {
			joins++
		}
		if ev.Kind == "leave" || ev.Kind == "join" && ev.User != w.user("cai") {
			t.Errorf("event %+v: PUT removed or re-added somebody", ev)
		}
	}
	if joins != 1 {
		t.Errorf("%d joins in %v, want cai's", joins, events)
	}
	if got, _ := cai.log(ab, 0); len(got) == 0 || got[0].Seq == 1 {
		t.Errorf("cai sees %v, want nothing from before joining", got)
	}
}

// history from_join (the default): one sees from one's join event on. history all: from the beginning.
func TestHistoryPolicies(t *testing.T) {
	w := onShared(t)
	for name, tc := range map[string]struct {
		history string
		first   int64
	}{"default": {"", 4}, "from_join": {"from_join", 4}, "all": {"all", 1}} {
		body := F{"kind": "group", "members": w.users("ana", "ben")}
		if tc.history != "" {
			body["history"] = tc.history
		}
		conv := w.convWith("h-"+name, body)
		ana := w.login("ana", "phone-"+name, nil)
		ana.sendMany(conv, name, 3) // 1 2 3
		w.join(conv, "zoe")         // 4
		ana.send(conv, name+"5", "x")
		zoe := w.login("zoe", "phone-"+name, nil)
		events, head := zoe.log(conv, 0)
		if len(events) == 0 || events[0].Seq != tc.first || events[len(events)-1].Seq != 5 || head != 5 || int64(len(events)) != 6-tc.first {
			t.Errorf("%s: zoe sees %v, head %d, want %d..5", name, seqsOf(events), head, tc.first)
		}
		back := zoe.want("synced", F{"t": "sync", "conv": conv, "before": 6}).List("events")
		if got := back[len(back)-1].Int("seq"); got != tc.first {
			t.Errorf("%s: history goes back to %d, want %d", name, got, tc.first)
		}
	}
}

// One who has left sees, reads and acks the past period as before, its leave last, and nothing after it.
func TestPastPeriodsStayReadable(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben", "leo")
	ana, leo := w.online("ana", "phone"), w.online("leo", "phone")
	ana.sendMany(ab, "k", 3) // 1 2 3
	w.leave(ab, "leo")       // 4
	ana.sendMany(ab, "m", 3) // 5 6 7
	leo.event(ab, 4)
	events, head := leo.log(ab, 0)
	if fmt.Sprint(seqsOf(events)) != "[1 2 3 4]" || head != 4 || events[3].Kind != "leave" {
		t.Errorf("leo sees %v, head %d, want 1..4", seqsOf(events), head)
	}
	page := leo.pull(100).List("convs")[0]
	if got := rawclient.Seqs(page.List("events")); fmt.Sprint(got) != "[1 2 3 4]" || page.Int("head") != 4 {
		t.Errorf("leo pulls %v, head %d", got, page.Int("head"))
	}
	if f := leo.ack(ab, 4); f.Int("delivered") != 4 {
		t.Errorf("acked %s", f.Object)
	}
	leo.want("readed", F{"t": "read", "conv": ab, "seq": 4})
	leo.want("whos", F{"t": "who", "conv": ab, "seq": 3})
	leo.refuse("CURSOR_AHEAD", F{"t": "ack", "conv": ab, "seq": 5})
	leo.refuse("CURSOR_AHEAD", F{"t": "read", "conv": ab, "seq": 5})
	leo.refuse("CURSOR_AHEAD", F{"t": "sync", "conv": ab, "after": 5})
	leo.refuse("NOT_MEMBER", F{"t": "send", "conv": ab, "cmid": "k", "body": "x"})
	if f := leo.pull(100); len(f.List("convs")) != 0 {
		t.Errorf("pulled %s, want nothing more", f.Object)
	}
	if c := leo.convsOf()[ab]; c != nil && c.Int("head") != 4 {
		t.Errorf("convs tells leo head %d", c.Int("head"))
	}
}

// A device of one who joined late starts just before its first visible event, and the cursor passes over the rest.
func TestJoinedLate(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	zoe := w.online("zoe", "phone") // connected before anything concerns her
	ana.sendMany(ab, "k", 5)        // 1..5
	w.join(ab, "zoe")               // 6
	ana.send(ab, "k7", "x")         // 7
	// A bus that carries to a node only what it has readers for may learn of her too late for the first of them.
	zoe.await("6 and 7, by push or hint", 0, func(f rawclient.Frame) bool {
		return isEvent(ab, 7)(f) || f.T() == "hint" && f.Str("conv") == ab && f.Int("head") >= 7
	})
	f := zoe.want("synced", F{"t": "sync", "conv": ab, "after": 0, "limit": 1})
	if got := rawclient.Seqs(f.List("events")); fmt.Sprint(got) != "[6]" || f.Int("through") != 6 {
		t.Errorf("synced %s, want 6 through 6", f.Object)
	}
	page := zoe.pull(10).List("convs")[0]
	if got := rawclient.Seqs(page.List("events")); fmt.Sprint(got) != "[6 7]" || page.Int("through") != 7 {
		t.Errorf("pulled %s, want 6 and 7", page)
	}
	if c := zoe.convsOf()[ab]; c.Int("delivered") != 5 || c.Int("unread") != 1 {
		t.Errorf("%s: want delivered 5 and one unread message", c)
	}
	zoe.none("an event from before the join", 0, func(f rawclient.Frame) bool {
		return f.T() == "event" && f.Obj("ev").Int("seq") < 6
	})
}
