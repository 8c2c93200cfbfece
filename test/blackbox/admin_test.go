package blackbox

import (
	"fmt"
	"testing"
)

func TestAdminPutIsIdempotent(t *testing.T) {
	w := onShared(t)
	for range 2 {
		w.srv.Admin(t, "PUT", "users/"+w.user("ana"), F{})
		w.convWith("ab", F{"kind": "direct", "members": w.users("ana", "ben")})
	}
	ana := w.online("ana", "phone")
	if c := ana.convsOf(); len(c) != 1 || c["c-ab"+w.ns].Int("head") != 0 {
		t.Errorf("convs %v, want one with head 0", c)
	}
}

func TestAdminConversationRefusals(t *testing.T) {
	w := onShared(t)
	ab := w.convWith("ab", F{"kind": "direct", "members": w.users("ana", "ben")})
	put := func(name string, body F) int {
		return w.srv.Request(t, "PUT", "/admin/v1/conversations/c-"+name+w.ns, nil, body).Status
	}
	for name, members := range map[string][]string{"none": {}, "one": w.users("ana"), "three": w.users("ana", "ben", "cai"), "twice": w.users("ana", "ana")} {
		if got := put("d-"+name, F{"kind": "direct", "members": members}); got != 400 {
			t.Errorf("a direct conversation with %s: %d, want 400", name, got)
		}
	}
	if got := put("ab", F{"kind": "group", "members": w.users("ana", "ben")}); got != 409 {
		t.Errorf("another kind: %d, want 409", got)
	}
	if got := put("ab", F{"kind": "direct", "members": w.users("ana", "ben"), "history": "all"}); got != 409 {
		t.Errorf("another history: %d, want 409", got)
	}
	if got := put("x", F{"kind": "nonsense", "members": w.users("ana", "ben")}); got < 400 || got > 499 {
		t.Errorf("an unknown kind: %d, want a refusal", got)
	}
	if got := put("x", F{"kind": "group", "members": w.users("ana"), "history": "nonsense"}); got < 400 || got > 499 {
		t.Errorf("an unknown history: %d, want a refusal", got)
	}
	none := "/admin/v1/conversations/c-none" + w.ns
	for _, tc := range [][2]string{
		{"PUT", none + "/members/" + w.user("ana")}, {"DELETE", none + "/members/" + w.user("ana")}, {"GET", none + "/events/1/delivery"},
	} {
		if r := w.srv.Request(t, tc[0], tc[1], nil, map[string]any{"PUT": F{"role": "member"}}[tc[0]]); r.Status != 404 {
			t.Errorf("%s %s: %s, want 404", tc[0], tc[1], r)
		}
	}
	msg := F{"sender": "system", "cmid": "k", "body": "x"}
	if r := w.srv.Request(t, "POST", none+"/messages", nil, msg); r.Status != 404 {
		t.Errorf("a message to an unknown conversation: %s, want 404", r)
	}
	ana := w.online("ana", "phone")
	if _, head := ana.log(ab, 0); head != 0 || len(ana.convsOf()) != 1 {
		t.Errorf("a refused request left something behind: head %d", head)
	}
}

// A message by the admin API is a message like any other: stored once by cmid, pushed, in the log.
func TestAdminSends(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	path := "conversations/" + ab + "/messages"
	w.srv.Admin(t, "POST", path, F{"sender": "system", "cmid": "k1" + w.ns, "body": "maintenance at noon"})
	w.srv.Admin(t, "POST", path, F{"sender": "system", "cmid": "k1" + w.ns, "body": "maintenance at noon"})
	w.srv.Admin(t, "POST", path, F{"sender": w.user("ana"), "cmid": "k1" + w.ns, "body": "in ana's name"})
	for seq, sender := range map[int64]string{1: "system", 2: w.user("ana")} {
		for _, c := range []*client{ana, ben} {
			ev := c.event(ab, seq)
			shaped(t, ev, msgShape)
			if ev.Str("sender") != sender || ev.Str("cmid") != "k1"+w.ns {
				t.Errorf("seq %d: %s, want it from %s", seq, ev, sender)
			}
		}
	}
	if _, head := ana.log(ab, 0); head != 2 {
		t.Errorf("head %d, want 2", head)
	}
}

func TestAdminDeliveryAndDevices(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	ana.send(ab, "k1", "x")
	ben.ack(ab, 1)
	for _, path := range []string{
		"conversations/" + ab + "/events/1/delivery", fmt.Sprintf("devices/phone?user=%s", w.user("ben")),
	} {
		if r := w.srv.Admin(t, "GET", path, nil); r.JSON == nil {
			t.Errorf("GET %s: %s, want an object", path, r)
		}
	}
	if r := w.srv.Request(t, "GET", "/admin/v1/conversations/"+ab+"/events/9/delivery", nil, nil); r.Status < 400 || r.Status > 499 {
		t.Errorf("the delivery of an event that is not there: %s", r)
	}
}

// Sends never create conversations; a hello creates its user in dev login.
func TestWhatIsCreatedUnasked(t *testing.T) {
	w := onShared(t)
	ana := w.online("ana", "phone")
	ana.refuse("NOT_MEMBER", F{"t": "send", "conv": "c-new" + w.ns, "cmid": "k", "body": "x"})
	if r := w.srv.Request(t, "GET", "/admin/v1/conversations/c-new"+w.ns+"/events/1/delivery", nil, nil); r.Status != 404 {
		t.Errorf("a send created the conversation: %s", r)
	}
	conv := w.conv("with-unknown", "ana", "never-seen") // naming a member who is not known yet creates the user
	ana.send(conv, "k", "x")
	seen := w.online("never-seen", "phone")
	if events, _ := seen.log(conv, 0); len(events) != 1 {
		t.Errorf("the new user sees %v", events)
	}
}
