package api

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/impart-im/impart"
)

// listen serves w over a real socket.
func (w *world) listen() *httptest.Server {
	w.t.Helper()
	srv := httptest.NewUnstartedServer(w.server)
	srv.Config.ErrorLog = log.New(w.log, "", 0)
	srv.Start()
	w.t.Cleanup(srv.Close)
	return srv
}

// raw writes text as it is and reads what comes back until the server closes.
func raw(t *testing.T, srv *httptest.Server, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(conn) // a reset is an end too
	return string(got)
}

func head(srv *httptest.Server, lines ...string) string {
	return "POST /api/msg/send HTTP/1.1\r\nHost: " + srv.Listener.Addr().String() + "\r\nAuthorization: Bearer dev:u-ana\r\n" +
		"Content-Type: application/json\r\n" + strings.Join(append(lines, "\r\n"), "\r\n")
}

// What two parsers could read in two ways is refused, or read in one way and the
// connection closed: no request hides in another's body.
func TestNoRequestIsSmuggledInAnother(t *testing.T) {
	hidden := func(srv *httptest.Server) string {
		const body = `{"conv_id":"c","client_msg_id":"hidden","text":"x"}`
		return head(srv, fmt.Sprintf("Content-Length: %d", len(body)), "Connection: close") + body
	}
	const body = `{"conv_id":"c","client_msg_id":"shown","text":"x"}`
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	for name, text := range map[string]func(srv *httptest.Server) string{
		"two lengths": func(srv *httptest.Server) string {
			return head(srv, fmt.Sprintf("Content-Length: %d", len(body)), "Content-Length: 5") + body
		},
		"two lengths in one": func(srv *httptest.Server) string {
			return head(srv, fmt.Sprintf("Content-Length: %d, 5", len(body))) + body
		},
		"a length with a sign": func(srv *httptest.Server) string {
			return head(srv, fmt.Sprintf("Content-Length: +%d", len(body))) + body
		},
		"an unknown coding": func(srv *httptest.Server) string {
			return head(srv, "Transfer-Encoding: xchunked", "Content-Length: 4") + chunked
		},
		"chunked twice": func(srv *httptest.Server) string {
			return head(srv, "Transfer-Encoding: chunked", "Transfer-Encoding: identity") + chunked
		},
		"a space before the colon": func(srv *httptest.Server) string {
			return head(srv, "Transfer-Encoding : chunked", "Content-Length: 4") + chunked
		},
		"a control byte in a value": func(srv *httptest.Server) string {
			return head(srv, "Transfer-Encoding: \x0bchunked", "Content-Length: 4") + chunked
		},
		"a chunk that lies": func(srv *httptest.Server) string {
			return head(srv, "Transfer-Encoding: chunked") + "5\r\n" + body + "\r\n0\r\n\r\n"
		},
		"two hosts": func(srv *httptest.Server) string {
			return head(srv, "Host: evil.example", fmt.Sprintf("Content-Length: %d", len(body))) + body
		},
	} {
		t.Run(name, func(t *testing.T) {
			rules := &fake{}
			srv := newFake(t, rules, nil).listen()
			got := raw(t, srv, text(srv)+hidden(srv))
			if len(rules.sends) > 0 {
				t.Errorf("sent %v; answers:\n%s", rules.sends, got)
			}
			if !strings.HasPrefix(got, "HTTP/1.1 4") && !strings.HasPrefix(got, "HTTP/1.1 5") {
				t.Errorf("answered %q", got)
			}
		})
	}
	// RFC 9112 6.3 lets chunked win over a length, and 5.2 a folded line stand for one line.
	for name, lines := range map[string][]string{
		"length and chunked": {"Content-Length: 4", "Transfer-Encoding: chunked"}, "a folded header": {"Transfer-Encoding:", " chunked", "Content-Length: 4"},
	} {
		t.Run(name, func(t *testing.T) {
			rules := &fake{}
			srv := newFake(t, rules, nil).listen()
			got := raw(t, srv, head(srv, append(lines, "Connection: close")...)+chunked+hidden(srv))
			if len(rules.sends) != 1 || rules.sends[0].CMID != "shown" || strings.Count(got, "HTTP/1.1 ") != 1 {
				t.Errorf("sent %v; answers:\n%s", rules.sends, got)
			}
		})
	}
	t.Run("an address for another host", func(t *testing.T) {
		rules := &fake{}
		srv := newFake(t, rules, nil).listen()
		text := strings.Replace(head(srv, fmt.Sprintf("Content-Length: %d", len(body)), "Connection: close")+body, "POST /", "POST http://evil.example/", 1)
		if got := raw(t, srv, text); !strings.HasPrefix(got, "HTTP/1.1 403") || len(rules.sends) > 0 {
			t.Errorf("sent %v; answers:\n%s", rules.sends, got)
		}
	})
}

