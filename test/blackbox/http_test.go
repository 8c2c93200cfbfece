package blackbox

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/impart-im/impart/test/blackbox/impart"
)

// httpRefusal demands an error body and its status.
func httpRefusal(t testing.TB, what string, r impart.Response, status int, code string) {
	t.Helper()
	if r.Status != status || r.JSON.Str("code") != code {
		t.Errorf("%s: %s, want %d %s", what, r, status, code)
		return
	}
	shaped(t, r.JSON, "code:s+ message:s+ retry:b retry_after_ms:i? epoch:i? conv:s?")
	if r.JSON.Bool("retry") != retryable[code] {
		t.Errorf("%s: %s, want retry %v", what, r, retryable[code])
	}
	if got := r.Header.Get("Content-Type"); !strings.HasPrefix(got, "application/json") && !strings.HasPrefix(got, "application/problem+json") {
		t.Errorf("%s: content type %q, want JSON", what, got)
	}
}

func TestHTTPSend(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.online("ana", "tablet"), w.online("ben", "phone")
	req := F{"conv_id": ab, "client_msg_id": "k1", "text": "over HTTP"}
	first := w.api("ana", "send", req)
	if first.Status != 200 {
		t.Fatalf("send: %s", first)
	}
	shaped(t, first.JSON, "msg_id:s+ seq:i dup:b epoch:i")
	if first.JSON.Int("seq") != 1 || first.JSON.Bool("dup") {
		t.Errorf("send: %s, want seq 1", first)
	}
	for _, c := range []*client{ana, ben} {
		ev := c.event(ab, 1)
		shaped(t, ev, msgShape)
		if ev.Str("mid") != first.JSON.Str("msg_id") || ev.Str("body") != "over HTTP" || ev.Str("type") != "text" || ev.Str("cmid") != "k1" {
			t.Errorf("%s got %s", c.user, ev)
		}
	}
	again := w.api("ana", "send", req)
	if again.Status != 200 || !again.JSON.Bool("dup") || again.JSON.Str("msg_id") != first.JSON.Str("msg_id") || again.JSON.Int("seq") != 1 {
		t.Errorf("the same again: %s, want dup", again)
	}
	if f := ana.send(ab, "k1", "over HTTP"); !f.Bool("dup") {
		t.Errorf("the same over WebSocket: %s, want dup", f.Object)
	}
	rich := w.api("ana", "send", F{"conv_id": ab, "client_msg_id": "k2", "text": "", "type": "card", "ext": F{"a": 1}, "prev": "k1"})
	if rich.Status != 200 || rich.JSON.Int("seq") != 2 {
		t.Fatalf("send with type, ext and prev: %s", rich)
	}
	if ev := ben.event(ab, 2); ev.Str("type") != "card" || string(ev["ext"]) != `{"a":1}` {
		t.Errorf("event %s", ev)
	}
}

// A number as conv_id is read as its decimal text.
func TestHTTPSendWithANumberAsConversation(t *testing.T) {
	w := onOwn(t)
	w.srv.Admin(t, "PUT", "conversations/4711", F{"kind": "group", "members": w.users("ana", "ben")})
	ben := w.online("ben", "phone")
	for i, conv := range []string{"4711", `"4711"`} {
		r := w.api("ana", "send", fmt.Sprintf(`{"conv_id":%s,"client_msg_id":"k%d","text":"x"}`, conv, i))
		if r.Status != 200 || r.JSON.Int("seq") != int64(i+1) {
			t.Errorf("conv_id %s: %s", conv, r)
		}
	}
	ben.event("4711", 2)
}

