package blackbox

import (
	"fmt"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/rawclient"
)

func TestSendIsStoredAndPushed(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	sent := ana.send(ab, "k1", "hello")
	shaped(t, sent.Object, sentShape)
	if sent.Str("conv") != ab || sent.Int("seq") != 1 || sent.Bool("dup") || sent.Int("epoch") != ana.welcome.Int("epoch") {
		t.Errorf("sent %s", sent.Object)
	}
	if off := time.Since(time.UnixMilli(sent.Int("at"))).Abs(); off > time.Minute {
		t.Errorf("at is %v off", off)
	}
	f := ben.await("the push", 0, isEvent(ab, 1))
	shaped(t, f.Object, eventShape)
	ev := f.Obj("ev")
	shaped(t, ev, msgShape)
	want := rawclient.Event{
		Conv: ab, Seq: 1, Kind: "msg", Mid: sent.Str("mid"), Sender: w.user("ana"), CMID: "k1", Body: "hello", Type: "text",
		At: sent.Int("at"),
	}
	if got := rawclient.ParseEvent(ev); got != want {
		t.Errorf("pushed %+v\nwant %+v", got, want)
	}
	if f.Int("epoch") != sent.Int("epoch") {
		t.Errorf("the event's epoch is %d, sent's is %d", f.Int("epoch"), sent.Int("epoch"))
	}
}

func TestSendKeepsTypeAndExt(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	ext := `{"reply":1,"mentions":["u-ben"]}`
	raw := fmt.Sprintf(`{"t":"send","rid":"x","conv":%q,"cmid":"k","body":"b","type":"image/png","ext":%s}`, ab, ext)
	if err := ana.Text(raw); err != nil {
		t.Fatal(err)
	}
	ana.reply("x")
	ev := ben.event(ab, 1)
	if ev.Str("type") != "image/png" || string(ev["ext"]) != ext {
		t.Errorf("event %s, want type image/png and ext %s", ev, ext)
	}
	shaped(t, ev, msgShape)
}

// The sending connection gets no event for its message, but the user's other devices do.
func TestNoEventToTheSendingConnection(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	phone, tablet, ben := w.online("ana", "phone"), w.online("ana", "tablet"), w.online("ben", "phone")
	phone.send(ab, "k1", "mine")
	tablet.event(ab, 1)
	ben.send(ab, "k2", "his")
	phone.event(ab, 2)
	phone.none("its own message", 0, isEvent(ab, 1))
}

func TestMidsAreUniqueAndOrdered(t *testing.T) {
	w := onShared(t)
	ab, ac := w.conv("ab", "ana", "ben"), w.conv("ac", "ana", "cai")
	ana := w.online("ana", "phone")
	last := ""
	for i := range 20 {
		mid := ana.send([]string{ab, ac}[i%2], fmt.Sprint("k", i), "x").Str("mid")
		if mid <= last {
			t.Errorf("mid %q does not come after %q", mid, last)
		}
		last = mid
	}
}

func TestPipelinedSendsKeepTheirOrder(t *testing.T) {
	w := onShared(t)
	ab, ac := w.conv("ab", "ana", "ben"), w.conv("ac", "ana", "ben")
	ana := w.online("ana", "phone")
	const n = 200
	rids := map[string][]string{}
	for i := range n {
		conv := []string{ab, ac}[i%2]
		rids[conv] = append(rids[conv], ana.post(F{"t": "send", "conv": conv, "cmid": fmt.Sprint("k", i), "body": fmt.Sprint(i)}))
	}
	for conv, list := range rids {
		for i, rid := range list {
			if f := ana.reply(rid); f.T() != "sent" || f.Int("seq") != int64(i+1) {
				t.Fatalf("send %d of %s: %s, want seq %d", i, conv, f.Object, i+1)
			}
		}
	}
}

