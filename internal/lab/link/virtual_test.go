package link

import (
	"context"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/impart-im/impart/internal/lab/pipe"
)

func call(t *testing.T, l *pipe.Listener) net.Conn {
	t.Helper()
	client, err := l.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// bubble runs a story with a proxy in virtual time.
func bubble(t *testing.T, seed uint64, story func(t *testing.T, p *Proxy, call func() (client, server net.Conn))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l, servers := pipe.Listen("proxy"), make(chan net.Conn, 1)
		p := Serve(seed, l, func(context.Context) (net.Conn, error) {
			proxy, server := net.Pipe()
			servers <- server
			return proxy, nil
		})
		defer p.Close()
		story(t, p, func() (net.Conn, net.Conn) { return call(t, l), <-servers })
	})
}

func say(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatalf("saying %q: %v", text, err)
	}
}

// hears wants text next, after exactly wait.
func hears(t *testing.T, conn net.Conn, text string, wait time.Duration) {
	t.Helper()
	began := time.Now()
	buf := make([]byte, len(text))
	n, err := io.ReadFull(conn, buf)
	if string(buf[:n]) != text || time.Since(began) != wait {
		t.Errorf("heard %q, %v after %v; want %q after %v", buf[:n], err, time.Since(began), text, wait)
	}
}

// hearsNothing wants neither bytes nor an end within a day.
func hearsNothing(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(24 * time.Hour))
	defer func() { _ = conn.SetReadDeadline(time.Time{}) }()
	n, err := conn.Read(make([]byte, 1))
	if timeout, ok := err.(net.Error); n > 0 || !ok || !timeout.Timeout() {
		t.Errorf("heard %d bytes, %v", n, err)
	}
}

func TestLatencyIsForOneWay(t *testing.T) {
	bubble(t, 1, func(t *testing.T, p *Proxy, call func() (net.Conn, net.Conn)) {
		p.Shape(Up, func(s *Shape) { s.Latency = 300 * time.Millisecond })
		client, server := call()
		say(t, client, "a")
		hears(t, server, "a", 300*time.Millisecond)
		say(t, server, "b")
		hears(t, client, "b", 0)
		synctest.Wait()
		if got := p.Counts(); got.Delayed != 1 || got.Bytes != [2]int64{1, 1} || got.Links != 1 {
			t.Errorf("%+v", got)
		}
	})
}

func TestJitterKeepsTheOrderAndFollowsTheSeed(t *testing.T) {
	run := func(seed uint64) (arrivals []time.Duration) {
		bubble(t, seed, func(t *testing.T, p *Proxy, call func() (net.Conn, net.Conn)) {
			p.Shape(Down, func(s *Shape) { s.Jitter = time.Second })
			client, server := call()
			began := time.Now()
			go func() {
				for i := range 20 {
					say(t, server, string(rune('a'+i)))
					time.Sleep(10 * time.Millisecond)
				}
			}()
			for i := range 20 {
				buf := make([]byte, 1)
				if _, err := io.ReadFull(client, buf); err != nil || buf[0] != byte('a'+i) {
					t.Fatalf("byte %d is %q, %v", i, buf, err)
				}
				arrivals = append(arrivals, time.Since(began))
			}
		})
		return arrivals
	}
	one, again, other := run(1), run(1), run(2)
	if !slices.Equal(one, again) {
		t.Errorf("one seed, two runs:\n%v\n%v", one, again)
	}
	if slices.Equal(one, other) || !slices.IsSorted(one) || one[len(one)-1] < 200*time.Millisecond {
		t.Errorf("seed 1: %v\nseed 2: %v", one, other)
	}
}