func TestHTTPFrames(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone") // the device and its install are known from here on
	sent := ana.send(ab, "k1", "one")
	ana.send(ab, "k2", "two")
	without := func(shape string) string { return strings.NewReplacer("t:s+ ", "", "rid:s? ", "").Replace(shape) }
	ok := func(op string, body F, shape string) impart.Response {
		t.Helper()
		r := w.api("ana", op, body)
		if r.Status != 200 {
			t.Errorf("%s %v: %s", op, body, r)
			return r
		}
		shaped(t, r.JSON, without(shape))
		return r
	}
	if r := ok("sync", F{"conv": ab, "after": 0, "limit": 1}, syncedShape); r.JSON.Int("through") != 1 || !r.JSON.Bool("more") {
		t.Errorf("sync: %s", r)
	}
	ok("sync", F{"conv": ab, "before": 3}, historyShape)
	if r := ok("pull", F{"limit": 10}, pulledShape); len(r.JSON.List("convs")) != 1 || len(r.JSON.List("convs")[0].List("events")) != 2 {
		t.Errorf("pull: %s", r)
	}
	if r := ok("ack", F{"conv": ab, "seq": 1, "n": 1}, ackedShape); r.JSON.Int("delivered") != 1 {
		t.Errorf("ack: %s", r)
	}
	if r := ok("ack", F{"acks": []F{{"conv": ab, "seq": 2}, {"conv": "c-none" + w.ns, "seq": 1}}}, ackedNShape); len(r.JSON.List("acks")) != 2 {
		t.Errorf("ack: %s", r)
	}
	if r := ok("read", F{"conv": ab, "seq": 2}, readedShape); r.JSON.Int("read") != 2 {
		t.Errorf("read: %s", r)
	}
	if r := ok("who", F{"conv": ab, "seq": 1}, whosShape); len(r.JSON.List("users")) != 2 {
		t.Errorf("who: %s", r)
	}
	if r := ok("recall", F{"conv": ab, "seq": 1, "cmid": "r1", "mid": sent.Str("mid")}, sentShape); r.JSON.Int("seq") != 3 {
		t.Errorf("recall: %s", r)
	}
	if f := ana.ack(ab, 0); f.Int("delivered") != 2 {
		t.Errorf("the connection's cursor is %d, the ack over HTTP said 2", f.Int("delivered"))
	}
}

// Every error code that can be provoked, with its status.
func TestHTTPErrors(t *testing.T) {
	w := onShared(t)
	ab, bc := w.conv("ab", "ana", "ben"), w.conv("bc", "ben", "cai")
	ana := w.online("ana", "phone")
	ana.send(ab, "k1", "x")
	w.online("ben", "phone").send(ab, "k2", "y")
	send := func(conv, cmid, text string) F { return F{"conv_id": conv, "client_msg_id": cmid, "text": text} }
	prev := send(ab, "k4", "x")
	prev["prev"] = "not-stored"
	for _, tc := range []struct {
		op     string
		body   any
		status int
		code   string
	}{
		{"send", "not JSON", 400, "BAD_FRAME"}, {"send", "[]", 400, "BAD_FRAME"}, {"send", F{}, 400, "BAD_FRAME"}, {"send", "", 400, "BAD_FRAME"},
		{"send", send("..", "k", "x"), 400, "BAD_FRAME"}, {"send", send(ab, "a\nb", "x"), 400, "BAD_FRAME"},
		{"send", send(ab, "k", "a\x00b"), 400, "BAD_FRAME"}, {"send", `{"conv_id":"` + ab + `","client_msg_id":"k","text":"\ud800"}`, 400, "BAD_FRAME"},
		{"send", "{\"conv_id\":\"" + ab + "\",\"client_msg_id\":\"k\",\"text\":\"\xff\"}", 400, "BAD_FRAME"},
		{"sync", F{"conv": ab}, 400, "BAD_FRAME"}, {"sync", F{"conv": ab, "after": 0, "limit": 1001}, 400, "BAD_FRAME"}, {"pull", F{"limit": 0}, 400, "BAD_FRAME"},
		{"ack", F{"conv": ab, "seq": 3}, 400, "CURSOR_AHEAD"}, {"ack", F{"conv": ab, "seq": -1}, 400, "CURSOR_AHEAD"},
		{"read", F{"conv": ab, "seq": 3}, 400, "CURSOR_AHEAD"}, {"sync", F{"conv": ab, "after": 3}, 400, "CURSOR_AHEAD"}, {"recall", F{"conv": ab, "seq": 3, "cmid": "r"}, 400, "CURSOR_AHEAD"},
		{"send", send(bc, "k", "x"), 403, "NOT_MEMBER"}, {"sync", F{"conv": bc, "after": 0}, 403, "NOT_MEMBER"}, {"ack", F{"conv": bc, "seq": 0}, 403, "NOT_MEMBER"},
		{"read", F{"conv": "c-none" + w.ns, "seq": 0}, 403, "NOT_MEMBER"}, {"who", F{"conv": bc, "seq": 1}, 403, "NOT_MEMBER"}, {"recall", F{"conv": bc, "seq": 1, "cmid": "r"}, 403, "NOT_MEMBER"},
		{"recall", F{"conv": ab, "seq": 2, "cmid": "r"}, 403, "RECALL_REFUSED"},
		{"send", send(ab, "k1", "other"), 409, "CMID_REUSED"}, {"send", prev, 409, "OUT_OF_ORDER"}, {"ack", F{"conv": ab, "seq": 1, "epoch": 77}, 409, "EPOCH_CHANGED"},
		{"send", send(ab, "k5", strings.Repeat("x", 65537)), 413, "TOO_LARGE"},
		{"send", F{"conv_id": ab, "client_msg_id": "k6", "text": "", "ext": F{"a": strings.Repeat("x", 4096)}}, 413, "TOO_LARGE"},
	} {
		httpRefusal(t, tc.op+" "+brief(tc.body), w.api("ana", tc.op, tc.body), tc.status, tc.code)
	}
	if _, head := ana.log(ab, 0); head != 2 {
		t.Errorf("head %d, want 2: a refused request was stored", head)
	}
}

