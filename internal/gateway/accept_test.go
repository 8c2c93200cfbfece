package gateway

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gobwas/ws"

	"github.com/impart-im/impart/internal/lab/pipe"
)

func TestHandshakesThatAreRefused(t *testing.T) {
	inWorld(t, func(c *Config) {
		c.MaxConns = 1
		c.Allow = func(r *http.Request) bool { return r.Header.Get("Origin") != "https://evil.example" }
	}, func(w *world) {
		answer := func(method, target, origin string) int {
			r := httptest.NewRequest(method, target, nil)
			r.Header.Set("Origin", origin)
			rec := httptest.NewRecorder()
			w.g.ServeHTTP(rec, r)
			if rec.Code == http.StatusServiceUnavailable && (rec.Header().Get("Connection") != "close" || rec.Header().Get("Retry-After") == "") {
				t.Errorf("no room, and %v: want the end of the connection, and when to come back", rec.Header())
			}
			return rec.Code
		}
		wants := func(what string, got, want int) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %d, want %d", what, got, want)
			}
		}
		wants("another method", answer("POST", "/v1/ws", ""), http.StatusMethodNotAllowed)
		wants("a token in the address", answer("GET", "/v1/ws?Token=x", ""), http.StatusBadRequest)
		wants("another origin", answer("GET", "/v1/ws", "https://evil.example"), http.StatusForbidden)
		if code := answer("GET", "/v1/ws", ""); code < 400 {
			t.Errorf("no upgrade: %d", code)
		}
		wants("none of them is counted", w.g.Connections(), 0)
		w.connect("u-ana", "d")
		wants("one too many", answer("GET", "/v1/ws", ""), http.StatusServiceUnavailable)
		wants("and it is not counted", w.g.Connections(), 1)
		must(w.t, w.g.Drain(w.t.Context()))
		wants("a drain", answer("GET", "/v1/ws", ""), http.StatusServiceUnavailable)
	})
}

// handshake writes a handshake with a subprotocol and what else the client sends
// with it, and reads up to the frames of the server.
func (w *world) handshake(subprotocol string, more []byte) *client {
	w.t.Helper()
	listener := pipe.Listen("gateway")
	server := &http.Server{Handler: w.g}
	go func() { _ = server.Serve(listener) }()
	w.t.Cleanup(func() { _ = listener.Close() })
	nc, err := listener.Dial(w.t.Context())
	must(w.t, err)
	w.t.Cleanup(func() { _ = nc.Close() })
	cl := &client{w: w, nc: nc, gate: make(chan struct{}, 1), done: make(chan struct{})}
	cl.gate <- struct{}{}
	go func() {
		request := "GET /v1/ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
		if subprotocol != "" {
			request += "Sec-WebSocket-Protocol: " + subprotocol + "\r\n"
		}
		_, _ = nc.Write(append([]byte(request+"\r\n"), more...))
	}()
	var head []byte
	for !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		var b [1]byte
		if _, err := io.ReadFull(nc, b[:]); err != nil {
			w.t.Fatalf("after %q: %v", head, err)
		}
		head = append(head, b[0])
	}
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 101 ")) {
		w.t.Fatalf("the handshake was answered with %q", head)
	}
	go cl.read()
	return cl
}

// A client may send its hello together with the handshake, and need not name the
// subprotocol.
func TestAHelloMayComeWithTheHandshake(t *testing.T) {
	hello := ws.MustCompileFrame(ws.MaskFrame(ws.NewTextFrame([]byte(`{"t":"hello","token":"dev:u-ana","device":"d","proto":1}`))))
	for _, subprotocol := range []string{"", "chat, impart.v1.json"} {
		for _, n := range []int{0, 7, len(hello)} { // all of it, some of it, or nothing
			inWorld(t, nil, func(w *world) {
				cl := w.handshake(subprotocol, hello[:n])
				_, err := cl.nc.Write(hello[n:])
				must(w.t, err)
				cl.wants("welcome")
				if w.g.Connections() != 1 {
					t.Errorf("%d connections", w.g.Connections())
				}
			})
		}
	}
}

func TestAnotherSubprotocolIsTurnedAway(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		cl := w.handshake("impart.v9.json", nil)
		cl.closedWithin(time.Second)
		if cl.status != ws.StatusProtocolError {
			t.Errorf("closed with %d", cl.status)
		}
	})
}