func TestAFreezeLosesNothing(t *testing.T) {
	bubble(t, 1, func(t *testing.T, p *Proxy, call func() (net.Conn, net.Conn)) {
		client, server := call()
		p.Shape(Down, func(s *Shape) { s.Frozen = true })
		say(t, server, "one")
		_ = server.Close()
		hearsNothing(t, client)
		p.Shape(Down, func(s *Shape) { s.Frozen = false })
		hears(t, client, "one", 0)
		if _, err := client.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("then %v, want the end that was held too", err)
		}
		synctest.Wait()
		if got := p.Counts(); got.Held != 1 || got.Swallowed != 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestAFrozenWayLetsItsSenderWait(t *testing.T) {
	bubble(t, 1, func(t *testing.T, p *Proxy, call func() (net.Conn, net.Conn)) {
		_, server := call()
		p.Shape(Down, func(s *Shape) { s.Frozen = true })
		_ = server.SetWriteDeadline(time.Now().Add(time.Hour))
		n, err := server.Write(make([]byte, 1<<20))
		if room := (queueLength + 2) * chunkBytes; err == nil || n > room {
			t.Errorf("%d bytes left, %v; want at most %d", n, err, room)
		}
	})
}

func TestABlackHoleTellsNobodyAndCannotBeHealed(t *testing.T) {
	bubble(t, 1, func(t *testing.T, p *Proxy, call func() (net.Conn, net.Conn)) {
		client, server := call()
		p.Shape(Up, func(s *Shape) { s.BlackHole = true })
		say(t, client, "lost")
		say(t, server, "heard")
		hears(t, client, "heard", 0)
		_ = client.Close()
		hearsNothing(t, server) // no end
		say(t, server, "to nobody")
		hearsNothing(t, server) // no reset
		synctest.Wait()
		if got := p.Counts(); got.Swallowed != 4 || got.Cut != 0 {
			t.Errorf("%+v", got)
		}

		client, server = call()
		say(t, client, "gone")
		synctest.Wait()
		p.Heal()
		say(t, client, "again")
		if n, err := server.Read(make([]byte, 9)); n != 0 || err == nil {
			t.Errorf("after a hole it goes on with %d bytes", n)
		}
		synctest.Wait()
		if got := p.Counts(); got.Swallowed != 8 || got.Cut != 1 {
			t.Errorf("%+v", got)
		}
	})
}

func TestOneLinkAlone(t *testing.T) {
	bubble(t, 1, func(t *testing.T, p *Proxy, call func() (net.Conn, net.Conn)) {
		client, server := call()
		client2, server2 := call()
		synctest.Wait()
		links := p.Links()
		if len(links) != 2 {
			t.Fatalf("%d links", len(links))
		}
		links[0].Shape(Both, func(s *Shape) { s.BlackHole = true })
		say(t, client, "a")
		hearsNothing(t, server)
		say(t, client2, "b")
		hears(t, server2, "b", 0)
		told := make(chan string, 2)
		p.Notify(func(what string) { told <- what })
		links[1].Cut(Fin)
		links[1].Cut(Fin)
		if _, err := client2.Read(make([]byte, 1)); err != io.EOF {
			t.Error(err)
		}
		<-links[1].Done()
		synctest.Wait()
		if len(told) != 1 || <-told != "cut" {
			t.Errorf("%d cuts told", len(told))
		}
		if len(p.Links()) != 1 {
			t.Error("the link that was cut is still there")
		}
	})
}

func TestBandwidthIsLimited(t *testing.T) {
	bubble(t, 1, func(t *testing.T, p *Proxy, call func() (net.Conn, net.Conn)) {
		p.ShapeNew(Down, func(s *Shape) { s.Rate = 1000 })
		client, server := call()
		go func() { _, _ = server.Write(make([]byte, 5000)) }()
		hears(t, client, string(make([]byte, 5000)), 4990*time.Millisecond) // the last step's wait comes after it
		synctest.Wait()
		if got := p.Counts(); got.Throttled < 499 {
			t.Errorf("%+v", got)
		}
		say(t, client, "up")
		hears(t, server, "up", 0)
	})
}

func TestRefusedAndUnreached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := pipe.Listen("proxy")
		p := Serve(1, l, func(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() })
		defer p.Close()
		var told []string
		p.Notify(func(what string) { told = append(told, what) })
		for _, refuse := range []bool{true, false} {
			p.Refuse(refuse)
			if _, err := call(t, l).Read(make([]byte, 1)); err != io.EOF {
				t.Error(err)
			}
		}
		synctest.Wait()
		if got := p.Counts(); got.Refused != 1 || got.Unreached != 1 || got.Links != 0 {
			t.Errorf("%+v", got)
		}
		if !slices.Equal(told, []string{"refused", "unreached"}) {
			t.Errorf("told %v", told)
		}
	})
}
