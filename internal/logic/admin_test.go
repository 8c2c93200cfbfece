package logic_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
)

func TestConversationsAreCreatedOnceAndGrow(t *testing.T) {
	w := newWorld(t)
	spec := impart.ConvSpec{Conv: "c", Kind: impart.Group, Members: []impart.Member{{User: ana, Role: impart.RoleAdmin}, {User: ben}, {User: ben}}}
	info, created, err := w.PutConversation(w.ctx, spec)
	if err != nil || !created || info.Head != 0 || len(info.Members) != 2 || info.History != impart.FromJoin {
		t.Fatalf("%+v, created %v: %v", info, created, err)
	}
	if wakes := w.bus.take(bus.Wake); len(wakes) != 0 {
		t.Errorf("creation writes no event: %+v", wakes)
	}
	if again, created, err := w.PutConversation(w.ctx, spec); err != nil || created || fmt.Sprint(again) != fmt.Sprint(info) {
		t.Errorf("again: %+v, created %v: %v", again, created, err)
	}
	w.say(ana, "c", "hi")
	w.bus.take(0)
	spec.Members = []impart.Member{{User: cy}, {User: ana}, {User: eve}}
	info, created, err = w.PutConversation(w.ctx, spec)
	if err != nil || created || info.Head != 3 || len(info.Members) != 4 {
		t.Fatalf("%+v, created %v: %v", info, created, err)
	}
	if wakes := w.bus.take(bus.Wake); len(wakes) != 1 || wakes[0] != (bus.Message{Kind: bus.Wake, Conv: "c", From: 2, Head: 3, Everyone: true}) {
		t.Errorf("woken with %+v", wakes)
	}
	events := w.sees(ana, "c")
	if len(events) != 3 || events[1].Kind != impart.KindJoin || events[1].By != impart.System || events[1].Sender != impart.System ||
		events[1].MID == "" || events[1].MID >= events[2].MID {
		t.Errorf("ana sees %+v", events)
	}
	if seen := w.sees(ben, "c"); len(seen) != 3 {
		t.Errorf("a PUT removes nobody, and ben sees %d events", len(seen))
	}
}

func TestConversationRefusals(t *testing.T) {
	w := newWorld(t)
	w.group("c", ana, ben)
	crowd := make([]impart.Member, 100_001)
	for i := range crowd {
		crowd[i].User = impart.UserID(fmt.Sprint("u", i))
	}
	two := []impart.Member{{User: ana}, {User: ben}}
	for what, c := range map[string]struct {
		spec impart.ConvSpec
		code impart.Code
	}{
		"no id":               {impart.ConvSpec{Kind: impart.Group}, impart.BadFrame},
		"no kind":             {impart.ConvSpec{Conv: "n"}, impart.Invalid},
		"another kind":        {impart.ConvSpec{Conv: "n", Kind: "channel"}, impart.Invalid},
		"another history":     {impart.ConvSpec{Conv: "n", Kind: impart.Group, History: "none"}, impart.Invalid},
		"one member, direct":  {impart.ConvSpec{Conv: "n", Kind: impart.Direct, Members: two[:1]}, impart.Invalid},
		"twice the same":      {impart.ConvSpec{Conv: "n", Kind: impart.Direct, Members: []impart.Member{{User: ana}, {User: ana}}}, impart.Invalid},
		"three, direct":       {impart.ConvSpec{Conv: "n", Kind: impart.Direct, Members: append(two[:2:2], impart.Member{User: cy})}, impart.Invalid},
		"a bad member":        {impart.ConvSpec{Conv: "n", Kind: impart.Group, Members: []impart.Member{{User: ".."}}}, impart.BadFrame},
		"a bad role":          {impart.ConvSpec{Conv: "n", Kind: impart.Group, Members: []impart.Member{{User: ana, Role: "owner"}}}, impart.Invalid},
		"two roles":           {impart.ConvSpec{Conv: "n", Kind: impart.Group, Members: []impart.Member{{User: ana}, {User: ana, Role: impart.RoleAdmin}}}, impart.Invalid},
		"the operator":        {impart.ConvSpec{Conv: "n", Kind: impart.Group, Members: []impart.Member{{User: impart.System}}}, impart.Invalid},
		"a crowd":             {impart.ConvSpec{Conv: "n", Kind: impart.Group, Members: crowd}, impart.Invalid},
		"exists as a group":   {impart.ConvSpec{Conv: "c", Kind: impart.Direct, Members: two}, impart.Conflict},
		"exists with another": {impart.ConvSpec{Conv: "c", Kind: impart.Group, History: impart.HistoryAll}, impart.Conflict},
	} {
		_, _, err := w.PutConversation(w.ctx, c.spec)
		wantCode(t, what, err, c.code)
	}
	_, err := w.Conversation(w.ctx, "n")
	wantCode(t, "what was refused", err, impart.NotFound)
	if _, _, err := w.PutConversation(w.ctx, impart.ConvSpec{Conv: "d", Kind: impart.Direct, Members: two}); err != nil {
		t.Fatal(err)
	}
	_, err = w.PutMember(w.ctx, "d", impart.Member{User: cy})
	wantCode(t, "a third in a direct conversation", err, impart.Invalid)
	_, err = w.RemoveMember(w.ctx, "d", ana)
	wantCode(t, "one less in a direct conversation", err, impart.Invalid)
}

