package blackbox

// Kinds 10 to 12 and 22: frames and crowds that are made to exhaust the server.

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/impart"
	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// allowance is how much resident memory an attack may cost at its peak.
const allowance = 150 << 20

// bounded runs an attack on a server of its own and demands that memory stays bounded and that others are served.
func bounded(t *testing.T, env []string, attack func(w *world)) {
	t.Helper()
	w := onOwn(t, env...)
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	ana.send(ab, "before", "x")
	base := w.srv.RSS(t)
	attack(w)
	if peak := w.srv.PeakRSS(t); peak > base+allowance {
		t.Errorf("memory rose from %d to %d MiB", base>>20, peak>>20)
	}
	ana.send(ab, "after", "x")
	w.online("ben", "phone").alive()
}

// socket is a logged-in connection by hand.
func (w *world) socket(name string) *rawclient.Socket {
	w.t.Helper()
	s, err := rawclient.DialSocket(w.srv.Addr(), nil, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { s.Close() })
	if err := s.Text(mustJSON(w.t, w.hello(name, "socket", nil))); err != nil {
		w.t.Fatal(err)
	}
	if f, err := s.ReadFrame(patience); err != nil || !strings.Contains(string(f.Payload), `"welcome"`) {
		w.t.Fatalf("hello by hand: %s %v", f.Payload, err)
	}
	return s
}

// closes demands that the server ends a connection by hand with one of these codes; -1 is a plain end.
func (w *world) closes(what string, s *rawclient.Socket, codes ...int) {
	w.t.Helper()
	got, err := s.AwaitEnd(patience)
	if err != nil {
		w.t.Errorf("%s: %v", what, err)
		return
	}
	for _, code := range codes {
		if got == code {
			return
		}
	}
	w.t.Errorf("%s closed with %d, want %v", what, got, codes)
}

