package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/impart-im/impart"
)

// operations are what a device can ask of one conversation, at one seq.
var operations = []struct {
	name string
	body func(conv, seq string) string
}{
	{"send", func(conv, seq string) string {
		return `{"conv_id":"` + conv + `","client_msg_id":"x` + seq + `","text":"x"}`
	}},
	{"recall", func(conv, seq string) string {
		return `{"conv":"` + conv + `","seq":` + seq + `,"cmid":"r` + seq + `"}`
	}},
	{"sync", func(conv, seq string) string { return `{"conv":"` + conv + `","after":` + seq + `}` }},
	{"sync", func(conv, seq string) string { return `{"conv":"` + conv + `","before":` + seq + `}` }},
	{"sync", func(conv, seq string) string {
		return `{"conv":"` + conv + `","after":` + seq + `,"after_mid":"m"}`
	}},
	{"ack", func(conv, seq string) string { return `{"conv":"` + conv + `","seq":` + seq + `}` }},
	{"ack", func(conv, seq string) string { return `{"acks":[{"conv":"` + conv + `","seq":` + seq + `}]}` }},
	{"read", func(conv, seq string) string { return `{"conv":"` + conv + `","seq":` + seq + `}` }},
	{"who", func(conv, seq string) string { return `{"conv":"` + conv + `","seq":` + seq + `}` }},
}

// "Not yours" and "not there" are one answer, to the byte: nobody can find out
// which conversations, users or messages exist.
func TestNotYoursIsNotThere(t *testing.T) {
	w := newWorld(t, nil)
	w.conversation("c-yes", "u-ana", "u-ben")
	w.message("u-ana", "c-yes", "m1", "one")
	w.message("u-ana", "c-yes", "m2", "two")
	for _, op := range operations {
		for _, seq := range []string{"1", "2", "99", "0", "-1", "9007199254740991"} {
			for _, user := range []string{"u-stranger", "u-other"} {
				theirs := w.api(op.name, op.body("c-yes", seq), as(user), on("d-ana"))
				nowhere := w.api(op.name, op.body("c-nay", seq), as(user), on("d-ana"))
				if theirs.status != nowhere.status || strings.ReplaceAll(theirs.body, "c-yes", "c-nay") != nowhere.body {
					t.Errorf("%s at %s by %s:\nnot theirs %d %s\nnot there  %d %s", op.name, seq, user, theirs.status, theirs.body, nowhere.status, nowhere.body)
				}
				if !strings.Contains(theirs.body, string(impart.NotMember)) {
					t.Errorf("%s at %s by %s: %s", op.name, seq, user, theirs.body)
				}
			}
		}
	}
	w.api("pull", `{}`, as("u-stranger"), on("d-ana")).wants(http.StatusOK).contains(`"convs":[],"failed":[],"more":false`)
	if page := w.api("sync", `{"conv":"c-yes","after":0}`, as("u-ana")).wants(http.StatusOK); page.number("head") != 2 {
		t.Errorf("a stranger left something: %s", page.body)
	}
}

// A former member keeps what they could see, and learns of nothing after it.
func TestAFormerMemberSeesTheirPeriodAndNoMore(t *testing.T) {
	w := newWorld(t, nil)
	w.conversation("c-yes", "u-ana", "u-ben")
	w.message("u-ben", "c-yes", "m1", "one")
	w.do("DELETE", "/admin/v1/conversations/c-yes/members/u-ben", "").wants(http.StatusOK) // 2: the leave
	w.message("u-ana", "c-yes", "m3", "hidden")

	ben := func(op, body string) answer { return w.api(op, body, as("u-ben"), on("d-ben")) }
	page := ben("sync", `{"conv":"c-yes","after":0}`).wants(http.StatusOK).contains(`"body":"one"`).contains(`"kind":"leave"`)
	if page.number("head") != 2 || strings.Contains(page.body, "hidden") {
		t.Errorf("ben is told %s", page.body)
	}
	if pulled := ben("pull", `{}`).wants(http.StatusOK).contains(`"body":"one"`); strings.Contains(pulled.body, "hidden") || strings.Contains(pulled.body, `"seq":3`) {
		t.Errorf("ben pulls %s", pulled.body)
	}
	ben("ack", `{"conv":"c-yes","seq":2}`).says(`{"conv":"c-yes","delivered":2}`)
	ben("read", `{"conv":"c-yes","seq":2}`).says(`{"conv":"c-yes","read":2}`)
	ben("who", `{"conv":"c-yes","seq":1}`).wants(http.StatusOK)

	// What is written now needs a membership now, and a resend of what was stored does not.
	ben("send", `{"conv_id":"c-yes","client_msg_id":"m9","text":"x"}`).fails(impart.NotMember)
	ben("recall", `{"conv":"c-yes","seq":1,"cmid":"r"}`).fails(impart.NotMember)
	ben("send", `{"conv_id":"c-yes","client_msg_id":"m1","text":"one"}`).wants(http.StatusOK).contains(`"seq":1,"dup":true`)

	// The message after the leave and one that was never written look the same.
	for _, op := range operations {
		if op.name == "send" || op.name == "recall" {
			continue
		}
		there, nowhere := ben(op.name, op.body("c-yes", "4")), ben(op.name, op.body("c-yes", "5"))
		if there.status != nowhere.status || strings.ReplaceAll(there.body, "4", "5") != nowhere.body {
			t.Errorf("%s: hidden %d %s, never written %d %s", op.name, there.status, there.body, nowhere.status, nowhere.body)
		}
		if got := ben(op.name, op.body("c-yes", "3")); strings.Contains(got.body, "hidden") || !strings.Contains(op.body("", ""), "before") && !strings.Contains(got.body, string(impart.CursorAhead)) {
			t.Errorf("%s at the hidden message: %d %s", op.name, got.status, got.body)
		}
	}
}

