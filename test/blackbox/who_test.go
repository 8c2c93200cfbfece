package blackbox

import (
	"fmt"
	"testing"

	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// report gives who's users by id, over all pages.
func (c *client) report(conv string, seq int64) map[string]rawclient.Object {
	c.t.Helper()
	users, after := map[string]rawclient.Object{}, ""
	for {
		req := F{"t": "who", "conv": conv, "seq": seq}
		if after != "" {
			req["after"] = after
		}
		f := c.want("whos", req)
		shaped(c.t, f.Object, whosShape)
		if f.Str("conv") != conv || f.Int("seq") != seq {
			c.t.Errorf("whos %s, want %s %d", f.Object, conv, seq)
		}
		for _, u := range f.List("users") {
			shaped(c.t, u, whoShape)
			if _, twice := users[u.Str("user")]; twice {
				c.t.Fatalf("user %q twice", u.Str("user"))
			}
			after = u.Str("user")
			users[after] = u
		}
		if !f.Bool("more") {
			return users
		}
		if len(f.List("users")) == 0 {
			c.t.Fatalf("whos says more and shows nobody: %s", f.Object)
		}
	}
}

func TestWhoHasAnEvent(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	phone, tablet := w.online("ben", "phone"), w.online("ben", "tablet")
	ana.sendMany(ab, "k", 2) // 1 2
	w.join(ab, "zoe")        // 3
	w.online("zoe", "phone")
	ana.send(ab, "k4", "x") // 4
	phone.ack(ab, 2)
	tablet.ack(ab, 1)
	phone.want("readed", F{"t": "read", "conv": ab, "seq": 1})

	for _, tc := range []struct {
		seq, ben int64
		read     bool
		zoe      bool
	}{{1, 2, true, false}, {2, 1, false, false}, {4, 0, false, true}} {
		users := ana.report(ab, tc.seq)
		ben := users[w.user("ben")]
		if ben.Int("devices") != 2 || ben.Int("delivered") != tc.ben || ben.Bool("read") != tc.read {
			t.Errorf("seq %d: ben %s, want %d of 2 devices, read %v", tc.seq, ben, tc.ben, tc.read)
		}
		if _, seen := users[w.user("zoe")]; seen != tc.zoe {
			t.Errorf("seq %d: zoe in the report: %v, want %v", tc.seq, seen, tc.zoe)
		}
		if u, ok := users[w.user("ana")]; !ok || u.Int("devices") != 1 {
			t.Errorf("seq %d: ana %s, want one device", tc.seq, u)
		}
	}
}

func TestWhoRefuses(t *testing.T) {
	w := onShared(t)
	ab, bc := w.conv("ab", "ana", "ben"), w.conv("bc", "ben", "cai")
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	ana.send(ab, "k", "x")
	ben.send(bc, "k", "x")
	ana.refuse("NOT_MEMBER", F{"t": "who", "conv": bc, "seq": 1})
	ana.refuse("NOT_MEMBER", F{"t": "who", "conv": "c-none" + w.ns, "seq": 1})
	for _, seq := range []int64{2, 0, -1} {
		if f := ana.ask(F{"t": "who", "conv": ab, "seq": seq}); f.T() != "error" {
			t.Errorf("who of seq %d: %s, want an error", seq, f.Object)
		}
	}
	w.join(ab, "zoe") // 2
	zoe := w.online("zoe", "phone")
	if f := zoe.ask(F{"t": "who", "conv": ab, "seq": 1}); f.T() != "error" {
		t.Errorf("who of an event from before one joined: %s, want an error", f.Object)
	}
}

func TestWhoPages(t *testing.T) {
	w := onShared(t)
	members := []string{"ana"}
	for i := range 1100 {
		members = append(members, fmt.Sprintf("m%04d", i))
	}
	conv := w.conv("large", members...)
	ana := w.online("ana", "phone")
	ana.send(conv, "k", "x")
	ana.ack(conv, 1)
	users := ana.report(conv, 1)
	if len(users) != 1101 {
		t.Errorf("the report has %d users, want 1,101", len(users))
	}
	if me := users[w.user("ana")]; me.Int("delivered") != 1 || me.Int("devices") != 1 {
		t.Errorf("ana %s, want one device that has it", me)
	}
	if m := users[w.user("m0500")]; m.Int("devices") != 0 || m.Int("delivered") != 0 || m.Bool("read") {
		t.Errorf("a member without devices: %s", m)
	}
}
