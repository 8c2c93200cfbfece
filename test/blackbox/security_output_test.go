package blackbox

// Kinds 14, 15, 19 and 20: what ends up in logs, pages and proxies.

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// CR, LF, ANSI, bidi and JSON in ids, bodies and headers: the log keeps one line for one record and no character that
// could move a reader's cursor.
func TestSecurity14_LogInjection(t *testing.T) {
	w := onOwn(t, "IM_LOG_LEVEL=debug")
	marker := "INJECTED"
	nasty := []string{
		"a\r\n" + marker + " level=ERROR", "a\n{\"level\":\"ERROR\",\"msg\":\"" + marker + "\"}", "\x1b[2J\x1b[31m" + marker, "\u202e" + marker + "\u2066",
		"\u2028" + marker, "\u0085" + marker, "\"} " + marker, marker + "\x00",
	}
	conv := w.conv("ab", "ana", "ben")
	c := w.online("ana", "phone")
	for i, text := range nasty {
		c.ask(F{"t": "send", "conv": conv, "cmid": fmt.Sprint("k", i), "body": text})
		c.ask(F{"t": "send", "conv": text, "cmid": text, "body": "x"})
		c.ask(F{"t": text})
		c.ask(F{"t": "send", "conv": conv, "cmid": fmt.Sprint("t", i), "body": "x", "type": text})
		mark := c.Mark()
		if err := c.JSON(F{"t": "ping", "rid": text}); err != nil {
			t.Fatal(err)
		}
		c.await("an answer", mark, func(rawclient.Frame) bool { return true })
		d := w.dial()
		d.ask(w.hello("ana", text, F{"token": "dev:" + text, "install": text}))
		d.Close()
		w.api("ana", "sync", F{"conv": text, "after": 0})
		path := strings.NewReplacer("\x00", "%00", "\r", "%0d", "\n", "%0a", " ", "%20", "\x1b", "%1b", "\"", "%22", "{", "%7b", "}", "%7d").Replace(text)
		if _, err := w.srv.TryRequest("GET", "/"+path, nil, nil); err != nil {
			t.Logf("a path of %q cannot be asked for: %v", text, err)
		}
		raw(t, w.srv.Addr(), "GET /v1/ws HTTP/1.1\r\nHost: "+w.srv.Addr()+"\r\nUser-Agent: "+strings.NewReplacer("\r", "", "\n", "").Replace(text)+"\r\nOrigin: http://"+marker+"\r\nConnection: close\r\n\r\n")
	}
	lines := strings.Split(strings.TrimRight(w.srv.Log(), "\n"), "\n")
	first := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, "serving") }) // a greeting may come before
	if first < 0 || len(lines) < first+20 {
		t.Fatalf("the log has %d lines: at level debug each HTTP request is worth one", len(lines))
	}
	shape := ""
	for _, line := range lines[first:] {
		for _, r := range line {
			if unicode.IsControl(r) && r != '\t' || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == '\u2028' || r == '\u2029' {
				t.Errorf("a log line holds %U: %q", r, line)
				break
			}
		}
		kind := "text"
		if json.Valid([]byte(line)) {
			kind = "JSON"
		} else if !strings.Contains(line, "msg=") && !strings.Contains(line, "level=") {
			kind = "neither"
		}
		if shape == "" {
			shape = kind
		}
		if kind != shape || kind == "neither" {
			t.Errorf("a log line is %s among lines of %s: %q", kind, shape, line)
		}
		var record struct{ Msg, Level string }
		if json.Unmarshal([]byte(line), &record) == nil && record.Msg == marker {
			t.Errorf("a forged record: %s", line)
		}
	}
}

// raw sends bytes over TCP and gives what comes back until the end or two seconds.
func raw(t testing.TB, address, request string) string {
	t.Helper()
	c, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, request); err != nil {
		return ""
	}
	answer, _ := io.ReadAll(c) // what came until the deadline is the answer
	return string(answer)
}

// Every page comes under a CSP that runs no inline script, and nothing a user wrote is ever served as HTML.
func TestSecurity15_PagesAndErrorTexts(t *testing.T) {
	w := onShared(t)
	script := "<script>alert(1)</script>"
	pages := 0
	for _, path := range []string{"/", "/index.html", "/demo", "/demo/", "/docs", "/openapi.json", "/nonsense/" + "%3Cscript%3E", "/readyz", "/healthz", "/metrics"} {
		r := w.srv.Request(t, "GET", path, nil, nil)
		if strings.Contains(strings.ToLower(r.Header.Get("Content-Type")), "html") {
			pages++
			csp := r.Header.Get("Content-Security-Policy")
			if csp == "" || strings.Contains(csp, "unsafe-inline") || strings.Contains(csp, "unsafe-eval") {
				t.Errorf("%s is HTML with the CSP %q", path, csp)
			}
			if !strings.Contains(csp, "frame-ancestors") && r.Header.Get("X-Frame-Options") == "" {
				t.Errorf("%s may be framed by anybody", path)
			}
		}
		if strings.Contains(string(r.Raw), "<script>alert") || strings.Contains(string(r.Raw), "%3Cscript") && r.Status == 200 {
			t.Errorf("%s answers with the script from its path", path)
		}
	}
	if pages == 0 {
		t.Error("none of these paths is a page: this test looks at nothing")
	}
	conv := w.conv("ab", "ana", "ben")
	for op, body := range map[string]any{
		"send": F{"conv_id": script, "client_msg_id": script, "text": script}, "sync": F{"conv": script, "after": script}, "who": script,
		"ack": F{"conv": conv, "seq": 99, "acks": script}, script: F{},
	} {
		r := w.srv.Request(t, "POST", "/api/msg/"+strings.NewReplacer("<", "%3C", ">", "%3E", "/", "%2F").Replace(op), w.bearer("ana", script, script), body)
		ct := r.Header.Get("Content-Type")
		if strings.Contains(ct, "html") || strings.Contains(string(r.Raw), script) && r.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: a script comes back as %q: %s", op, ct, r)
		}
	}
}