// Cursors belong to one device of one user; a shared id is no shared cursor.
func TestAnotherDeviceIsNotMoved(t *testing.T) {
	w := newWorld(t, nil)
	w.conversation("c-ab", "u-ana", "u-ben")
	w.message("u-ana", "c-ab", "m1", "one")
	w.api("ack", `{"conv":"c-ab","seq":1}`, as("u-ben"), on("d-1")).wants(http.StatusOK)
	for _, other := range []struct{ user, device string }{{"u-ben", "d-2"}, {"u-ana", "d-1"}, {"u-ben", "D-1"}} {
		w.api("pull", `{}`, as(other.user), on(other.device)).wants(http.StatusOK).contains(`"body":"one"`)
		w.api("ack", `{"conv":"c-ab","seq":0}`, as(other.user), on(other.device)).says(`{"conv":"c-ab","delivered":0}`)
	}
	w.api("pull", `{}`, as("u-ben"), on("d-1")).wants(http.StatusOK).contains(`"convs":[]`)
}

func TestForgedAcks(t *testing.T) {
	w := newWorld(t, nil)
	w.conversation("c-ab", "u-ana", "u-ben")
	w.message("u-ana", "c-ab", "m1", "one")
	ack := func(seq string) answer { return w.api("ack", `{"conv":"c-ab","seq":`+seq+`}`, as("u-ben"), on("d")) }
	for _, seq := range []string{"2", "-1", "9007199254740991", "-9007199254740991"} {
		ack(seq).fails(impart.CursorAhead)
		w.api("read", `{"conv":"c-ab","seq":`+seq+`}`, as("u-ben")).fails(impart.CursorAhead)
	}
	for _, seq := range []string{"9007199254740992", "1e400", "18446744073709551617", "-9223372036854775809", "1.5", `"1"`, "null", "true", "[1]"} {
		ack(seq).fails(impart.BadFrame)
	}
	ack("1").says(`{"conv":"c-ab","delivered":1}`)
	ack("0").says(`{"conv":"c-ab","delivered":1}`)
}

// Another user's cmid is another key: it neither finds nor touches their message.
func TestAnothersCMID(t *testing.T) {
	w := newWorld(t, nil)
	w.conversation("c-ab", "u-ana", "u-ben")
	w.message("u-ana", "c-ab", "m1", "hers")
	w.api("send", `{"conv_id":"c-ab","client_msg_id":"m1","text":"hers"}`, as("u-ben")).wants(http.StatusOK).contains(`"seq":2,"dup":false`)
	w.api("send", `{"conv_id":"c-ab","client_msg_id":"m1","text":"his"}`, as("u-ben")).fails(impart.CMIDReused)
	w.api("recall", `{"conv":"c-ab","seq":1,"cmid":"m1"}`, as("u-ben")).fails(impart.CMIDReused)
	w.api("recall", `{"conv":"c-ab","seq":1,"cmid":"m2"}`, as("u-ben")).fails(impart.RecallRefused)
	w.api("send", `{"conv_id":"c-ab","client_msg_id":"m3","text":"x","prev":"m1"}`, as("u-ben")).wants(http.StatusOK) // his own m1
	w.api("send", `{"conv_id":"c-ab","client_msg_id":"m4","text":"x","prev":"m9"}`, as("u-ben")).fails(impart.OutOfOrder).contains(`"retry":true`)
}
