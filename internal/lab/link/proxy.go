// Package link is a TCP proxy that spoils what passes: latency, jitter, a limit
// of bandwidth, black holes, freezes, cuts in mid-frame and refused connections,
// for all links or for one, each way apart. It loses only what it is told to lose,
// never changes or reorders bytes, and counts what it did, so that a check can
// tell whether its fault bit. What it draws comes from a seed.
package link

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"
)

// Direction is a way through the proxy, or both.
type Direction int

// The directions.
const (
	Up   Direction = 1 // from the client to the server
	Down Direction = 2 // from the server to the client
	Both Direction = Up | Down
)

// ways are the indexes of a direction's streams.
func (d Direction) ways() []int {
	switch d {
	case Up:
		return []int{0}
	case Down:
		return []int{1}
	}
	return []int{0, 1}
}

// End is how a link is cut.
type End int

// The ends. A black hole, which tells nobody, is a [Shape].
const (
	Reset End = iota // RST to both sides
	Fin              // an orderly end to both sides
)

// Shape is how one way of a link relays. The zero value relays as it comes.
type Shape struct {
	Latency time.Duration // each byte is this much later
	Jitter  time.Duration // and up to this much more, drawn anew for what is read at once; order is kept
	// Rate is in bytes a second; 0 is no limit. A link that is made while it is set
	// has small buffers in the proxy until it is lifted, so that its sender soon notices.
	Rate int
	// Frozen holds everything, also an end. Nothing is lost: once thawed it goes on,
	// as TCP does over a network that was away for a while. Meanwhile the sender
	// fills up its buffers and has to wait.
	Frozen bool
	// BlackHole loses everything, also an end, and tells nobody. Once it has lost
	// bytes, the link cannot go on: what comes after the black hole cuts it with RST.
	BlackHole bool
	// CutAfter cuts the link, as CutHow says, after so many bytes more; 0 is never.
	CutAfter int64
	// CutMiddle cuts the link before the last byte of what is next read at once: in
	// the middle of a frame, as long as frames are written whole.
	CutMiddle bool
	CutHow    End
}

// Counts are what a proxy has done since it started.
type Counts struct {
	Links     int      // connections relayed
	Refused   int      // connections refused
	Unreached int      // connections whose server could not be reached
	Cut       int      // links cut by the proxy
	Swallowed int64    // bytes lost in black holes
	Delayed   int      // reads that had to wait for latency or jitter
	Throttled int      // waits for bandwidth
	Held      int      // reads that met a freeze
	Bytes     [2]int64 // bytes relayed up and down
}

// Limits of what is under way in one direction of a link, before its sender waits.
const (
	chunkBytes  = 16 << 10
	queueLength = 8 // chunks
)

// dialTime bounds how long a server may take to accept.
const dialTime = 5 * time.Second

// Proxy relays connections. Its methods may be called by several goroutines.
type Proxy struct {
	ln     net.Listener
	dial   func(context.Context) (net.Conn, error)
	ctx    context.Context // ends with the proxy
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex // guards what follows, and the links' shapes
	draw   *rand.Rand
	shapes [2]Shape // of links to come
	refuse bool
	links  []*Link
	counts Counts
	tell   func(what string)
}

// New relays from a free port of this machine to target(), which is asked anew
// for each connection, as "127.0.0.1:8080". End it with [Proxy.Close].
func New(seed uint64, target func() string) (*Proxy, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("a proxy: %w", err)
	}
	var dialer net.Dialer
	return Serve(seed, ln, func(ctx context.Context) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", target()) }), nil
}

// Serve is New with a listener, which it owns, and a way to reach the server.
func Serve(seed uint64, ln net.Listener, dial func(context.Context) (net.Conn, error)) *Proxy {
	p := &Proxy{ln: ln, dial: dial, draw: rand.New(rand.NewPCG(seed, 0))}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.work.Go(p.accept)
	return p
}

// Close ends the proxy and every link, and waits for all it has started.
func (p *Proxy) Close() {
	p.cancel()
	_ = p.ln.Close()
	for _, l := range p.Links() {
		l.end(Reset, nil)
	}
	p.work.Wait()
}

// Addr is where clients connect.
func (p *Proxy) Addr() string { return p.ln.Addr().String() }

// Links are the links there are, oldest first.
func (p *Proxy) Links() []*Link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.links)
}

// Counts are what it has done so far.
func (p *Proxy) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts
}

func (p *Proxy) count(add func(*Counts)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	add(&p.counts)
}

// Notify lets f hear of each link that the proxy cuts ("cut"), and of each connection
// that it refuses ("refused") or has no server for ("unreached"). f is called by the
// goroutines of the proxy, and not after [Proxy.Close].
func (p *Proxy) Notify(f func(what string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tell = f
}

func (p *Proxy) say(what string) {
	p.mu.Lock()
	tell := p.tell
	p.mu.Unlock()
	if tell != nil {
		tell(what)
	}
}

// Shape sets how all links relay in a direction from now on, those to come too.
// Bytes that are under way keep the delay that was drawn for them.
func (p *Proxy) Shape(dir Direction, change func(*Shape)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, way := range dir.ways() {
		change(&p.shapes[way])
	}
	for _, l := range p.links {
		l.shape(dir, change)
	}
}

// ShapeNew is [Proxy.Shape] for links to come alone.
func (p *Proxy) ShapeNew(dir Direction, change func(*Shape)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, way := range dir.ways() {
		change(&p.shapes[way])
	}
}

// Heal takes every shape back and lets connections in again. Links that have lost
// bytes are cut at their next byte.
func (p *Proxy) Heal() {
	p.Refuse(false)
	p.Shape(Both, func(s *Shape) { *s = Shape{} })
}

// Refuse resets connections that come from now on, without asking the server.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = refuse
}

// Cut ends every link there is.
func (p *Proxy) Cut(how End) {
	for _, l := range p.Links() {
		l.Cut(how)
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.ln.Accept()
		switch {
		case err == nil:
			p.work.Go(func() { p.relay(client) })
		case errors.Is(err, net.ErrClosed) || p.ctx.Err() != nil:
			return
		default: // out of descriptors: they come back
			select {
			case <-time.After(10 * time.Millisecond):
			case <-p.ctx.Done():
			}
		}
	}
}

// relay owns one connection of a client until it has ended.
func (p *Proxy) relay(client net.Conn) {
	p.mu.Lock()
	refuse := p.refuse
	if refuse {
		p.counts.Refused++
	}
	p.mu.Unlock()
	if refuse {
		p.say("refused")
		drop(client)
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, dialTime)
	defer cancel()
	server, err := p.dial(ctx)
	if err != nil {
		p.count(func(c *Counts) { c.Unreached++ })
		p.say("unreached")
		drop(client)
		return
	}
	l := p.add(client, server)
	if p.ctx.Err() != nil { // Close has not seen it
		l.end(Reset, nil)
	}
	l.run()
	p.remove(l)
}

func drop(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

func (p *Proxy) add(client, server net.Conn) *Link {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &Link{
		proxy: p, ends: [2]net.Conn{client, server}, over: make(chan struct{}), turn: make(chan struct{}),
		shapes: p.shapes, jitter: rand.New(rand.NewPCG(p.draw.Uint64(), uint64(p.counts.Links))),
	}
	for way, shape := range l.shapes {
		if shape.Rate > 0 {
			l.buffers(way, narrow)
		}
	}
	p.counts.Links++
	p.links = append(p.links, l)
	return l
}

func (p *Proxy) remove(l *Link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links = slices.DeleteFunc(p.links, func(other *Link) bool { return other == l })
}
