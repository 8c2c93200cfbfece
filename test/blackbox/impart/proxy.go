package impart

import (
	"bufio"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// Proxy is a TCP relay in front of a server that can cut, hold, slow down or lose what passes. New links follow the
// settings at the time they are made; Cut, BlackHole, Hold and Release act on the links there are.
type Proxy struct {
	ln     net.Listener
	target func() string
	wg     sync.WaitGroup

	mu       sync.Mutex
	links    map[*link]bool
	closed   bool
	cutAfter int
	rate     int
	drop     func(payload []byte) bool
}

// NewProxy relays to target(), asked anew for every link, until the test ends.
func NewProxy(t testing.TB, target func() string) *Proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{ln: ln, target: target, links: map[*link]bool{}}
	p.wg.Add(1)
	go p.accept()
	t.Cleanup(p.close)
	return p
}

// Addr is where clients connect.
func (p *Proxy) Addr() string { return p.ln.Addr().String() }

// CutAfter makes every link made from now on break after so many bytes from the server; 0 never.
func (p *Proxy) CutAfter(bytes int) { p.mu.Lock(); p.cutAfter = bytes; p.mu.Unlock() }

// Throttle makes links made from now on read at most so many bytes a second from the server; 0 is full speed.
func (p *Proxy) Throttle(bytesPerSecond int) { p.mu.Lock(); p.rate = bytesPerSecond; p.mu.Unlock() }

// Drop loses every text frame from the server for which lost is true, on links made from now on; nil loses none.
func (p *Proxy) Drop(lost func(payload []byte) bool) { p.mu.Lock(); p.drop = lost; p.mu.Unlock() }

// Cut breaks all links with a TCP reset on both sides.
func (p *Proxy) Cut() { p.each((*link).cut) }

// BlackHole makes all links swallow everything in both directions, without an end either side could see.
func (p *Proxy) BlackHole() { p.each(func(l *link) { l.set(&l.swallow, true) }) }

// Hold stops reading from the server on all links, so that its socket fills up; Release goes on.
func (p *Proxy) Hold()    { p.each(func(l *link) { l.set(&l.held, true) }) }
func (p *Proxy) Release() { p.each(func(l *link) { l.set(&l.held, false) }) }

// Links is the number of links there are.
func (p *Proxy) Links() int { p.mu.Lock(); defer p.mu.Unlock(); return len(p.links) }

func (p *Proxy) each(do func(*link)) {
	p.mu.Lock()
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	p.mu.Unlock()
	for _, l := range links {
		do(l)
	}
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.ln.Close()
	p.Cut()
	p.wg.Wait()
}

func (p *Proxy) accept() {
	defer p.wg.Done()
	for {
		down, err := p.ln.Accept()
		if err != nil {
			return
		}
		up, err := net.DialTimeout("tcp", p.target(), 5*time.Second)
		if err != nil {
			down.Close()
			continue
		}
		p.mu.Lock()
		l := &link{up: up.(*net.TCPConn), down: down.(*net.TCPConn), left: p.cutAfter, limited: p.cutAfter > 0, rate: p.rate, drop: p.drop, over: make(chan struct{})}
		l.changed = sync.NewCond(&l.mu)
		p.links[l] = true
		p.wg.Add(2)
		closed := p.closed
		p.mu.Unlock()
		if l.rate > 0 {
			_ = l.up.SetReadBuffer(2048)
			_ = l.down.SetWriteBuffer(2048)
		}
		go p.relay(l, l.upstream)
		go p.relay(l, l.downstream)
		if closed {
			l.cut()
		}
	}
}

func (p *Proxy) relay(l *link, copy func()) {
	defer p.wg.Done()
	copy()
	l.cut()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// link is one client's connection through the proxy.
type link struct {
	up, down *net.TCPConn // towards the server, towards the client
	left     int          // bytes from the server until the cut, when limited
	limited  bool
	rate     int
	drop     func([]byte) bool
	over     chan struct{}
	once     sync.Once

	mu            sync.Mutex
	changed       *sync.Cond
	held, swallow bool
	dead          bool
}

func (l *link) set(flag *bool, v bool) {
	l.mu.Lock()
	*flag = v
	l.mu.Unlock()
	l.changed.Broadcast()
}

func (l *link) cut() {
	l.once.Do(func() {
		l.set(&l.dead, true)
		close(l.over)
		for _, c := range []*net.TCPConn{l.up, l.down} {
			_ = c.SetLinger(0)
			c.Close()
		}
	})
}

// pass waits while the link is held and says whether bytes are to be forwarded; ok is false when the link is over.
func (l *link) pass(fromServer bool) (forward, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for fromServer && l.held && !l.dead {
		l.changed.Wait()
	}
	return !l.swallow, !l.dead
}

func (l *link) upstream() {
	buf := make([]byte, 32<<10)
	for {
		n, err := l.down.Read(buf)
		if err != nil {
			l.mourn()
			return
		}
		forward, ok := l.pass(false)
		if !ok {
			return
		}
		if forward {
			if _, err := l.up.Write(buf[:n]); err != nil {
				return
			}
		}
	}
}

// mourn keeps a swallowed link's other side open after one side has gone: a black hole passes no FIN.
func (l *link) mourn() {
	l.mu.Lock()
	swallow := l.swallow
	l.mu.Unlock()
	if swallow {
		<-l.over
	}
}

func (l *link) downstream() {
	if l.drop != nil {
		l.frames()
		return
	}
	size := 32 << 10
	if l.rate > 0 {
		size = max(1, l.rate/20)
	}
	buf := make([]byte, size)
	for {
		if _, ok := l.pass(true); !ok {
			return
		}
		n, err := l.up.Read(buf)
		if err != nil || !l.forward(buf[:n]) {
			return
		}
		if l.rate > 0 {
			select {
			case <-time.After(time.Duration(n) * time.Second / time.Duration(l.rate)):
			case <-l.over:
			}
		}
	}
}

// frames relays whole WebSocket frames, so that some can be lost.
func (l *link) frames() {
	in := bufio.NewReader(l.up)
	for { // the answer to the handshake, up to its empty line
		line, err := in.ReadBytes('\n')
		if err != nil || !l.forward(line) {
			return
		}
		if len(line) <= 2 {
			break
		}
	}
	for {
		if _, ok := l.pass(true); !ok {
			return
		}
		f, err := rawclient.ReadServerFrame(in)
		if err != nil {
			return
		}
		if f.Opcode() == rawclient.OpText && l.drop(f.Payload) {
			continue
		}
		if !l.forward(f.Raw) {
			return
		}
	}
}

// forward writes to the client what may pass; false ends the link.
func (l *link) forward(b []byte) bool {
	forward, ok := l.pass(true)
	if !ok || !forward {
		return ok
	}
	cut := false
	if l.limited {
		if len(b) >= l.left {
			b, cut = b[:l.left], true
		}
		l.left -= len(b)
	}
	_, err := io.Writer(l.down).Write(b)
	return err == nil && !cut
}