func TestResendIsADuplicate(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	phone, tablet := w.online("ana", "phone"), w.online("ana", "tablet")
	first := phone.send(ab, "k1", "once")
	for name, c := range map[string]*client{"the same connection": phone, "another device": tablet} {
		again := c.send(ab, "k1", "once")
		shaped(t, again.Object, sentShape)
		if !again.Bool("dup") || again.Int("seq") != 1 || again.Str("mid") != first.Str("mid") || again.Int("at") != first.Int("at") {
			t.Errorf("a resend from %s: %s, want dup and %s", name, again.Object, first.Object)
		}
	}
	if _, head := phone.log(ab, 0); head != 1 {
		t.Errorf("head %d after resends, want 1", head)
	}
	hits := 0.0
	for _, n := range w.nodes {
		count, _ := n.Metric(t, "im_dedup_hit_total", "")
		hits += count
	}
	if hits < 2 {
		t.Errorf("im_dedup_hit_total is %v, want 2 at least", hits)
	}
}

// A cmid belongs to its user, whatever another user calls theirs; keys that look alike when joined do not collide.
func TestCmidsOfUsersDoNotMeet(t *testing.T) {
	w := onShared(t)
	one, two := w.ns+":b", w.ns
	conv := w.convWith("x", F{"kind": "group", "members": []string{"u-" + one, "u-" + two}})
	c1, c2 := w.dial(), w.dial()
	c1.want("welcome", w.hello("", "phone", F{"token": "dev:u-" + one}))
	c2.want("welcome", w.hello("", "phone", F{"token": "dev:u-" + two}))
	pairs := []struct {
		c    *client
		cmid string
	}{{c1, "c"}, {c2, "b:c"}, {c2, "c"}, {c1, "b:c"}}
	for i, p := range pairs {
		if f := p.c.send(conv, p.cmid, "x"); f.Bool("dup") || f.Int("seq") != int64(i+1) {
			t.Errorf("cmid %q: %s, want a new message with seq %d", p.cmid, f.Object, i+1)
		}
	}
}

// Comparison is byte for byte: case, trailing spaces and Unicode forms make other ids.
func TestCmidsAreComparedByteForByte(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	for i, cmid := range []string{"key", "Key", "KEY", "key ", " key", "k ey", "ключ", "\u00e9", "e\u0301", "ß", "ss", "İ", "i", "%6b", "k%"} {
		if f := ana.send(ab, cmid, "same body"); f.Bool("dup") || f.Int("seq") != int64(i+1) {
			t.Errorf("cmid %q: %s, want a new message with seq %d", cmid, f.Object, i+1)
		}
	}
}

// The same (user, cmid) with any other component is refused, and nothing is stored or shown of the first.
func TestCmidReusedPerComponent(t *testing.T) {
	w := onShared(t)
	ab, ac, bc := w.conv("ab", "ana", "ben"), w.conv("ac", "ana", "cai"), w.conv("bc", "ben", "cai")
	ana := w.online("ana", "phone")
	send := func(with F) F {
		f := F{"t": "send", "conv": ab, "cmid": "k1", "body": "b", "type": "text"}
		for k, v := range with {
			f[k] = v
		}
		return f
	}
	ana.want("sent", send(F{"ext": F{"a": 1}}))
	ana.send(ab, "k2", "to be taken back")
	ana.want("sent", F{"t": "recall", "conv": ab, "seq": 2, "cmid": "k3"})
	for name, frame := range map[string]F{
		"body": send(F{"ext": F{"a": 1}, "body": "B"}), "trailing space": send(F{"ext": F{"a": 1}, "body": "b "}),
		"type": send(F{"ext": F{"a": 1}, "type": "text/plain"}), "ext": send(F{"ext": F{"a": 2}}), "no ext": send(nil),
		"conversation": send(F{"ext": F{"a": 1}, "conv": ac}), "a conversation of others": send(F{"ext": F{"a": 1}, "conv": bc}),
		"kind":                         {"t": "recall", "conv": ab, "seq": 1, "cmid": "k1"},
		"a recall's cmid as a send":    send(F{"cmid": "k3"}),
		"target":                       {"t": "recall", "conv": ab, "seq": 1, "cmid": "k3"},
		"a recall elsewhere":           {"t": "recall", "conv": ac, "seq": 2, "cmid": "k3"},
		"a body after it was recalled": send(F{"cmid": "k2", "body": "other"}),
	} {
		if f := ana.ask(frame); f.T() != "error" || f.Str("code") != "CMID_REUSED" {
			t.Errorf("%s: got %s, want CMID_REUSED", name, f.Object)
		} else {
			checkError(t, f.Object)
		}
	}
	if _, head := ana.log(ab, 0); head != 3 {
		t.Errorf("head %d, want 3", head)
	}
}

