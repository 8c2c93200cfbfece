package blackbox

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/rawclient"
)

func recall(conv string, seq int64, cmid string) F {
	return F{"t": "recall", "conv": conv, "seq": seq, "cmid": cmid}
}

func TestRecall(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	first := ana.want("sent", F{"t": "send", "conv": ab, "cmid": "k1", "body": "secret-1", "ext": F{"x": "secret-2"}})
	sent := ana.want("sent", F{"t": "recall", "conv": ab, "seq": 1, "cmid": "r1", "mid": first.Str("mid"), "epoch": first.Int("epoch")})
	shaped(t, sent.Object, sentShape)
	if sent.Int("seq") != 2 || sent.Bool("dup") || sent.Str("mid") == first.Str("mid") {
		t.Errorf("sent %s, want the recall event at seq 2", sent.Object)
	}
	ev := ben.event(ab, 2)
	shaped(t, ev, recallShape)
	want := rawclient.Event{
		Conv: ab, Seq: 2, Kind: "recall", Mid: sent.Str("mid"), Sender: w.user("ana"), CMID: "r1", Target: 1, TargetMid: first.Str("mid"), At: sent.Int("at"),
	}
	if got := rawclient.ParseEvent(ev); got != want {
		t.Errorf("recall event %+v\nwant %+v", got, want)
	}
	ana.none("the recall's event on the connection that sent it", 0, isEvent(ab, 2))
}

// After the recall the body is nowhere: not in sync, pull, history, HTTP, convs, nor in the answer to a resend.
func TestRecalledBodyComesBackByNoRoad(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	send := F{"t": "send", "conv": ab, "cmid": "k1", "body": "secret-1", "ext": F{"x": "secret-2"}}
	first := ana.want("sent", send)
	ana.want("sent", recall(ab, 1, "r1"))
	ben := w.online("ben", "new-device")
	roads := map[string]string{
		"sync": string(ben.want("synced", F{"t": "sync", "conv": ab, "after": 0}).Raw), "convs": string(ben.want("convs", F{"t": "convs"}).Raw),
		"history": string(ben.want("synced", F{"t": "sync", "conv": ab, "before": 3}).Raw), "pull": string(ben.pull(10).Raw),
		"HTTP sync": w.api("ben", "sync", F{"conv": ab, "after": 0}).String(), "HTTP pull": w.apiWith(w.bearer("ben", "new-device", "i1"), "pull", F{}).String(),
		"resend": string(ana.want("sent", send).Raw), "who": string(ben.want("whos", F{"t": "who", "conv": ab, "seq": 1}).Raw),
		"delivery": w.srv.Admin(t, "GET", "conversations/"+ab+"/events/1/delivery", nil).String(),
	}
	for road, text := range roads {
		if strings.Contains(text, "secret") {
			t.Errorf("%s shows the recalled body: %s", road, text)
		}
	}
	if f := ana.want("sent", send); !f.Bool("dup") || f.Int("seq") != 1 || f.Str("mid") != first.Str("mid") {
		t.Errorf("a resend of the recalled message: %s, want dup", f.Object)
	}
	gone := ben.want("synced", F{"t": "sync", "conv": ab, "after": 0}).List("events")[0]
	shaped(t, gone, goneShape)
	if !gone.Bool("recalled") || gone.Str("sender") != w.user("ana") || gone.Str("cmid") != "k1" || gone.Str("mid") != first.Str("mid") {
		t.Errorf("the recalled event is served as %s", gone)
	}
}

func TestRecallIsIdempotentByCmid(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	phone, tablet := w.online("ana", "phone"), w.online("ana", "tablet")
	phone.send(ab, "k1", "x")
	first := phone.want("sent", recall(ab, 1, "r1"))
	for _, c := range []*client{phone, tablet} {
		if f := c.want("sent", recall(ab, 1, "r1")); !f.Bool("dup") || f.Int("seq") != 2 || f.Str("mid") != first.Str("mid") {
			t.Errorf("the recall again: %s, want dup of %s", f.Object, first.Object)
		}
	}
	w.leave(ab, "ana")
	if f := phone.want("sent", recall(ab, 1, "r1")); !f.Bool("dup") {
		t.Errorf("the recall again after leaving: %s, want dup", f.Object)
	}
}