func TestJoiningAndLeavingWake(t *testing.T) {
	w := newWorld(t)
	w.group("c", ana)
	w.say(ana, "c", "hi")
	w.bus.take(0)
	step := func(what string, err error, want ...bus.Message) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if wakes := w.bus.take(bus.Wake); fmt.Sprint(wakes) != fmt.Sprint(want) {
			t.Errorf("%s: woken with %+v, want %+v", what, wakes, want)
		}
	}
	put := func(role impart.Role) error {
		_, err := w.PutMember(w.ctx, "c", impart.Member{User: ben, Role: role})
		return err
	}
	remove := func() error { _, err := w.RemoveMember(w.ctx, "c", ben); return err }
	step("joins", put(""), bus.Message{Kind: bus.Wake, Conv: "c", From: 2, Head: 2, Everyone: true})
	step("is there already", put(""))
	step("has another role", put(impart.RoleAdmin))
	step("leaves", remove(), bus.Message{Kind: bus.Wake, Conv: "c", From: 3, Head: 3, Everyone: true})
	step("is gone already", remove())
	info, err := w.Conversation(w.ctx, "c")
	if err != nil || len(info.Members) != 2 || info.Members[1].Role != impart.RoleAdmin || fmt.Sprint(info.Members[1].Periods) != "[{2 3}]" {
		t.Errorf("%+v: %v", info, err)
	}
	for what, c := range map[string]struct {
		conv   impart.ConvID
		member impart.Member
		code   impart.Code
	}{
		"nowhere":        {"nowhere", impart.Member{User: ben}, impart.NotFound},
		"no user":        {"c", impart.Member{}, impart.BadFrame},
		"the operator":   {"c", impart.Member{User: impart.System}, impart.Invalid},
		"no such role":   {"c", impart.Member{User: ben, Role: "king"}, impart.Invalid},
		"a bad conv":     {"a\nb", impart.Member{User: ben}, impart.BadFrame},
		"a long user id": {"c", impart.Member{User: impart.UserID(strings.Repeat("u", 129))}, impart.BadFrame},
	} {
		_, err := w.PutMember(w.ctx, c.conv, c.member)
		wantCode(t, what, err, c.code)
		if c.member.Role == "" {
			_, err = w.RemoveMember(w.ctx, c.conv, c.member.User)
			wantCode(t, what+", removed", err, c.code)
		}
	}
}

func TestTheOperatorSpeaksEverywhere(t *testing.T) {
	w := newWorld(t)
	w.group("c", ana, ben)
	w.say(impart.System, "c", "the server restarts at noon")
	w.say(ben, "c", "thanks")
	if _, err := w.Recall(w.ctx, impart.Recall{Sender: impart.System, Conv: "c", Seq: 1, CMID: "r"}); err != nil {
		t.Errorf("its own message: %v", err)
	}
	_, err := w.PutUser(w.ctx, impart.System, nil)
	wantCode(t, "put", err, impart.Invalid)
	_, err = w.RevokeUser(w.ctx, impart.System)
	wantCode(t, "revoke", err, impart.Invalid)
	wantCode(t, "log in", w.Authorize(w.ctx, impart.Identity{User: impart.System}), impart.Unauthenticated)
}

func TestUsersAndDevicesAsTheOperatorSeesThem(t *testing.T) {
	w := newWorld(t)
	_, err := w.User(w.ctx, ana)
	wantCode(t, "an unknown user", err, impart.NotFound)
	if info, err := w.PutUser(w.ctx, ana, nil); err != nil || info != (impart.UserInfo{User: ana}) {
		t.Errorf("%+v: %v", info, err)
	}
	if info, err := w.User(w.ctx, ana); err != nil || info.Disabled {
		t.Errorf("%+v: %v", info, err)
	}
	_, err = w.PutUser(w.ctx, "", nil)
	wantCode(t, "no user", err, impart.BadFrame)
	_, err = w.Devices(w.ctx, "phone", "")
	wantCode(t, "an unknown device", err, impart.NotFound)
	_, err = w.Devices(w.ctx, "", "")
	wantCode(t, "no device", err, impart.BadFrame)
	w.device(ana, "phone")
	w.device(ben, "phone")
	if devices, err := w.Devices(w.ctx, "phone", ""); err != nil || len(devices) != 2 {
		t.Errorf("%+v: %v", devices, err)
	}
	if devices, err := w.Devices(w.ctx, "phone", ben); err != nil || len(devices) != 1 || devices[0].User != ben {
		t.Errorf("%+v: %v", devices, err)
	}
}

func TestDeliverySaysWhoHasTheMessage(t *testing.T) {
	w := newWorld(t)
	w.group("c", ana, ben)
	w.sayMany(ana, "c", 2)
	session := w.device(ben, "phone")
	w.ack(session, "c", 1)
	delivery, err := w.Delivery(w.ctx, "c", 1)
	if err != nil || delivery.Head != 2 || delivery.Event.Seq != 1 || delivery.Event.Body != "" || len(delivery.Users) != 2 ||
		len(delivery.Users[1].Devices) != 1 || delivery.Users[1].Devices[0].Delivered != 1 {
		t.Errorf("%+v: %v", delivery, err)
	}
	for _, seq := range []impart.Seq{0, -1, 3} {
		_, err = w.Delivery(w.ctx, "c", seq)
		wantCode(t, fmt.Sprint("event ", seq), err, impart.NotFound)
	}
	_, err = w.Delivery(w.ctx, "nowhere", 1)
	wantCode(t, "nowhere", err, impart.NotFound)
}