func TestHTTPAuthentication(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	body := F{"conv_id": ab, "client_msg_id": "k", "text": "x"}
	token := "dev:" + w.user("ana")
	for name, h := range map[string]http.Header{
		"nothing": {}, "another scheme": {"Authorization": {"Basic " + token}}, "no scheme": {"Authorization": {token}},
		"a bad token": {"Authorization": {"Bearer nonsense"}}, "an empty token": {"Authorization": {"Bearer "}}, "a cookie": {"Cookie": {"token=" + token}},
	} {
		h["Impart-Device"], h["Impart-Install"] = []string{"phone"}, []string{"i1"}
		httpRefusal(t, name, w.apiWith(h, "send", body), 401, "UNAUTHENTICATED")
	}
	noToken := http.Header{"Impart-Device": {"phone"}, "Impart-Install": {"i1"}}
	for _, query := range []string{"?token=" + token, "?access_token=" + token, "?authorization=Bearer%20" + token} {
		httpRefusal(t, "a token in the URL", w.apiWith(noToken, "send"+query, body), 401, "UNAUTHENTICATED")
	}
	if _, head := w.login("ben", "phone", nil).log(ab, 0); head != 0 {
		t.Errorf("head %d: a send without a token was stored", head)
	}
}

func TestHTTPMethods(t *testing.T) {
	w := onShared(t)
	h := w.bearer("ana", "phone", "i1")
	for _, op := range []string{"send", "ack", "sync", "pull", "read", "recall", "who"} {
		for _, method := range []string{"GET", "PUT", "DELETE", "PATCH"} {
			if r := w.srv.Request(t, method, "/api/msg/"+op, h, nil); r.Status != 405 && r.Status != 404 {
				t.Errorf("%s /api/msg/%s: %s, want 405", method, op, r)
			}
		}
	}
	if r := w.srv.Request(t, "POST", "/api/msg/nonsense", h, F{}); r.Status != 404 {
		t.Errorf("an unknown endpoint: %s, want 404", r)
	}
}

// A body over the frame limit is answered with 413 up to 4 MiB, as a frame is. Beyond that the server may stop reading,
// and a client that is still writing may see its connection reset instead of the answer.
func TestHTTPBodyOverTheFrameLimit(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	valid := fmt.Sprintf(`{"conv_id":%q,"client_msg_id":"k","text":"x"}`, ab)
	for _, size := range []int{1<<20 + 1, 3 << 20, 20 << 20} {
		body := valid + strings.Repeat(" ", size-len(valid))
		r, err := w.srv.TryRequest("POST", "/api/msg/send", w.bearer("ana", "phone", "i1"), body)
		switch {
		case size > 4<<20 && (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)):
			t.Logf("%d bytes: %v", size, err)
		case err != nil:
			t.Errorf("%d bytes: no answer: %v", size, err)
		default:
			httpRefusal(t, fmt.Sprint(size, " bytes"), r, 413, "TOO_LARGE")
		}
	}
	if r := w.api("ana", "send", valid+strings.Repeat(" ", 1<<20-len(valid))); r.Status != 200 || r.JSON.Bool("dup") {
		t.Errorf("a body of exactly the limit: %s, want 200 and a new message", r)
	}
}

// HTTP requests ignore unknown fields, as frames do.
func TestHTTPIgnoresUnknownFields(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	if r := w.api("ana", "send", F{"conv_id": ab, "client_msg_id": "k", "text": "x", "future": F{"a": 1}}); r.Status != 200 {
		t.Errorf("send: %s", r)
	}
}

func TestProbesAndMetrics(t *testing.T) {
	w := onShared(t)
	if r := w.srv.Request(t, "GET", "/readyz", nil, nil); r.Status != 200 {
		t.Errorf("/readyz: %s", r)
	}
	r := w.srv.Request(t, "GET", "/metrics", nil, nil)
	if r.Status != 200 || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/plain") {
		t.Errorf("/metrics: %d %s", r.Status, r.Header.Get("Content-Type"))
	}
	for _, name := range []string{"im_dedup_hit_total", "im_deliver_failed_total"} {
		if _, found := w.srv.Metric(t, name, ""); !found {
			t.Errorf("/metrics has no %s", name)
		}
	}
	if w.srv.Output() != "ready "+w.srv.URL() {
		t.Errorf("standard output is %q, want the ready line alone", w.srv.Output())
	}
}