func TestRecallRefusals(t *testing.T) {
	w := onShared(t)
	abc := w.conv("abc", "ana", "ben", "cai")
	bc := w.conv("bc", "ben", "cai")
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	first := ana.send(abc, "k1", "x")      // 1
	w.join(abc, "dan")                     // 2
	ana.send(abc, "k2", "y")               // 3
	ana.want("sent", recall(abc, 3, "r3")) // 4
	ana.send(abc, "k5", "z")               // 5
	ben.send(bc, "k", "not ana's business")
	for name, frame := range map[string]F{
		"not the sender":     nil,
		"a join":             recall(abc, 2, "ra"),
		"a recall":           recall(abc, 4, "rb"),
		"already recalled":   recall(abc, 3, "rc"),
		"another mid there":  {"t": "recall", "conv": abc, "seq": 5, "cmid": "rd", "mid": first.Str("mid")},
		"a mid that is none": {"t": "recall", "conv": abc, "seq": 5, "cmid": "re", "mid": "m"},
	} {
		c := ana
		if frame == nil {
			c, frame = ben, recall(abc, 1, "rf")
		}
		if f := c.ask(frame); f.Str("code") != "RECALL_REFUSED" {
			t.Errorf("%s: %s, want RECALL_REFUSED", name, f.Object)
		} else {
			checkError(t, f.Object)
		}
	}
	ana.refuse("CURSOR_AHEAD", recall(abc, 6, "rg"))
	ana.refuse("NOT_MEMBER", recall(bc, 1, "rh"))
	w.leave(abc, "ana")
	ana.refuse("NOT_MEMBER", recall(abc, 1, "ri"))
	if _, head := ben.log(abc, 0); head != 6 { // the leave
		t.Errorf("head %d, want 6: a refused recall was stored", head)
	}
}

// An admin of the conversation may take back what others wrote.
func TestRecallByAnAdmin(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	w.srv.Admin(t, "PUT", "conversations/"+ab+"/members/"+w.user("eva"), F{"role": "admin"}) // 1
	ana, ben, eva := w.online("ana", "phone"), w.online("ben", "phone"), w.online("eva", "phone")
	ana.send(ab, "k1", "x") // 2
	ben.refuse("RECALL_REFUSED", recall(ab, 2, "r1"))
	eva.want("sent", recall(ab, 2, "r1")) // the cmid is eva's, not ben's
	if ev := ana.event(ab, 3); ev.Str("sender") != w.user("eva") || ev.Int("target") != 2 {
		t.Errorf("recall event %s, want eva's of 2", ev)
	}
}

func TestRecallPastTheWindow(t *testing.T) {
	w := onOwn(t, "IM_RECALL_WINDOW=1s")
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	sent := ana.send(ab, "k1", "x")
	ana.send(ab, "k2", "y")
	ana.want("sent", recall(ab, 2, "r2"))
	<-time.After(time.Until(time.UnixMilli(sent.Int("at")).Add(1500 * time.Millisecond)))
	ana.refuse("RECALL_REFUSED", recall(ab, 1, "r1"))
	if f := ana.want("sent", recall(ab, 2, "r2")); !f.Bool("dup") {
		t.Errorf("a recall in time, asked again past the window: %s, want dup", f.Object)
	}
}

// A recall is visible to whoever may see its target, wherever it stands in the log, and to nobody else.
func TestRecallIsVisibleWhereItsTargetIs(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben", "leo")
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	leo := w.online("leo", "phone")
	ana.send(ab, "k1", "old secret") // 1, seen by leo
	ana.send(ab, "k2", "x")          // 2
	w.leave(ab, "leo")               // 3
	w.join(ab, "zoe")                // 4
	zoe := w.online("zoe", "phone")
	ana.send(ab, "k3", "new secret")      // 5, not seen by leo
	ana.want("sent", recall(ab, 1, "r1")) // 6, for leo, ben; not for zoe
	ana.want("sent", recall(ab, 5, "r5")) // 7, for zoe, ben; not for leo
	for _, tc := range []struct {
		c    *client
		want []int64
	}{{ben, []int64{1, 2, 3, 4, 5, 6, 7}}, {leo, []int64{1, 2, 3, 6}}, {zoe, []int64{4, 5, 7}}} {
		events, _ := tc.c.log(ab, 0)
		if got := seqsOf(events); fmt.Sprint(got) != fmt.Sprint(tc.want) {
			t.Errorf("%s sees %v, want %v", tc.c.user, got, tc.want)
		}
		for _, ev := range events {
			if strings.Contains(ev.Body, "secret") {
				t.Errorf("%s still reads %q", tc.c.user, ev.Body)
			}
		}
	}
	leo.event(ab, 6) // pushed to the one who left, for what is on that phone
	zoe.event(ab, 7)
	leo.none("an event that leo may not see", 0, func(f rawclient.Frame) bool {
		seq := f.Obj("ev").Int("seq")
		return f.T() == "event" && (seq == 4 || seq == 5 || seq == 7)
	})
	zoe.none("the recall of what zoe never saw", 0, isEvent(ab, 6))
	if f := leo.ack(ab, 6); f.Int("delivered") != 6 {
		t.Errorf("leo acks the recall: %s", f.Object)
	}
}

func seqsOf(events []rawclient.Event) []int64 {
	seqs := make([]int64, len(events))
	for i, ev := range events {
		seqs[i] = ev.Seq
	}
	return seqs
}
