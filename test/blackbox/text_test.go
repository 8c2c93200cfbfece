package blackbox

import (
	"fmt"
	"strings"
	"testing"

	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// difficult are texts that some store, codec or page has been known to change.
var difficult = []string{
	"", " ", "  leading and trailing  ", "tab\tnewline\ncr\r\nend", "quote \" back\\slash / slash", "it's; DROP TABLE events;--",
	"\u0001\u0002\u001f\u007f\u0080\u0085\u009f", "\u00e9 and e\u0301", "\ufeffBOM\ufeff", "\ufffd", "\ufffe\uffff\U0010ffff",
	"👩‍👩‍👧‍👦 🏳️‍🌈 🇳🇿", "מימין לשמאל \u202eevil\u202c", "\u2028\u2029", "</script><script>alert(1)</script>", "{\"t\":\"event\"}", "null",
	"\\u0000", "\x1b[31mred\x1b[0m", "%s%n%00", "İıßſ", strings.Repeat("\u200b", 100), "ﷺ\U0001f9ff", "a\u0300\u0301\u0302",
}

// Every text comes back byte for byte by every road.
func TestTextComesBackByteForByte(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	for i, body := range difficult {
		ana.send(ab, fmt.Sprint("k", i), body)
	}
	roads := map[string][]rawclient.Object{}
	for i := range difficult {
		roads["push"] = append(roads["push"], ben.event(ab, int64(i+1)))
	}
	roads["sync"] = ben.want("synced", F{"t": "sync", "conv": ab, "after": 0}).List("events")
	roads["pull"] = ben.want("pulled", F{"t": "pull", "limit": 1000}).List("convs")[0].List("events")
	back := ben.want("synced", F{"t": "sync", "conv": ab, "before": len(difficult) + 1}).List("events")
	for _, ev := range back {
		roads["history"] = append([]rawclient.Object{ev}, roads["history"]...)
	}
	roads["HTTP"] = w.api("ben", "sync", F{"conv": ab, "after": 0}).JSON.List("events")
	for road, events := range roads {
		if len(events) != len(difficult) {
			t.Errorf("%s gave %d events, want %d", road, len(events), len(difficult))
			continue
		}
		for i, body := range difficult {
			if got := events[i].Str("body"); got != body {
				t.Errorf("%s: body %q came back as %q", road, body, got)
			}
		}
	}
	last := ben.want("convs", F{"t": "convs"}).List("convs")[0].Obj("last").Str("body")
	if want := difficult[len(difficult)-1]; last != want {
		t.Errorf("convs: last body %q, want %q", last, want)
	}
}

// ext is an opaque JSON object: spaces, number forms, escapes and order of members stay.
func TestExtComesBackByteForByte(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	exts := []string{
		`{}`, `{ }`, `{ "b" : 1.0 , "a":[1e3, 1E+3, -0, 0.10]}`, `{"big":12345678901234567890123, "tiny":1e-400}`,
		`{"u":"\u00e9\ud83d\ude00","s":"\/","raw":"é😀"}`, "{\t\"t\"\t:\r\n{}\n}", `{"":{"":[[],{},null,true,false]}}`,
		`{"html":"<b>&amp;</b>","ls":"` + "\u2028" + `"}`,
	}
	for i, ext := range exts {
		rid := fmt.Sprint("x", i)
		if err := ana.Text(fmt.Sprintf(`{"t":"send","rid":%q,"conv":%q,"cmid":%q,"body":"","ext":%s}`, rid, ab, rid, ext)); err != nil {
			t.Fatal(err)
		}
		if f := ana.reply(rid); f.T() != "sent" {
			t.Fatalf("ext %s: %s", ext, f.Object)
		}
	}
	synced := ben.want("synced", F{"t": "sync", "conv": ab, "after": 0}).List("events")
	pulled := ben.want("pulled", F{"t": "pull"}).List("convs")[0].List("events")
	http := w.api("ben", "sync", F{"conv": ab, "after": 0}).JSON.List("events")
	for i, ext := range exts {
		for road, ev := range map[string]rawclient.Object{"push": ben.event(ab, int64(i+1)), "sync": synced[i], "pull": pulled[i], "HTTP": http[i]} {
			if got := string(ev["ext"]); got != ext {
				t.Errorf("%s: ext %q came back as %q", road, ext, got)
			}
		}
	}
}

// Escaped and plain characters are the same text: a resend in the other spelling is the same message.
func TestEscapesAreTheSameText(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	ana.send(ab, "k", "é😀")
	if err := ana.Text(fmt.Sprintf(`{"t":"send","rid":"e","conv":%q,"cmid":"\u006b","body":"\u00e9\ud83d\ude00"}`, ab)); err != nil {
		t.Fatal(err)
	}
	if f := ana.reply("e"); !f.Bool("dup") {
		t.Errorf("got %s, want dup", f.Object)
	}
}

// What the stores cannot keep byte for byte is refused, and the connection goes on.
func TestNulAndLoneSurrogatesAreBadFrame(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	bad := []string{`\u0000`, `a\u0000b`, `\ud800`, `\udfff`, `\ud800x`, `\udc00\ud800`, `x\ud83d`, `\ud83d\u0041`}
	for i, text := range bad {
		for _, frame := range []string{
			fmt.Sprintf(`{"t":"send","rid":"body%d","conv":%q,"cmid":"k","body":"%s"}`, i, ab, text),
			fmt.Sprintf(`{"t":"send","rid":"cmid%d","conv":%q,"cmid":"k%s","body":"b"}`, i, ab, text),
			fmt.Sprintf(`{"t":"send","rid":"conv%d","conv":"%s","cmid":"k","body":"b"}`, i, text),
			fmt.Sprintf(`{"t":"send","rid":"type%d","conv":%q,"cmid":"k","body":"b","type":"t%s"}`, i, ab, text),
			fmt.Sprintf(`{"t":"sync","rid":"sync%d","conv":"c%s","after":0}`, i, text),
		} {
			mark := ana.Mark()
			if err := ana.Text(frame); err != nil {
				t.Fatal(err)
			}
			f := ana.await("an answer to "+frame, mark, func(rawclient.Frame) bool { return true })
			if f.Str("code") != "BAD_FRAME" {
				t.Errorf("%s: got %s, want BAD_FRAME", frame, f.Object)
			}
		}
	}
	if err := ana.Text("{\"t\":\"send\",\"conv\":\"c\",\"cmid\":\"k\",\"body\":\"a\x00b\"}"); err != nil {
		t.Fatal(err)
	}
	ana.await("BAD_FRAME", 0, func(f rawclient.Frame) bool { return f.Str("code") == "BAD_FRAME" && !f.Has("rid") })
	if f := ana.send(ab, "k", "good"); f.Int("seq") != 1 {
		t.Errorf("sent %s, want the first seq", f.Object)
	}
}

func TestInvalidUTF8ClosesWith1007(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	for name, bytes := range map[string]string{
		"a lone continuation": "\x80", "cut off": "\xc3", "overlong": "\xc0\xaf", "an encoded surrogate": "\xed\xa0\x80",
		"beyond the last": "\xf4\x90\x80\x80", "0xff": "\xff",
	} {
		c := w.online("ana", "phone")
		if err := c.Text(fmt.Sprintf(`{"t":"send","conv":%q,"cmid":"k","body":"%s"}`, ab, bytes)); err != nil {
			t.Fatal(err)
		}
		if code := c.ended(patience); code != 1007 {
			t.Errorf("%s: closed with %d, want 1007", name, code)
		}
	}
	if _, head := w.login("ben", "phone", nil).log(ab, 0); head != 0 {
		t.Errorf("head %d: a text that is no text was stored", head)
	}
}
