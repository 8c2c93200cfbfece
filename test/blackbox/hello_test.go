package blackbox

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/rawclient"
)

func TestHelloIsWelcomed(t *testing.T) {
	w := onShared(t)
	c := w.dial()
	f := c.want("welcome", w.hello("ana", "phone", F{"n": 7}))
	shaped(t, f.Object, welcomeShape)
	shaped(t, f.Obj("limits"), limitsShape)
	limits := f.Obj("limits")
	if limits.Int("body") != 65536 || limits.Int("frame") != 1<<20 || limits.Int("inflight") != 1024 {
		t.Errorf("limits %s, want the defaults of the protocol", limits)
	}
	if limits.Int("ack_every") < 1 || limits.Int("heartbeat_ms") < 1 {
		t.Errorf("limits %s, want ack_every and heartbeat_ms above 0", limits)
	}
	if f.Str("user") != w.user("ana") || f.Str("device") != "phone" || f.Int("install_epoch") != 1 || f.Int("n") != 7 {
		t.Errorf("welcome %s, want this user, this device, install epoch 1 and n 7", f.Object)
	}
	if off := time.Since(time.UnixMilli(f.Int("now"))).Abs(); off > time.Minute {
		t.Errorf("welcome says now is %d, %v off", f.Int("now"), off)
	}
	if f.Int("epoch") < 1 {
		t.Errorf("epoch %d, want 1 or more", f.Int("epoch"))
	}
}

func TestHelloWithoutRidAndN(t *testing.T) {
	w := onShared(t)
	c := w.dial()
	if err := c.JSON(w.hello("ana", "phone", nil)); err != nil {
		t.Fatal(err)
	}
	f := c.await("welcome", 0, isT("welcome"))
	shaped(t, f.Object, welcomeShape)
	if f.Has("rid") || f.Int("n") != 0 {
		t.Errorf("welcome %s, want no rid and n 0", f.Object)
	}
}

func TestHelloIgnoresUnknownFields(t *testing.T) {
	w := onShared(t)
	w.login("ana", "phone", F{"future": F{"a": []int{1}}, "features": []string{"x-unknown"}})
}

func TestHelloConnectionsHaveTheirOwnName(t *testing.T) {
	w := onShared(t)
	one, two := w.login("ana", "phone", nil), w.login("ana", "tablet", nil)
	if one.welcome.Str("conn") == two.welcome.Str("conn") {
		t.Errorf("two connections are both called %q", one.welcome.Str("conn"))
	}
}