// A body that does not come does not hold the handler.
func TestABodyThatStallsIsGivenUp(t *testing.T) {
	rules := &fake{}
	srv := newFake(t, rules, func(c *Config) { c.Timeout = 50 * time.Millisecond }).listen()
	got := raw(t, srv, head(srv, "Content-Length: 1000")+`{"conv_id":`)
	if !strings.HasPrefix(got, "HTTP/1.1 400") || !strings.Contains(got, string(impart.BadFrame)) || len(rules.sends) > 0 {
		t.Errorf("answered %q, sent %v", got, rules.sends)
	}
}

// The gateway gets the connection itself, not something wrapped around it.
func TestTheGatewayTakesTheConnectionOver(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.Gateway = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			hijacker, ok := w.(http.Hijacker)
			if !ok {
				http.Error(w, "no way to take the connection over", http.StatusInternalServerError)
				return
			}
			conn, _, err := hijacker.Hijack()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: test\r\nConnection: Upgrade\r\n\r\nhello")
			_ = conn.Close()
		})
	})
	srv := w.listen()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprintf(conn, "GET /v1/ws HTTP/1.1\r\nHost: %s\r\nUpgrade: test\r\nConnection: Upgrade\r\n\r\n", srv.Listener.Addr())
	buffered := bufio.NewReader(conn)
	resp, err := http.ReadResponse(buffered, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v %v", resp, err)
	}
	if rest, _ := io.ReadAll(buffered); string(rest) != "hello" {
		t.Errorf("got %q", rest)
	}
	w.do("POST", "/v1/ws", "").wants(http.StatusMethodNotAllowed)
	w.do("GET", "/v1/ws?token=dev:u-ana", "").fails(impart.Unauthenticated)
	w.do("GET", "/v1/ws", "", header("Origin", "null")).wants(http.StatusForbidden)
	newWorld(t, nil).do("GET", "/v1/ws", "").fails(impart.NotFound)
}

// Whatever stands in ids, bodies and headers: one request is one line, without
// anything that a terminal would act on.
func TestOneRequestIsOneLogLine(t *testing.T) {
	rules := &fake{err: fmt.Errorf("store: %q\nlevel=ERROR msg=forged \x1b[31m\u202e", "x")}
	w := newFake(t, rules, nil)
	hostile := "a\u202eb\u2066{\"level\":\"ERROR\"}"
	w.api("send", `{"conv_id":`+jsonText(t, hostile)+`,"client_msg_id":"m","text":"\r\nlevel=ERROR msg=forged"}`, as("u-ana"), header("User-Agent", hostile))
	w.do("GET", "/admin/v1/users/%0d%0alevel=ERROR%20msg=forged%1b%5b31m", "")
	w.do("GET", "/x%0d%0alevel=ERROR", "")
	w.api("sync", `{"conv":"\u001b[31m","after":0}`, as("u-ana"))
	seen := w.log.String()
	if lines := strings.Count(seen, "\n"); lines != 5 { // four requests, and the cause of the one that failed
		t.Errorf("%d lines:\n%s", lines, seen)
	}
	for _, r := range seen {
		if r == 0x1b || r == 0x202e || r == 0x2066 {
			t.Errorf("%U in the log:\n%q", r, seen)
			break
		}
	}
	for line := range strings.Lines(seen) {
		if !strings.HasPrefix(line, "time=") {
			t.Errorf("a forged line: %s", line)
		}
	}
}

// Half an answer must not be taken for a whole one.
func TestAPanicInMidAnswerCutsTheConnection(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.Web = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/half" {
				_, _ = io.WriteString(w, "half of ")
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Error(err)
				}
			}
			panic("in the middle")
		})
	})
	srv := w.listen()
	ask := func(path string) string {
		return raw(t, srv, "GET "+path+" HTTP/1.1\r\nHost: "+srv.Listener.Addr().String()+"\r\nConnection: close\r\n\r\n")
	}
	if got := ask("/half"); !strings.Contains(got, "half of ") || strings.HasSuffix(got, "\r\n0\r\n\r\n") {
		t.Errorf("not half an answer that looks like one: %q", got)
	}
	if got := ask("/nothing"); !strings.HasPrefix(got, "HTTP/1.1 500") || strings.Contains(got, "in the middle") {
		t.Errorf("answered %q", got)
	}
	if lines := strings.Count(w.log.String(), "panicked"); lines != 2 {
		t.Errorf("%d lines for two panics:\n%s", lines, w.log)
	}
}
