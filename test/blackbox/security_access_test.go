package blackbox

// Kinds 5 to 9 and 13: who may do what, and what a stranger can learn.

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// operations are all requests that name a conversation, as frame and as HTTP request.
func operations(conv, cmid string) map[string]F {
	return map[string]F{
		"send": {"conv": conv, "cmid": cmid, "body": "x"}, "ack": {"conv": conv, "seq": 1}, "sync": {"conv": conv, "after": 0},
		"read": {"conv": conv, "seq": 1}, "recall": {"conv": conv, "seq": 1, "cmid": cmid + "r"}, "who": {"conv": conv, "seq": 1},
	}
}

// both makes one operation over WebSocket and over HTTP and gives the two codes ("" is success) and messages.
func both(w *world, c *client, name, op string, body F) (ws, http, wsText, httpText string) {
	frame := F{"t": op}
	req := F{}
	for k, v := range body {
		frame[k] = v
		if to := map[string]string{"conv": "conv_id", "cmid": "client_msg_id", "body": "text"}[k]; op == "send" && to != "" {
			k = to
		}
		req[k] = v
	}
	f := c.ask(frame)
	r := w.api(name, op, req)
	return f.Str("code"), r.JSON.Str("code"), f.Str("message"), r.JSON.Str("message")
}

// Every operation, for a member, a former member and a stranger, over both roads: the same answers; and for a stranger
// "not yours" and "not there" are one answer, to the letter.
func TestSecurity05And06_AuthorizationMatrix(t *testing.T) {
	w := onShared(t)
	theirs := w.conv("secret-here", "ben", "leo")
	none := strings.Replace(theirs, "here", "none", 1)
	ben := w.online("ben", "phone")
	ben.send(theirs, "k1", "x")
	w.leave(theirs, "leo") // 2
	leo, zoe := w.online("leo", "phone"), w.online("zoe", "phone")

	for op, body := range operations(theirs, "s") {
		ws, http, wsText, httpText := both(w, zoe, "zoe", op, body)
		if ws != "NOT_MEMBER" || http != "NOT_MEMBER" {
			t.Errorf("%s of a stranger: %q over WebSocket, %q over HTTP, want NOT_MEMBER", op, ws, http)
		}
		absent := F{}
		for k, v := range body {
			absent[k] = v
		}
		absent["conv"] = none
		ws2, http2, wsText2, httpText2 := both(w, zoe, "zoe", op, absent)
		hide := strings.NewReplacer(theirs, "CONV", none, "CONV")
		if ws2 != ws || http2 != http || hide.Replace(wsText2) != hide.Replace(wsText) || hide.Replace(httpText2) != hide.Replace(httpText) {
			t.Errorf("%s: what is there and what is not are told apart: %q %q against %q %q", op, ws, wsText, ws2, wsText2)
		}
	}
	former := map[string]string{"send": "NOT_MEMBER", "recall": "NOT_MEMBER", "ack": "", "sync": "", "read": "", "who": ""}
	for op, body := range operations(theirs, "f") {
		if ws, http, _, _ := both(w, leo, "leo", op, body); ws != former[op] || http != former[op] {
			t.Errorf("%s of a former member: %q over WebSocket, %q over HTTP, want %q", op, ws, http, former[op])
		}
	}
	mine := w.conv("mine", "ben", "zoe")
	for op, body := range operations(mine, "m") {
		if op == "recall" {
			continue
		}
		zoe.send(mine, "first", "x")
		body["cmid"] = "m-" + op
		if op != "send" {
			delete(body, "cmid")
		}
		if ws, http, _, _ := both(w, zoe, "zoe", op, body); ws != "" || http != "" {
			t.Errorf("%s of a member: %q over WebSocket, %q over HTTP, want success", op, ws, http)
		}
	}
	if events, head := ben.log(theirs, 0); head != 2 || len(events) != 2 {
		t.Errorf("head %d: a stranger or former member has written", head)
	}
}

// One who was removed gets not one frame of what comes after: no push, retry, hint, typing, receipt, head.
func TestSecurity07_NothingAfterRemoval(t *testing.T) {
	w := onOwn(t, "IM_RETRY_MS=100,200,300,400", "IM_SWEEP_MS=300")
	abc := w.conv("abc", "ana", "ben", "leo")
	ana, ben, leo := w.online("ana", "phone"), w.online("ben", "phone"), w.online("leo", "phone")
	ana.send(abc, "k1", "before")
	leo.event(abc, 1)
	w.leave(abc, "leo") // 2
	leo.event(abc, 2)
	for i := range 10 {
		ana.send(abc, fmt.Sprint("after", i), "not for leo")
	}
	ben.ack(abc, 12)
	ben.want("readed", F{"t": "read", "conv": abc, "seq": 12})
	if err := ben.JSON(F{"t": "typing", "conv": abc}); err != nil {
		t.Fatal(err)
	}
	leak := func(f rawclient.Frame) bool {
		switch f.T() {
		case "event":
			return f.Obj("ev").Int("seq") > 2
		case "hint", "subbed", "synced", "pulled", "convs":
			return strings.Contains(string(f.Raw), `"head":12`)
		case "receipt":
			return f.Int("delivered") > 2 || f.Int("read") > 2
		case "typing":
			return true
		}
		return false
	}
	leo.noneFor(1500*time.Millisecond, "what is not for one who was removed", 0, leak)
	leo.want("subbed", F{"t": "sub"})
	leo.log(abc, 0)
	leo.pull(100)
	leo.convsOf()
	again := w.online("leo", "phone")
	again.pull(100)
	for _, c := range []*client{leo, again} {
		for _, f := range c.Frames() {
			if leak(f) || strings.Contains(string(f.Raw), "not for leo") {
				t.Errorf("leo is told: %s", f.Object)
			}
		}
	}
}