// ext is compared as the bytes that were sent.
func TestCmidReusedComparesExtBytes(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	ask := func(ext string) rawclient.Frame {
		ana.rids++
		rid := fmt.Sprint("x", ana.rids)
		if err := ana.Text(fmt.Sprintf(`{"t":"send","rid":%q,"conv":%q,"cmid":"k","body":"b","ext":%s}`, rid, ab, ext)); err != nil {
			t.Fatal(err)
		}
		return ana.reply(rid)
	}
	if f := ask(`{"a":1,"b":2}`); f.T() != "sent" {
		t.Fatalf("got %s", f.Object)
	}
	if f := ask(`{"a":1,"b":2}`); !f.Bool("dup") {
		t.Errorf("the same bytes: %s, want dup", f.Object)
	}
	for _, ext := range []string{`{"b":2,"a":1}`, `{"a":1, "b":2}`, `{"a":1.0,"b":2}`} {
		if f := ask(ext); f.Str("code") != "CMID_REUSED" {
			t.Errorf("ext %s: %s, want CMID_REUSED", ext, f.Object)
		}
	}
}

// The dedup look-up comes before every final refusal: a sender who has left since still learns that it was stored.
func TestResendAfterLeavingIsStillADuplicate(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	first := ana.send(ab, "k1", "stored")
	w.leave(ab, "ana")
	again := ana.send(ab, "k1", "stored")
	if !again.Bool("dup") || again.Int("seq") != 1 || again.Str("mid") != first.Str("mid") {
		t.Errorf("resend after leaving: %s, want the first answer", again.Object)
	}
	ana.refuse("NOT_MEMBER", F{"t": "send", "conv": ab, "cmid": "k2", "body": "new"})
	ana.refuse("CMID_REUSED", F{"t": "send", "conv": ab, "cmid": "k1", "body": "other"})
}

func TestSendNeedsAnOpenMembership(t *testing.T) {
	w := onShared(t)
	bc := w.conv("bc", "ben", "cai")
	ana := w.online("ana", "phone")
	ana.refuse("NOT_MEMBER", F{"t": "send", "conv": bc, "cmid": "k1", "body": "x"})
	ana.refuse("NOT_MEMBER", F{"t": "send", "conv": "c-none" + w.ns, "cmid": "k1", "body": "x"})
	w.join(bc, "ana")
	if f := ana.send(bc, "k1", "x"); f.Bool("dup") {
		t.Errorf("a refused send was remembered: %s", f.Object)
	}
}

func TestSendOfAnotherEpochIsRefused(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	epoch := ana.welcome.Int("epoch")
	for _, other := range []int64{epoch + 1, epoch - 1, 1 << 50} {
		f := ana.refuse("EPOCH_CHANGED", F{"t": "send", "conv": ab, "cmid": "k1", "body": "x", "epoch": other})
		if f.Int("epoch") != epoch {
			t.Errorf("error %s, want epoch %d", f.Object, epoch)
		}
	}
	ana.want("sent", F{"t": "send", "conv": ab, "cmid": "k1", "body": "x", "epoch": epoch})
}
