package link

import (
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a proxy with a server behind it, over TCP.
type world struct {
	*Proxy
	t  *testing.T
	ln net.Listener
}

func newWorld(t *testing.T) world {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(1, func() string { return ln.Addr().String() })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(); ln.Close() })
	return world{p, t, ln}
}

// call connects a client and gives the server's side of it too.
func (w world) call() (client, server *net.TCPConn) {
	w.t.Helper()
	conns := [2]net.Conn{}
	var err error
	if conns[0], err = net.Dial("tcp", w.Addr()); err != nil {
		w.t.Fatal(err)
	}
	if conns[1], err = w.ln.Accept(); err != nil {
		w.t.Fatal(err)
	}
	for _, conn := range conns {
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		w.t.Cleanup(func() { conn.Close() })
	}
	return conns[0].(*net.TCPConn), conns[1].(*net.TCPConn)
}

// readAll is what comes until the end, and whether the end was a reset.
func readAll(t *testing.T, conn net.Conn) (string, bool) {
	t.Helper()
	got, err := io.ReadAll(conn)
	reset := errors.Is(err, syscall.ECONNRESET) || err != nil && runtime.GOOS == "windows"
	if err != nil && !reset {
		t.Errorf("the link ends with %v", err)
	}
	return string(got), reset
}

func TestBytesPassUnchangedBothWays(t *testing.T) {
	w := newWorld(t)
	client, server := w.call()
	up, down := strings.Repeat("up", 1<<20), strings.Repeat("down", 1<<19)
	go func() { _, _ = io.WriteString(client, up); _ = client.CloseWrite() }()
	if got, reset := readAll(t, server); got != up || reset {
		t.Errorf("%d bytes up, reset %v", len(got), reset)
	}
	// One way has ended, the other goes on.
	go func() { _, _ = io.WriteString(server, down); _ = server.Close() }()
	if got, reset := readAll(t, client); got != down || reset {
		t.Errorf("%d bytes down, reset %v", len(got), reset)
	}
	w.Close() // what it still does is done then
	if got := w.Counts(); got != (Counts{Links: 1, Bytes: [2]int64{2 << 20, 2 << 20}}) {
		t.Errorf("%+v", got)
	}
}

func TestCuts(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Shape)
		heard  string
		reset  bool
	}{
		"after bytes, reset":  {func(s *Shape) { s.CutAfter = 8 }, "one, two", true},
		"after bytes, fin":    {func(s *Shape) { s.CutAfter, s.CutHow = 8, Fin }, "one, two", false},
		"in mid-frame, reset": {func(s *Shape) { s.CutMiddle = true }, "one", true},
		"in mid-frame, fin":   {func(s *Shape) { s.CutMiddle, s.CutHow = true, Fin }, "one", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Shape(Down, c.change)
			client, server := w.call()
			_, _ = io.WriteString(server, "one,")
			if c.heard == "one, two" { // the next write of the server is a read of its own
				_, _ = io.ReadFull(client, make([]byte, 4))
				_, _ = io.WriteString(server, " two, three")
				c.heard = c.heard[4:]
			}
			got, reset := readAll(t, client)
			if got != c.heard || reset != c.reset {
				t.Errorf("heard %q, reset %v; want %q, %v", got, reset, c.heard, c.reset)
			}
			if _, reset := readAll(t, server); reset != c.reset {
				t.Errorf("the server sees a reset: %v", reset)
			}
			if w.Counts().Cut != 1 {
				t.Errorf("%+v", w.Counts())
			}
			// The next link is spoilt in the same way, until it is healed.
			w.Heal()
			client, server = w.call()
			_, _ = io.WriteString(server, "one, two, three")
			_ = server.Close()
			if got, _ := readAll(t, client); got != "one, two, three" {
				t.Errorf("healed, it passes %q", got)
			}
		})
	}
}

func TestCutAtOnce(t *testing.T) {
	for _, how := range []End{Reset, Fin} {
		w := newWorld(t)
		client, server := w.call()
		_, _ = io.WriteString(client, "a") // it has come through: the link is known
		if _, err := io.ReadFull(server, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		w.Cut(how)
		for _, conn := range []net.Conn{client, server} {
			if _, reset := readAll(t, conn); reset != (how == Reset) {
				t.Errorf("cut %v: reset %v", how, reset)
			}
		}
	}
}

func TestAResetPassesOn(t *testing.T) {
	w := newWorld(t)
	client, server := w.call()
	_ = client.SetLinger(0)
	_ = client.Close()
	if _, reset := readAll(t, server); !reset {
		t.Error("the server sees an orderly end")
	}
	if w.Counts().Cut != 0 {
		t.Error("the proxy counts it as its own")
	}
}

func TestRefusedOverTCP(t *testing.T) {
	w := newWorld(t)
	w.Refuse(true)
	client, err := net.Dial("tcp", w.Addr())
	if err == nil {
		_ = client.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = readAll(t, client)
		client.Close()
	}
	if w.Counts().Refused != 1 {
		t.Errorf("%+v", w.Counts())
	}
}

func TestASlowLinkHoldsItsSender(t *testing.T) {
	w := newWorld(t)
	w.ShapeNew(Down, func(s *Shape) { s.Rate = 1 << 10 })
	_, server := w.call()
	_ = server.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
	sent := 0
	for {
		n, err := server.Write(make([]byte, 64<<10))
		sent += n
		if err != nil {
			break
		}
		if sent > 32<<20 {
			t.Fatal("32 MiB were taken by a link of 1 KiB a second")
		}
	}
	if w.Counts().Throttled == 0 {
		t.Errorf("%+v", w.Counts())
	}
}

// TestAHealedLinkIsFast: a link that was made slow is as others are once it is
// healed. With the small buffers left it needs many times as long.
func TestAHealedLinkIsFast(t *testing.T) {
	const size = 8 << 20
	transfer := func(slow bool) time.Duration {
		w := newWorld(t)
		if slow {
			w.ShapeNew(Down, func(s *Shape) { s.Rate = 1 << 10 })
		}
		client, server := w.call()
		_, _ = io.WriteString(server, "a")
		if _, err := io.ReadFull(client, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		w.Heal()
		began := time.Now()
		go func() { _, _ = server.Write(make([]byte, size)); _ = server.Close() }()
		if got, _ := readAll(t, client); len(got) != size {
			t.Errorf("%d of %d bytes", len(got), size)
		}
		return time.Since(began)
	}
	usual, healed := transfer(false), transfer(true)
	t.Logf("%d MiB in %v over a usual link, in %v over a healed one", size>>20, usual, healed)
	if healed > 4*usual+time.Second {
		t.Errorf("a healed link takes %v for what takes %v otherwise", healed, usual)
	}
}