// A cursor belongs to one device of one user: no field of a frame or header of a request reaches another's.
func TestSecurity08_CursorsOfOthers(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana, tablet, ben := w.online("ana", "phone"), w.online("ana", "tablet"), w.online("ben", "phone")
	ana.sendMany(ab, "k", 3)
	for _, extra := range []F{{"device": "phone"}, {"user": w.user("ana")}, {"user": w.user("ana"), "device": "phone"}, {"install": "i1"}} {
		for k, v := range extra {
			frame := F{"t": "ack", "conv": ab, "seq": 3, k: v}
			ben.want("acked", frame)
		}
	}
	if c := ana.convsOf()[ab]; c.Int("delivered") != 0 {
		t.Errorf("%s: another user moved ana's cursor", c)
	}
	h := w.bearer("ben", "phone", "i1")
	h["Impart-User"] = []string{w.user("ana")}
	w.apiWith(h, "ack", F{"conv": ab, "seq": 3, "user": w.user("ana"), "device": "phone"})
	if r := w.api("ana", "ack", F{"conv": ab, "seq": 1}); r.Status != 200 || r.JSON.Int("delivered") != 1 {
		t.Errorf("ana's own ack over HTTP: %s, want delivered 1", r)
	}
	if c := tablet.convsOf()[ab]; c.Int("delivered") != 0 {
		t.Errorf("%s: the phone's ack moved the tablet's cursor", c)
	}
	if c := ana.convsOf()[ab]; c.Int("delivered") != 1 || c.Int("read") != 0 {
		t.Errorf("%s: want delivered 1 and read 0", c)
	}
}

// Another user's cmid never answers with, recalls or orders after that user's row.
func TestSecurity09_CmidsOfOthers(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	hers := ana.send(ab, "shared", "hers")
	his := ben.send(ab, "shared", "his")
	if his.Bool("dup") || his.Str("mid") == hers.Str("mid") || his.Int("seq") != 2 {
		t.Errorf("ben's first send under ana's cmid: %s", his.Object)
	}
	for c, want := range map[*client]rawclient.Frame{ana: hers, ben: his} {
		body := map[*client]string{ana: "hers", ben: "his"}[c]
		if f := c.send(ab, "shared", body); !f.Bool("dup") || f.Str("mid") != want.Str("mid") {
			t.Errorf("%s resends and gets %s, want %s", c.user, f.Object, want.Object)
		}
	}
	ana.send(ab, "only-hers", "x")
	ben.refuse("OUT_OF_ORDER", F{"t": "send", "conv": ab, "cmid": "next", "body": "x", "prev": "only-hers"})
	ben.refuse("RECALL_REFUSED", recall(ab, 1, "shared-recall"))
	ana.want("sent", recall(ab, 1, "recall-1"))
	if f := ben.refuse("RECALL_REFUSED", recall(ab, 3, "recall-1")); f.Has("seq") {
		t.Errorf("the refusal shows ana's recall: %s", f.Object)
	}
}

// Users and conversations cannot be enumerated: ids that exist and ids that do not give the same answers.
func TestSecurity13_Enumeration(t *testing.T) {
	w := onShared(t)
	w.conv("exists", "ben", "cai")
	zoe := w.online("zoe", "phone")
	answers := map[string]bool{}
	for _, conv := range []string{"c-exists" + w.ns, "c-absent" + w.ns} {
		for _, frame := range []F{
			{"t": "sync", "conv": conv, "before": 1}, {"t": "sync", "conv": conv, "after": 99}, {"t": "ack", "conv": conv, "seq": 99},
			{"t": "ack", "acks": []F{{"conv": conv, "seq": 99}}}, {"t": "who", "conv": conv, "seq": 99}, {"t": "read", "conv": conv, "seq": -1},
			{"t": "send", "conv": conv, "cmid": "k" + conv, "body": "x", "prev": "none"},
		} {
			f := zoe.ask(frame)
			text := strings.ReplaceAll(string(f.Raw), conv, "CONV")
			text = strings.ReplaceAll(text, f.Str("rid"), "RID")
			answers[fmt.Sprint(frame["t"], frame["seq"], frame["after"], frame["acks"] != nil, text)] = true
		}
		if err := zoe.JSON(F{"t": "typing", "conv": conv}); err != nil {
			t.Fatal(err)
		}
	}
	if len(answers) != 7 {
		t.Errorf("%d different answers to 7 questions: existing and absent conversations are told apart:\n%v", len(answers), answers)
	}
	before := zoe.want("convs", F{"t": "convs", "after": "c-exis"})
	if len(before.List("convs")) != 0 {
		t.Errorf("convs shows others' conversations: %s", before.Object)
	}
}
