package logic_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/logic"
)

func TestARecallIsAnEventThatEverybodyIsWokenFor(t *testing.T) {
	w := newWorld(t)
	w.group("c", ana, ben)
	original := w.say(ben, "c", "oops")
	w.bus.take(bus.Wake)
	recall := impart.Recall{Sender: ben, Conv: "c", Seq: 1, CMID: "r1", MID: original.MID}
	sent, err := w.Recall(w.ctx, recall)
	if err != nil || sent.Seq != 2 || sent.Dup || sent.MID == "" || sent.Conv != "c" {
		t.Fatalf("got %+v, %v", sent, err)
	}
	if wakes := w.bus.take(bus.Wake); len(wakes) != 1 || wakes[0] != (bus.Message{Kind: bus.Wake, Conv: "c", From: 2, Head: 2}) {
		t.Errorf("woken with %+v", wakes)
	}
	again, err := w.Recall(w.ctx, recall)
	if err != nil || !again.Dup || again.Seq != 2 || again.MID != sent.MID {
		t.Errorf("again: %+v, %v", again, err)
	}
	if wakes := w.bus.take(bus.Wake); len(wakes) != 0 {
		t.Errorf("a repeat woke with %+v", wakes)
	}
	events := w.sees(ana, "c")
	if len(events) != 2 || events[1].Kind != impart.KindRecall || events[1].Target != 1 || events[1].TargetMID != original.MID {
		t.Errorf("ana sees %+v", events)
	}
	if n := w.counts("im_messages_recalled_total"); n != 1 {
		t.Errorf("im_messages_recalled_total is %v", n)
	}
}

func TestARecalledBodyComesBackByNoRoad(t *testing.T) { // case 35, D17
	const secret = "the body that must be gone"
	w := newWorld(t)
	w.group("c", ana, ben)
	send := w.message(ben, "c", secret)
	send.Ext = []byte(`{"note":"` + secret + `"}`)
	if sent := w.try(send); sent.Err != nil {
		t.Fatal(sent.Err)
	}
	if _, err := w.Recall(w.ctx, impart.Recall{Sender: ben, Conv: "c", Seq: 1, CMID: "r1"}); err != nil {
		t.Fatal(err)
	}
	resent := w.try(send)
	if resent.Err != nil || !resent.Dup || resent.Seq != 1 {
		t.Errorf("the resend got %+v", resent)
	}
	session := w.device(ana, "new phone")
	before := impart.Seq(3)
	back, err := w.Sync(w.ctx, impart.Sync{User: ana, Conv: "c", Before: &before})
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := w.Pull(w.ctx, impart.Pull{Session: session})
	if err != nil {
		t.Fatal(err)
	}
	convs, err := w.Convs(w.ctx, impart.Convs{Session: session})
	if err != nil {
		t.Fatal(err)
	}
	part, err := w.Range(w.ctx, "c", 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	delivery, err := w.Delivery(w.ctx, "c", 1)
	if err != nil {
		t.Fatal(err)
	}
	for road, events := range map[string][]impart.Event{
		"sync": w.sees(ana, "c"), "history": back.Events, "pull": pulled.Convs[0].Events, "push": part.Events,
		"convs": {*convs.Convs[0].Last}, "delivery report": {delivery.Event},
	} {
		if len(events) == 0 {
			t.Errorf("%s: nothing came", road)
		}
		for _, ev := range events {
			if strings.Contains(ev.Body+string(ev.Ext), secret) {
				t.Errorf("%s: %+v", road, ev)
			}
		}
	}
	if ev := w.sees(ana, "c")[0]; !ev.Recalled || ev.Sender != ben || ev.CMID != send.CMID {
		t.Errorf("the recalled event is %+v", ev)
	}
}

func TestWhoMayRecallWhat(t *testing.T) {
	w, clock := clocked(t, func(cfg *logic.Config) { cfg.RecallWindow = time.Hour })
	w.group("c", ana, ben, cy) // ana is the admin
	w.say(ben, "c", "too old soon")
	clock.turn(time.Hour + time.Millisecond)
	w.say(ben, "c", "for its sender")
	w.say(ben, "c", "for the admin")
	w.say(ana, "c", "the admin's own")
	n := 0
	recall := func(user impart.UserID, seq impart.Seq, mid impart.MID) error {
		n++
		_, err := w.Recall(w.ctx, impart.Recall{Sender: user, Conv: "c", Seq: seq, CMID: impart.CMID(fmt.Sprint("r", n)), MID: mid})
		return err
	}
	wantCode(t, "past the window", recall(ben, 1, ""), impart.RecallRefused)
	wantCode(t, "another member's", recall(cy, 2, ""), impart.RecallRefused)
	wantCode(t, "the admin's, by a member", recall(ben, 4, ""), impart.RecallRefused)
	wantCode(t, "another mid", recall(ben, 2, "another"), impart.RecallRefused)
	wantCode(t, "beyond the head", recall(ben, 5, ""), impart.CursorAhead)
	wantCode(t, "negative", recall(ben, -1, ""), impart.CursorAhead)
	wantCode(t, "by a stranger", recall(eve, 2, ""), impart.NotMember)
	if err := recall(ben, 2, ""); err != nil {
		t.Error(err)
	}
	if err := recall(ana, 3, ""); err != nil {
		t.Error(err)
	}
	wantCode(t, "already recalled", recall(ben, 2, ""), impart.RecallRefused)
	wantCode(t, "a recall", recall(ben, 5, ""), impart.RecallRefused)
	if _, err := w.RemoveMember(w.ctx, "c", ben); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "after leaving", recall(ben, 2, ""), impart.NotMember)
	_, err := w.Recall(w.ctx, impart.Recall{Sender: ana, Conv: "c", Seq: 4, CMID: "r0", Epoch: 9})
	wantCode(t, "of another epoch", err, impart.EpochChanged)
	for what, bad := range map[string]impart.Recall{
		"no cmid": {Sender: ana, Conv: "c", Seq: 4}, "no conversation": {Sender: ana, Seq: 4, CMID: "r"},
		"no sender": {Conv: "c", Seq: 4, CMID: "r"}, "a long mid": {Sender: ana, Conv: "c", Seq: 4, CMID: "r", MID: impart.MID(strings.Repeat("x", 129))},
	} {
		_, err := w.Recall(w.ctx, bad)
		wantCode(t, what, err, impart.BadFrame)
	}
}

func TestWithoutAWindowOldMessagesCanBeRecalled(t *testing.T) {
	w, clock := clocked(t, func(cfg *logic.Config) { cfg.RecallWindow = -1 })
	w.group("c", ana, ben)
	w.say(ben, "c", "long ago")
	clock.turn(10 * 365 * 24 * time.Hour)
	if _, err := w.Recall(w.ctx, impart.Recall{Sender: ben, Conv: "c", Seq: 1, CMID: "r1"}); err != nil {
		t.Error(err)
	}
}
