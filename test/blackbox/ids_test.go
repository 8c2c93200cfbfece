package blackbox

import (
	"net/url"
	"strings"
	"testing"
)

var badIDs = map[string]string{
	"empty": "", "129 bytes": strings.Repeat("x", 129), "65 characters of 2 bytes": strings.Repeat("é", 65), "a dot": ".", "two dots": "..",
	"NUL": "a\x00b", "newline": "a\nb", "tab": "a\tb", "ESC": "a\x1bb", "DEL": "a\x7fb", "C1": "a\u0085b", "last C1": "a\u009f",
}

var goodIDs = []string{
	"a", strings.Repeat("x", 128), strings.Repeat("é", 64), "with space", " leading", "trailing ", "...", ".a", "a/b", "a%2Fb", "a?b#c",
	"a:b", "%", "%00", "ключ", "🙂", "\u00e9", "e\u0301", "A", "\u202eright", "{\"t\":1}", "'; --", "<b>", "\\", "\u00a0", "+", "a&b=c",
}

func TestBadConversationIdsAreBadFrame(t *testing.T) {
	w := onShared(t)
	c := w.online("ana", "phone")
	for name, id := range badIDs {
		for _, frame := range []F{
			{"t": "send", "conv": id, "cmid": "k", "body": "b"}, {"t": "ack", "conv": id, "seq": 0}, {"t": "sync", "conv": id, "after": 0},
			{"t": "read", "conv": id, "seq": 0}, {"t": "recall", "conv": id, "seq": 1, "cmid": "k"}, {"t": "who", "conv": id, "seq": 1},
		} {
			if f := c.ask(frame); f.Str("code") != "BAD_FRAME" {
				t.Errorf("%v with an id that is %s: %s, want BAD_FRAME", frame["t"], name, f.Object)
			}
		}
	}
}

func TestBadCmidsAreBadFrame(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	c := w.online("ana", "phone")
	c.send(ab, strings.Repeat("k", 64), "64 bytes")
	c.send(ab, strings.Repeat("é", 32), "64 bytes")
	bad := map[string]string{"65 bytes": strings.Repeat("k", 65), "33 characters of 2 bytes": strings.Repeat("é", 33)}
	for name, id := range badIDs {
		if id != "." && id != ".." {
			bad[name] = id
		}
	}
	for name, cmid := range bad {
		for _, frame := range []F{
			{"t": "send", "conv": ab, "cmid": cmid, "body": "b"}, {"t": "recall", "conv": ab, "seq": 1, "cmid": cmid},
			{"t": "send", "conv": ab, "cmid": "good", "body": "b", "prev": cmid},
		} {
			if cmid == "" && frame["prev"] != nil {
				continue // no prev at all
			}
			if f := c.ask(frame); f.Str("code") != "BAD_FRAME" {
				t.Errorf("%v with a cmid that is %s: %s, want BAD_FRAME", frame["t"], name, f.Object)
			}
		}
	}
}

// type and rid have 1..64 bytes; the protocol counts what is longer as too large.
func TestTypeAndRidLengths(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	c := w.online("ana", "phone")
	c.want("sent", F{"t": "send", "conv": ab, "cmid": "k1", "body": "", "type": strings.Repeat("t", 64)})
	if f := c.ask(F{"t": "send", "conv": ab, "cmid": "k2", "body": "", "type": strings.Repeat("t", 65)}); f.Str("code") != "TOO_LARGE" {
		t.Errorf("type of 65 bytes: %s, want TOO_LARGE", f.Object)
	}
	if err := c.JSON(F{"t": "ping", "rid": strings.Repeat("r", 64)}); err != nil {
		t.Fatal(err)
	}
	c.reply(strings.Repeat("r", 64))
	mark := c.Mark()
	if err := c.JSON(F{"t": "ping", "rid": strings.Repeat("r", 65)}); err != nil {
		t.Fatal(err)
	}
	if f := c.await("an answer to a rid of 65 bytes", mark, isT("error")); f.Str("code") != "TOO_LARGE" {
		t.Errorf("rid of 65 bytes: %s, want TOO_LARGE", f.Object)
	}
}

// Any id of allowed characters works everywhere: as user, as device, as conversation, in frames and in URLs.
func TestDifficultIdsWork(t *testing.T) {
	w := onOwn(t)
	for i, id := range goodIDs {
		path := url.PathEscape(id)
		w.srv.Admin(t, "PUT", "users/"+path, F{})
		w.srv.Admin(t, "PUT", "conversations/"+path, F{"kind": "group", "members": []string{id, "u-peer"}})
		c := w.dial()
		c.user = id
		f := c.want("welcome", w.hello("", id, F{"token": "dev:" + id}))
		if f.Str("user") != id || f.Str("device") != id {
			t.Errorf("id %q came back as user %q, device %q", id, f.Str("user"), f.Str("device"))
		}
		sub := c.want("subbed", F{"t": "sub"})
		if l := sub.List("convs"); len(l) != 1 || l[0].Str("conv") != id {
			t.Errorf("id %d %q: subbed %s", i, id, sub.Object)
		}
		c.send(id, "k", "hello")
		c.ack(id, 1)
		if who := c.want("whos", F{"t": "who", "conv": id, "seq": 1}); who.List("users")[0].Str("user") != id && who.List("users")[1].Str("user") != id {
			t.Errorf("id %q: who %s", id, who.Object)
		}
		w.srv.Admin(t, "GET", "devices/"+path+"?user="+url.QueryEscape(id), nil)
		w.srv.Admin(t, "GET", "conversations/"+path+"/events/1/delivery", nil)
		w.srv.Admin(t, "PUT", "conversations/"+path+"/members/"+url.PathEscape("x/y %"), F{"role": "member"})
		w.srv.Admin(t, "DELETE", "conversations/"+path+"/members/"+url.PathEscape("x/y %"), nil)
	}
}

// Ids differ where their bytes differ: nobody else's conversation opens by another spelling.
func TestIdsAreComparedByteForByte(t *testing.T) {
	w := onShared(t)
	conv := w.conv("CaseÉ", "ana", "ben")
	c := w.online("ana", "phone")
	c.send(conv, "k", "x")
	for _, other := range []string{
		strings.ToLower(conv), strings.ToUpper(conv), conv + " ", " " + conv, strings.ReplaceAll(conv, "É", "E\u0301"), conv + "\u200b",
		url.PathEscape(conv),
	} {
		c.refuse("NOT_MEMBER", F{"t": "sync", "conv": other, "after": 0})
	}
	stranger := w.dial()
	stranger.want("welcome", w.hello("", "phone", F{"token": "dev:" + strings.ToUpper(w.user("ana"))}))
	stranger.refuse("NOT_MEMBER", F{"t": "sync", "conv": conv, "after": 0})
}

func TestAdminRefusesBadIds(t *testing.T) {
	w := onShared(t)
	for _, id := range []string{strings.Repeat("x", 129), "a\nb", "a\x7fb", "%2E%2E", "%2E"} {
		path := url.PathEscape(id)
		if strings.HasPrefix(id, "%2E") {
			path = id
		}
		for _, p := range []string{"users/" + path, "conversations/" + path} {
			r := w.srv.Request(t, "PUT", "/admin/v1/"+p, nil, F{"kind": "group", "members": []string{}})
			if r.Status < 300 || r.Status >= 500 {
				t.Errorf("PUT %s: %s, want a refusal", p, r)
			}
		}
	}
}