func TestSecurity10_LyingLengths(t *testing.T) {
	bounded(t, nil, func(w *world) {
		for name, claimed := range map[string]uint64{"4 MiB and a byte": 4<<20 + 1, "1 GiB": 1 << 30, "most": 1<<63 - 1, "a negative number": 1 << 63, "all bits": 1<<64 - 1} {
			s := w.socket("ana")
			if err := s.Lie(0x80|rawclient.OpText, claimed, []byte("x")); err != nil {
				t.Fatal(err)
			}
			w.closes(name, s, 1009, 1002, -1)
		}
		for i := range 40 { // claims that are allowed, and never kept
			s := w.socket(fmt.Sprint("liar", i))
			if err := s.Lie(0x80|rawclient.OpText, 4<<20, []byte("{")); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestSecurity10_Fragments(t *testing.T) {
	bounded(t, nil, func(w *world) {
		s := w.socket("ana") // a message in single bytes is a message
		text := `{"t":"ping","rid":"p"}`
		for i := range len(text) {
			first := byte(rawclient.OpContinuation)
			if i == 0 {
				first = rawclient.OpText
			}
			if i == len(text)-1 {
				first |= 0x80
			}
			if err := s.Frame(first, []byte{text[i]}); err != nil {
				t.Fatal(err)
			}
		}
		if f, err := s.ReadFrame(patience); err != nil || !strings.Contains(string(f.Payload), `"pong"`) {
			t.Fatalf("a fragmented ping: %s %v", f.Payload, err)
		}
		endless := w.socket("ben") // fragments that never end
		if err := endless.Frame(rawclient.OpText, []byte("{")); err != nil {
			t.Fatal(err)
		}
		chunk := bytes.Repeat([]byte(" "), 64<<10)
		for range 80 { // 5 MiB
			if endless.Frame(rawclient.OpContinuation, chunk) != nil {
				break
			}
		}
		w.closes("5 MiB in fragments", endless, 1009, -1)
		empty := w.socket("cai") // fragments of nothing
		if err := empty.Frame(rawclient.OpText, nil); err != nil {
			t.Fatal(err)
		}
		for range 20_000 {
			if empty.Frame(rawclient.OpContinuation, nil) != nil {
				break
			}
		}
	})
}

func TestSecurity10_BrokenFraming(t *testing.T) {
	bounded(t, nil, func(w *world) {
		ping := `{"t":"ping"}`
		for name, attack := range map[string]func(*rawclient.Socket) error{
			"no mask":                 func(s *rawclient.Socket) error { return s.Unmasked(0x80|rawclient.OpText, ping) },
			"reserved bit 1":          func(s *rawclient.Socket) error { return s.Frame(0xC0|rawclient.OpText, []byte(ping)) },
			"reserved bits 2 and 3":   func(s *rawclient.Socket) error { return s.Frame(0xB0|rawclient.OpText, []byte(ping)) },
			"reserved opcode":         func(s *rawclient.Socket) error { return s.Frame(0x83, []byte(ping)) },
			"reserved control opcode": func(s *rawclient.Socket) error { return s.Frame(0x8B, nil) },
			"continuation of nothing": func(s *rawclient.Socket) error { return s.Frame(0x80|rawclient.OpContinuation, []byte(ping)) },
			"a fragmented ping":       func(s *rawclient.Socket) error { return s.Frame(rawclient.OpPing, nil) },
			"a ping of 126 bytes":     func(s *rawclient.Socket) error { return s.Frame(0x80|rawclient.OpPing, make([]byte, 126)) },
			"a text within a text": func(s *rawclient.Socket) error {
				if err := s.Frame(rawclient.OpText, []byte("{")); err != nil {
					return err
				}
				return s.Frame(0x80|rawclient.OpText, []byte(ping))
			},
			"a close of one byte": func(s *rawclient.Socket) error { return s.Frame(0x80|rawclient.OpClose, []byte{3}) },
		} {
			s := w.socket("ana")
			if err := attack(s); err != nil {
				t.Fatal(err)
			}
			w.closes(name, s, 1002, 1003, -1)
		}
	})
}

func TestSecurity10_JSONBombs(t *testing.T) {
	bounded(t, nil, func(w *world) {
		c := w.online("ana", "bomb")
		ab := "c-ab" + w.ns
		for name, raw := range map[string]string{
			"lists in lists":         `{"t":"ping","x":` + strings.Repeat("[", 400_000) + strings.Repeat("]", 400_000) + `}`,
			"objects in objects":     `{"t":"ping","x":` + strings.Repeat(`{"a":`, 150_000) + "1" + strings.Repeat("}", 150_000) + `}`,
			"lists that never end":   `{"t":"ping","x":` + strings.Repeat("[", 1_000_000),
			"a deep ext":             fmt.Sprintf(`{"t":"send","conv":%q,"cmid":"d","body":"","ext":{"a":%s1%s}}`, ab, strings.Repeat("[", 2000), strings.Repeat("]", 2000)),
			"half a million numbers": `{"t":"ack","acks":[` + strings.Repeat("1,", 500_000) + `1]}`,
			"many empty acks":        `{"t":"ack","acks":[` + strings.Repeat("{},", 300_000) + `{}]}`,
			"many members":           `{"t":"ping"` + strings.Repeat(`,"a":1`, 150_000) + `}`,
			"a long number":          `{"t":"ack","conv":"c","seq":` + strings.Repeat("9", 900_000) + `}`,
			"a long key":             `{"t":"ping","` + strings.Repeat("k", 900_000) + `":1}`,
			"many escapes":           `{"t":"nonsense","x":"` + strings.Repeat(`\u0001`, 170_000) + `"}`,
		} {
			mark := c.Mark()
			if err := c.Text(raw); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			f := c.await("an answer to "+name, mark, func(rawclient.Frame) bool { return true })
			if f.T() == "error" {
				checkError(t, f.Object)
			}
			if len(f.Raw) > 4096 {
				t.Errorf("%s is answered with %d bytes", name, len(f.Raw))
			}
			c.alive()
		}
	})
}

// Compression is off, or the limit counts inflated bytes.
func TestSecurity11_CompressionBombs(t *testing.T) {
	bounded(t, nil, func(w *world) {
		var bomb bytes.Buffer
		z, err := flate.NewWriter(&bomb, flate.BestCompression)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(z, zeros{}, 128<<20); err != nil {
			t.Fatal(err)
		}
		if err := z.Flush(); err != nil {
			t.Fatal(err)
		}
		s, err := rawclient.DialSocket(w.srv.Addr(), http.Header{"Sec-Websocket-Extensions": {"permessage-deflate"}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		negotiated := strings.Contains(s.Response.Header.Get("Sec-WebSocket-Extensions"), "permessage-deflate")
		if err := s.Frame(0xC0|rawclient.OpText, bytes.TrimSuffix(bomb.Bytes(), []byte{0, 0, 0xFF, 0xFF})); err != nil {
			t.Logf("the server closed while the bomb was written: %v", err)
		}
		if negotiated {
			w.closes("128 MiB of zeros", s, 1009, -1)
		} else {
			w.closes("a compressed frame without compression", s, 1002, -1)
		}
		r := w.srv.Request(t, "POST", "/api/msg/pull", http.Header{
			"Authorization": {"Bearer dev:u-x"}, "Impart-Device": {"d"}, "Impart-Install": {"i"}, "Content-Encoding": {"deflate"},
		}, bomb.String())
		if r.Status/100 != 4 {
			t.Errorf("a compressed HTTP body: %s, want a refusal", r)
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return copy(p, make([]byte, len(p))), nil }

// Slow handshakes and sockets that say nothing are ended in bounded time and keep nobody out.
func TestSecurity12_SlowHandshakesAndIdleSockets(t *testing.T) {
	bounded(t, nil, func(w *world) {
		files := w.srv.OpenFiles(t)
		began := time.Now()
		var conns []net.Conn
		for i := range 300 {
			c, err := net.Dial("tcp", w.srv.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if i%2 == 0 { // a request that is never finished
				fmt.Fprintf(c, "GET /v1/ws HTTP/1.1\r\nHost: %s\r\nX-Slow: ", w.srv.Addr())
			}
			conns = append(conns, c)
		}
		w.online("ben", "meanwhile").alive()
		for i, c := range conns {
			if err := c.SetReadDeadline(began.Add(35 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, c); errors.Is(err, net.ErrClosed) {
				t.Fatal(err)
			} else if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
				t.Fatalf("socket %d (a begun request: %v) is still open after %v", i, i%2 == 0, time.Since(began))
			}
		}
		t.Logf("all idle sockets were ended after %v", time.Since(began).Round(time.Millisecond))
		if now := w.srv.OpenFiles(t); now > files+10 {
			t.Errorf("%d open files, %d before", now, files)
		}
	})
}

// Requests whose bodies never come are ended too.
func TestSecurity12_SlowBodies(t *testing.T) {
	bounded(t, nil, func(w *world) {
		began := time.Now()
		for range 20 {
			c, err := net.Dial("tcp", w.srv.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			fmt.Fprintf(c, "POST /api/msg/pull HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer dev:u-x\r\nImpart-Device: d\r\nImpart-Install: i\r\n"+
				"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", w.srv.Addr())
			if err := c.SetReadDeadline(began.Add(75 * time.Second)); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if _, err := io.Copy(io.Discard, c); err != nil {
					if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
						t.Errorf("a request without its body is still open after %v", time.Since(began).Round(time.Second))
					}
				}
			}()
		}
	})
}

func TestSecurity12_PingFlood(t *testing.T) {
	bounded(t, nil, func(w *world) {
		s := w.socket("ana")
		payload := make([]byte, 125)
		for range 50_000 { // and not one answer is read
			if err := s.Frame(0x80|rawclient.OpPing, payload); err != nil {
				t.Logf("the server stopped the flood: %v", err)
				break
			}
		}
		frames := w.online("cai", "flood")
		for range 5_000 {
			if err := frames.JSON(F{"t": "ping"}); err != nil {
				t.Fatal(err)
			}
		}
		frames.alive()
	})
}

func TestSecurity12_ReconnectStorm(t *testing.T) {
	bounded(t, nil, func(w *world) {
		done := make(chan error, 8)
		for worker := range 8 {
			go func() {
				var err error
				for i := range 100 {
					ctx, cancel := testContext(t, patience)
					var c *rawclient.Conn
					c, _, err = rawclient.Login(ctx, w.srv.Addr(), rawclient.NewHello("dev:"+w.user(fmt.Sprint(worker)), "phone", "i1"), rawclient.DialOptions{})
					if err == nil && i%2 == 0 {
						err = c.JSON(F{"t": "pull"})
					}
					if c != nil {
						c.Close()
					}
					cancel()
					var refused rawclient.Refused
					if errors.As(err, &refused) && refused.Bool("retry") {
						err = nil // shedding load is an answer
					}
					if err != nil {
						break
					}
				}
				done <- err
			}()
		}
		for range 8 {
			if err := <-done; err != nil {
				t.Errorf("a reconnect was refused: %v", err)
			}
		}
	})
}

// With no file descriptor left the server goes on for those who are in, and takes new ones when there is room again.
func TestSecurity22_FileDescriptorsExhausted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, impart.StartWith(t, impart.Config{MaxFiles: 96}))
	ab := w.conv("ab", "ana", "ben")
	ana := w.online("ana", "phone")
	var conns []net.Conn
	for range 200 {
		c, err := net.DialTimeout("tcp", w.srv.Addr(), time.Second)
		if err != nil {
			break
		}
		conns = append(conns, c)
	}
	for i := range 20 {
		ana.send(ab, fmt.Sprint("k", i), "x")
	}
	for _, c := range conns {
		c.Close()
	}
	deadline := time.Now().Add(patience)
	for {
		ctx, cancel := testContext(t, 2*time.Second)
		c, _, err := rawclient.Login(ctx, w.srv.Addr(), rawclient.NewHello("dev:"+w.user("ben"), "phone", "i1"), rawclient.DialOptions{})
		cancel()
		if err == nil {
			c.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("nobody can connect although there is room again: %v", err)
		}
	}
	if _, head := ana.log(ab, 0); head != 20 {
		t.Errorf("head %d, want 20", head)
	}
}