// A request inside another's body is never executed, and odd methods do not reach an operation by a side door.
func TestSecurity19_SmugglingAndMethods(t *testing.T) {
	w := onOwn(t)
	conv := w.conv("ab", "ana", "ben")
	addr := w.srv.Addr()
	hidden := fmt.Sprintf("PUT /admin/v1/users/u-smuggled HTTP/1.1\r\nHost: %s\r\nContent-Length: 2\r\n\r\n{}", addr)
	head := "POST /api/msg/pull HTTP/1.1\r\nHost: " + addr + "\r\nAuthorization: Bearer dev:" + w.user("ana") + "\r\nImpart-Device: d\r\nImpart-Install: i\r\nContent-Type: application/json\r\n"
	for name, request := range map[string]string{
		"CL and TE":          head + fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n%s", 5+len(hidden), hidden),
		"two CLs":            head + fmt.Sprintf("Content-Length: 2\r\nContent-Length: %d\r\n\r\n{}%s", 2+len(hidden), hidden),
		"TE with a tab":      head + fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n%s", 5+len(hidden), hidden),
		"TE of a name":       head + fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n%s", 5+len(hidden), hidden),
		"TE with a space":    head + fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n%s", 5+len(hidden), hidden),
		"a signed CL":        head + fmt.Sprintf("Content-Length: +2\r\n\r\n{}%s", hidden),
		"a bad chunk length": head + "Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n" + hidden,
		"a folded header":    head + "X-A: b\r\n Content-Length: 0\r\nContent-Length: 2\r\n\r\n{}",
	} {
		answer := raw(t, addr, request)
		if n := strings.Count(answer, "HTTP/1.1 "); n > 1 && !strings.Contains(answer, "HTTP/1.1 4") {
			t.Errorf("%s: the hidden request was executed: %q", name, answer)
		}
		if strings.Contains(answer, "u-smuggled") {
			t.Errorf("%s: the hidden request was answered: %q", name, answer)
		}
	}
	upgraded := raw(t, addr, "GET /v1/ws HTTP/1.1\r\nHost: "+addr+"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 777\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"+hidden)
	if strings.Contains(upgraded, " 101 ") || strings.Contains(upgraded, "u-smuggled") {
		t.Errorf("a failed upgrade lets a request through: %q", upgraded)
	}
	h := w.bearer("ana", "phone", "i1")
	body := F{"conv_id": conv, "client_msg_id": "k", "text": "x"}
	for _, header := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
		o := h.Clone()
		o.Set(header, "POST")
		if r := w.srv.Request(t, "GET", "/api/msg/send?_method=POST", o, body); r.Status/100 == 2 {
			t.Errorf("GET with %s: %s", header, r)
		}
	}
	for _, method := range []string{"POST", "PUT", "HEAD", "OPTIONS", "TRACE", "CONNECT"} {
		req := method + " /v1/ws HTTP/1.1\r\nHost: " + addr + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nContent-Length: 0\r\n\r\n"
		answer, err := http.ReadResponse(bufio.NewReader(strings.NewReader(raw(t, addr, req))), nil)
		if err == nil && (answer.StatusCode == 101 || answer.StatusCode/100 == 2 && method != "OPTIONS") {
			t.Errorf("%s on the WebSocket endpoint: %s", method, answer.Status)
		}
	}
	if _, head := w.login("ana", "phone", nil).log(conv, 0); head != 0 {
		t.Errorf("head %d: a side door stored a message", head)
	}
}

// Content types that a foreign page may send without asking (CSRF) do not reach an operation in dev login, where there is
// no secret a foreign page would lack.
func TestSecurity19_ForeignPagesInDevLogin(t *testing.T) {
	w := onOwn(t)
	for _, ct := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
		h := http.Header{"Content-Type": {ct}, "Origin": {"http://evil.example"}}
		if r := w.srv.Request(t, "POST", "/admin/v1/epoch", h, "{}"); r.Status/100 == 2 {
			t.Errorf("a foreign page raised the epoch with %s: %s", ct, r)
		}
	}
	for name, host := range map[string]string{"a rebound name": "evil.example", "a rebound name with port": "evil.example:80"} {
		answer := raw(t, w.srv.Addr(), "POST /admin/v1/epoch HTTP/1.1\r\nHost: "+host+"\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
		if strings.HasPrefix(answer, "HTTP/1.1 2") {
			t.Errorf("the admin API, open on loopback, answers to the host of %s (DNS rebinding): %.80q", name, answer)
		}
	}
}
