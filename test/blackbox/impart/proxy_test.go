package impart

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// echo serves what it reads, as a stand-in for the server.
func echo(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { defer c.Close(); io.Copy(c, c) })
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	return ln.Addr().String()
}

func dialed(t *testing.T, p *Proxy) net.Conn {
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func exchange(t *testing.T, c net.Conn, text string, within time.Duration) (string, error) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}
	buf := make([]byte, len(text))
	c.SetReadDeadline(time.Now().Add(within))
	n, err := io.ReadFull(c, buf)
	return string(buf[:n]), err
}

func TestProxyRelaysHoldsAndReleases(t *testing.T) {
	addr := echo(t)
	p := NewProxy(t, func() string { return addr })
	c := dialed(t, p)
	if got, err := exchange(t, c, "one", 5*time.Second); got != "one" {
		t.Fatalf("relayed %q %v", got, err)
	}
	p.Hold()
	if got, err := exchange(t, c, "two", 100*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a held link gave %q %v", got, err)
	}
	p.Release()
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	buf := make([]byte, 3)
	if _, err := io.ReadFull(c, buf); err != nil || string(buf) != "two" {
		t.Fatalf("a released link gave %q %v", buf, err)
	}
}

func TestProxyCutsAndSwallows(t *testing.T) {
	addr := echo(t)
	p := NewProxy(t, func() string { return addr })
	c := dialed(t, p)
	exchange(t, c, "one", 5*time.Second)
	p.BlackHole()
	if got, err := exchange(t, c, "two", 100*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a black hole gave %q %v", got, err)
	}
	p.Cut()
	if got, err := exchange(t, c, "three", 5*time.Second); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a cut link gave %q %v", got, err)
	}
	p.CutAfter(4)
	if got, _ := exchange(t, dialed(t, p), "abcdefgh", 5*time.Second); got != "abcd" && got != "" {
		t.Fatalf("a link to be cut after 4 bytes gave %q", got)
	}
}
