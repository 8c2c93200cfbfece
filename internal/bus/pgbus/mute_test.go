package pgbus_test

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/impart-im/impart/internal/bus/pgbus"
)

// muter relays sessions and, while it is on, keeps notifications from them: all else
// is answered, as by a pooler that hands a session on after each transaction.
type muter struct {
	ln      net.Listener
	on      atomic.Bool
	dropped atomic.Int64
	answers atomic.Int64 // exchanges that have ended
	work    sync.WaitGroup

	mu    sync.Mutex // guards what follows
	conns []net.Conn
}

func newMuter(t *testing.T, server string) *muter {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &muter{ln: ln}
	m.work.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			m.mu.Lock()
			m.conns = append(m.conns, client, upstream)
			m.mu.Unlock()
			m.work.Go(func() { io.Copy(upstream, client); upstream.Close() })
			m.work.Go(func() { m.relay(client, upstream); client.Close() })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		m.mu.Lock()
		for _, c := range m.conns {
			c.Close()
		}
		m.mu.Unlock()
		m.work.Wait()
	})
	return m
}

// relay passes on the server's messages: a letter, a length that counts itself, the
// rest. Notifications have the letter A.
func (m *muter) relay(client io.Writer, server io.Reader) {
	var head [5]byte
	for {
		if _, err := io.ReadFull(server, head[:]); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(server, body); err != nil {
			return
		}
		if head[0] == 'Z' { // ready for the next one
			m.answers.Add(1)
		}
		if head[0] == 'A' && m.on.Load() {
			m.dropped.Add(1)
			continue
		}
		if _, err := client.Write(append(head[:], body...)); err != nil {
			return
		}
	}
}

// A session may answer everything and hear nothing (hole 19): it is given up too.
func TestASessionThatAnswersAndDoesNotHearIsGivenUp(t *testing.T) {
	t.Parallel()
	m := newMedium(t)
	mute := newMuter(t, m.server.Addr())
	here, there := m.node("here", "", nil), m.node("there", mute.ln.Addr().String(), nil)
	here.says(typing("c-before"))
	there.hears(typing("c-before"))
	mute.on.Store(true)
	until(t, "saying that it is deaf", func() bool { return there.Health() != nil })
	if !strings.Contains(there.Health().Error(), "IM_LISTEN_STORE") || mute.dropped.Load() == 0 {
		t.Errorf("it says %v, and %d notifications were kept from it", there.Health(), mute.dropped.Load())
	}
	if b, err := pgbus.Open(t.Context(), pgbus.Config{DSN: m.server.DSNAt(mute.ln.Addr().String(), m.name), Ping: quick}); err == nil {
		b.Close()
		t.Error("a bus that does not hear itself opens")
	} else if !strings.Contains(err.Error(), "a pooler stands between") {
		t.Errorf("it does not open: %v", err)
	}
	mute.on.Store(false)
	until(t, "being told of the gap", func() bool { return there.count(missed) == 1 })
	here.says(typing("c-after"))
	there.hears(typing("c-after"))
}