func TestSubprotocolIsNegotiated(t *testing.T) {
	w := onShared(t)
	s, err := rawclient.DialSocket(w.srv.Addr(), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := s.Response.Header.Get("Sec-WebSocket-Protocol"); got != rawclient.Subprotocol {
		t.Errorf("subprotocol %q, want %q", got, rawclient.Subprotocol)
	}
}

// Before hello nothing is answered but with UNAUTHENTICATED, and the connection ends.
func TestNothingBeforeHello(t *testing.T) {
	w := onShared(t)
	conv := w.conv("ab", "ana", "ben")
	for _, frame := range []F{
		{"t": "sub"}, {"t": "send", "conv": conv, "cmid": "k", "body": "b"}, {"t": "ack", "conv": conv, "seq": 0},
		{"t": "ack", "acks": []F{{"conv": conv, "seq": 0}}}, {"t": "sync", "conv": conv, "after": 0}, {"t": "pull"},
		{"t": "convs"}, {"t": "read", "conv": conv, "seq": 0}, {"t": "recall", "conv": conv, "seq": 1, "cmid": "k"},
		{"t": "who", "conv": conv, "seq": 1}, {"t": "ping"},
	} {
		c := w.dial()
		c.refuse("UNAUTHENTICATED", frame)
		c.ended(5 * time.Second)
	}
	if _, head := w.login("ana", "phone", nil).log(conv, 0); head != 0 {
		t.Errorf("a send before hello was stored: head %d", head)
	}
}

func TestBadTokensAreUnauthenticated(t *testing.T) {
	w := onShared(t)
	for name, token := range map[string]any{
		"none": nil, "empty": "", "not a token": "u-ana", "no user": "dev:", "a user that is no id": "dev:a\nb",
		"too long": "dev:" + strings.Repeat("x", 129), "a dot": "dev:.", "two dots": "dev:..",
	} {
		c := w.dial()
		f := c.ask(w.hello("ana", "phone", F{"token": token}))
		if f.T() != "error" || f.Str("code") != "UNAUTHENTICATED" && f.Str("code") != "BAD_FRAME" {
			t.Errorf("token %s: got %s", name, f.Object)
			continue
		}
		checkError(t, f.Object)
		if f.Str("code") == "UNAUTHENTICATED" {
			c.ended(5 * time.Second)
		}
	}
}

func TestSecondHelloIsBadFrame(t *testing.T) {
	w := onShared(t)
	c := w.login("ana", "phone", nil)
	c.refuse("BAD_FRAME", w.hello("ana", "phone", nil))
	c.refuse("BAD_FRAME", w.hello("ben", "tablet", nil))
	if f := c.want("subbed", F{"t": "sub"}); f.T() != "subbed" {
		t.Error("the connection does not go on")
	}
}

func TestAnotherProtoIsBadFrame(t *testing.T) {
	w := onShared(t)
	c := w.dial()
	for _, proto := range []any{0, 2, -1, "1", 1.5} {
		c.refuse("BAD_FRAME", w.hello("ana", "phone", F{"proto": proto}))
	}
	c.want("welcome", w.hello("ana", "phone", nil)) // errors never close a connection
}

func TestHelloDemandsADeviceId(t *testing.T) {
	w := onShared(t)
	c := w.dial()
	for _, device := range []any{nil, "", 5, strings.Repeat("d", 129), ".", "..", "a\x00b", "a\nb", "a\u0085b", "a\x7fb"} {
		c.refuse("BAD_FRAME", w.hello("ana", "phone", F{"device": device}))
	}
	c.want("welcome", w.hello("ana", strings.Repeat("d", 128), nil))
}

// The hello must come within 10 s of the upgrade: no sooner is the connection ended, and not much later.
func TestHelloTimesOut(t *testing.T) {
	w := onShared(t)
	began := time.Now()
	c := w.dial()
	c.ended(20 * time.Second)
	if took := time.Since(began); took < 9*time.Second || took > 15*time.Second {
		t.Errorf("a silent connection was ended after %v, want about 10 s", took)
	}
}

func TestEveryReplyEchoesItsRid(t *testing.T) {
	w := onShared(t)
	conv := w.conv("ab", "ana", "ben")
	c := w.online("ana", "phone")
	c.send(conv, "k1", "one")
	for kind, frame := range map[string]F{
		"acked": {"t": "ack", "conv": conv, "seq": 1}, "synced": {"t": "sync", "conv": conv, "after": 0}, "pulled": {"t": "pull"},
		"convs": {"t": "convs"}, "readed": {"t": "read", "conv": conv, "seq": 1}, "whos": {"t": "who", "conv": conv, "seq": 1},
		"pong": {"t": "ping"}, "sent": {"t": "send", "conv": conv, "cmid": "k2", "body": ""},
	} {
		frame["rid"] = "☂ " + kind + strings.Repeat("x", 60-len(kind)) // 64 bytes
		if err := c.JSON(frame); err != nil {
			t.Fatal(err)
		}
		if f := c.reply(frame["rid"].(string)); f.T() != kind {
			t.Errorf("%v: got %s, want %s", frame, f.Object, kind)
		}
	}
}

func TestRidIsOptional(t *testing.T) {
	w := onShared(t)
	conv := w.conv("ab", "ana", "ben")
	c := w.online("ana", "phone")
	for kind, frame := range map[string]F{
		"sent": {"t": "send", "conv": conv, "cmid": "k1", "body": "x"}, "acked": {"t": "ack", "conv": conv, "seq": 0},
		"synced": {"t": "sync", "conv": conv, "after": 0}, "pulled": {"t": "pull"}, "convs": {"t": "convs"}, "pong": {"t": "ping"},
		"readed": {"t": "read", "conv": conv, "seq": 0}, "error": {"t": "no-such-frame"},
	} {
		mark := c.Mark()
		if err := c.JSON(frame); err != nil {
			t.Fatal(err)
		}
		if f := c.await(kind, mark, isT(kind)); f.Has("rid") {
			t.Errorf("%s answers a request without rid with one: %s", kind, f.Object)
		}
	}
}

func TestPing(t *testing.T) {
	w := onShared(t)
	c := w.login("ana", "phone", nil)
	shaped(t, c.want("pong", F{"t": "ping"}).Object, pongShape)
	for range 3 {
		c.alive()
	}
}

func TestUnreadableFramesAreBadFrame(t *testing.T) {
	w := onShared(t)
	conv := w.conv("ab", "ana", "ben")
	c := w.online("ana", "phone")
	for name, raw := range map[string]string{
		"empty": "", "words": "hello", "a number": "7", "a string": `"ping"`, "a list": `[{"t":"ping"}]`, "null": "null",
		"cut off": `{"t":"ping"`, "trailing": `{"t":"ping"} x`, "two objects": `{"t":"ping"}{"t":"ping"}`, "no t": `{"rid":"a"}`,
		"t is a number": `{"t":1}`, "t is null": `{"t":null}`, "unknown t": `{"t":"nonsense"}`, "t in other case": `{"t":"PING"}`,
		"server's frame": `{"t":"welcome"}`, "reserved": `{"t":"edit","conv":"c"}`, "rid is a number": `{"t":"ping","rid":1}`,
		"conv is a list": `{"t":"sync","conv":["c"],"after":0}`, "a raw control character": "{\"t\":\"ping\",\"rid\":\"a\nb\"}",
		"body is a number": fmt.Sprintf(`{"t":"send","conv":%q,"cmid":"k","body":1}`, conv),
		"body is null":     fmt.Sprintf(`{"t":"send","conv":%q,"cmid":"k","body":null}`, conv),
		"body is absent":   fmt.Sprintf(`{"t":"send","conv":%q,"cmid":"k"}`, conv),
		"ext is a list":    fmt.Sprintf(`{"t":"send","conv":%q,"cmid":"k","body":"","ext":[1]}`, conv),
		"ext is a string":  fmt.Sprintf(`{"t":"send","conv":%q,"cmid":"k","body":"","ext":"{}"}`, conv),
		"seq is a string":  fmt.Sprintf(`{"t":"ack","conv":%q,"seq":"0"}`, conv),
		"seq is a half":    fmt.Sprintf(`{"t":"ack","conv":%q,"seq":0.5}`, conv),
		"seq is absent":    fmt.Sprintf(`{"t":"ack","conv":%q}`, conv),
		"acks is a string": `{"t":"ack","acks":"all"}`, "acks of numbers": `{"t":"ack","acks":[1]}`,
		"conv is absent": `{"t":"send","cmid":"k","body":"x"}`, "cmid is absent": fmt.Sprintf(`{"t":"send","conv":%q,"body":"x"}`, conv),
	} {
		mark := c.Mark()
		if err := c.Text(raw); err != nil {
			t.Fatal(err)
		}
		f := c.await("an answer to "+name, mark, func(rawclient.Frame) bool { return true })
		if f.T() != "error" || f.Str("code") != "BAD_FRAME" {
			t.Errorf("%s: got %s, want BAD_FRAME", name, f.Object)
			continue
		}
		checkError(t, f.Object)
	}
	if _, head := c.log(conv, 0); head != 0 {
		t.Errorf("one of the unreadable frames was stored: head %d", head)
	}
}

func TestErrorEchoesAReadableRid(t *testing.T) {
	w := onShared(t)
	c := w.online("ana", "phone")
	c.refuse("BAD_FRAME", F{"t": "no-such-frame"})
	c.refuse("BAD_FRAME", F{"t": "sync", "conv": 5, "after": 0})
}
