package link

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Link is one connection through the proxy: two streams, one each way.
type Link struct {
	proxy  *Proxy
	ends   [2]net.Conn // by direction: where its bytes come from; Up comes from the client
	over   chan struct{}
	ending sync.Once
	jitter *rand.Rand // Invariant: only used under proxy.mu

	// proxy.mu guards what follows.
	shapes [2]Shape
	turn   chan struct{} // closed and replaced when a shape changes
	lost   [2]bool       // bytes of the way were swallowed: it cannot go on
	narrow [2]bool       // the way has small buffers
}

// chunk is what was read at once, or how a stream ended.
type chunk struct {
	bytes []byte
	due   time.Time
	err   error // the last of a stream: [io.EOF], or that its sender is gone
}

// Shape sets how the link relays in a direction, from now on.
func (l *Link) Shape(dir Direction, change func(*Shape)) {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	l.shape(dir, change)
}

func (l *Link) shape(dir Direction, change func(*Shape)) {
	for _, way := range dir.ways() {
		change(&l.shapes[way])
		if l.narrow[way] && l.shapes[way].Rate == 0 {
			l.buffers(way, wide)
		}
	}
	close(l.turn)
	l.turn = make(chan struct{})
}

// How many bytes the system may buffer on each side of a way. It rounds them as it
// likes, and once they are set it no longer chooses by itself.
const (
	narrow = 2 << 10
	wide   = 4 << 20
)

// buffers sets the buffers of a way, under proxy.mu.
func (l *Link) buffers(way, bytes int) {
	l.narrow[way] = bytes == narrow
	if tcp, ok := l.ends[way].(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(bytes) // a matter of degree
	}
	if tcp, ok := l.ends[1-way].(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(bytes)
	}
}

// now is the shape of a way and what tells of its next change.
func (l *Link) now(way int) (Shape, <-chan struct{}) {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	return l.shapes[way], l.turn
}

// Cut ends the link both ways at once; what is under way is lost.
func (l *Link) Cut(how End) {
	l.end(how, func(c *Counts) { c.Cut++ })
}

// end closes both connections once. With a count it is the proxy's doing: that is
// counted and told.
func (l *Link) end(how End, count func(*Counts)) {
	l.ending.Do(func() {
		if count != nil {
			l.proxy.count(count)
			l.proxy.say("cut")
		}
		close(l.over)
		for _, conn := range l.ends {
			if tcp, ok := conn.(*net.TCPConn); ok && how == Reset {
				_ = tcp.SetLinger(0) // close sends RST
			}
			_ = conn.Close()
		}
	})
}

// Done is closed when the link has ended.
func (l *Link) Done() <-chan struct{} { return l.over }

// run relays both ways until both streams have ended.
func (l *Link) run() {
	var streams sync.WaitGroup
	for way := range l.ends {
		pipe := make(chan chunk, queueLength)
		streams.Go(func() { l.read(way, pipe) })
		streams.Go(func() { l.write(way, pipe) })
	}
	streams.Wait()
	l.end(Fin, nil)
}

// read takes bytes in as long as there is room for them under way.
func (l *Link) read(way int, pipe chan<- chunk) {
	defer close(pipe)
	var last time.Time
	for {
		buf := make([]byte, chunkBytes)
		n, err := l.ends[way].Read(buf)
		// Bytes never overtake each other, whatever is drawn for them.
		due := l.due(way)
		if due.Before(last) {
			due = last
		}
		last = due
		if n > 0 && !l.queue(pipe, chunk{bytes: buf[:n], due: due}) {
			return
		}
		if err != nil {
			l.queue(pipe, chunk{due: due, err: err})
			return
		}
	}
}

func (l *Link) queue(pipe chan<- chunk, c chunk) bool {
	select {
	case pipe <- c:
		return true
	case <-l.over:
		return false
	}
}

// due is when what is read now may leave.
func (l *Link) due(way int) time.Time {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	s := l.shapes[way]
	wait := s.Latency
	if s.Jitter > 0 {
		wait += time.Duration(l.jitter.Int64N(int64(s.Jitter)))
	}
	if wait > 0 {
		l.proxy.counts.Delayed++
	}
	return time.Now().Add(wait)
}

// write lets what was read leave when it is time, in order.
func (l *Link) write(way int, pipe <-chan chunk) {
	for c := range pipe {
		if !l.sleep(time.Until(c.due)) || !l.thawed(way) || !l.leave(way, c) {
			return
		}
	}
}

// sleep waits; false means that the link is over.
func (l *Link) sleep(wait time.Duration) bool {
	if wait <= 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.over:
		return false
	}
}

// thawed waits while the way is frozen; false means that the link is over.
func (l *Link) thawed(way int) bool {
	held := false
	for {
		shape, changed := l.now(way)
		if !shape.Frozen {
			return true
		}
		if !held {
			held = true
			l.proxy.count(func(c *Counts) { c.Held++ })
		}
		select {
		case <-changed:
		case <-l.over:
			return false
		}
	}
}

// leave lets one chunk leave as the shape of this moment says; false ends the way.
func (l *Link) leave(way int, c chunk) bool {
	b, fate := l.decide(way, c)
	switch fate {
	case swallow:
		return true
	case broken: // as behind a router that has forgotten the link
		l.Cut(Reset)
		return false
	}
	if !l.send(way, b) {
		return false
	}
	switch {
	case fate == cutReset:
		l.Cut(Reset)
	case fate == cutFin:
		l.Cut(Fin)
	case errors.Is(c.err, io.EOF):
		l.closeWrite(way)
	case c.err != nil:
		l.end(Reset, nil)
	default:
		return true
	}
	return false
}

// send writes bytes at the rate of the way; false ends the way.
func (l *Link) send(way int, b []byte) bool {
	for len(b) > 0 {
		shape, _ := l.now(way)
		part := b
		if shape.Rate > 0 { // in steps of about 10 ms
			part = b[:min(len(b), max(1, shape.Rate/100))]
		}
		n, err := l.ends[1-way].Write(part)
		l.proxy.count(func(c *Counts) { c.Bytes[way] += int64(n) })
		if err != nil {
			return l.unheard(way)
		}
		b = b[len(part):]
		if shape.Rate == 0 {
			continue
		}
		l.proxy.count(func(c *Counts) { c.Throttled++ })
		if !l.sleep(time.Duration(len(part)) * time.Second / time.Duration(shape.Rate)) {
			return false
		}
	}
	return true
}

// unheard is what follows when the receiver of a way has gone: its reset travels
// back, unless that way loses it. True means that the sender is to hear nothing.
func (l *Link) unheard(way int) bool {
	if !l.thawed(1 - way) {
		return false
	}
	if shape, _ := l.now(1 - way); shape.BlackHole {
		return true
	}
	l.end(Reset, nil)
	return false
}

// closeWrite passes the end of a stream on; the other way may still go on.
func (l *Link) closeWrite(way int) {
	if half, ok := l.ends[1-way].(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // an error: it is closed already
		return
	}
	l.end(Fin, nil)
}

// fate is what becomes of a chunk.
type fate int

const (
	pass fate = iota
	swallow
	broken
	cutReset
	cutFin
)

// decide gives the bytes of a chunk that pass, and what happens to it or after it.
func (l *Link) decide(way int, c chunk) ([]byte, fate) {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	s := &l.shapes[way]
	if s.BlackHole {
		l.lost[way] = true
		l.proxy.counts.Swallowed += int64(len(c.bytes))
		return nil, swallow
	}
	if l.lost[way] || l.lost[1-way] && !l.shapes[1-way].BlackHole {
		return nil, broken
	}
	after := map[End]fate{Reset: cutReset, Fin: cutFin}[s.CutHow]
	if s.CutMiddle && len(c.bytes) > 1 {
		s.CutMiddle = false
		return c.bytes[:len(c.bytes)-1], after
	}
	if s.CutAfter > 0 {
		if int64(len(c.bytes)) >= s.CutAfter {
			return c.bytes[:s.CutAfter], after
		}
		s.CutAfter -= int64(len(c.bytes))
	}
	return c.bytes, pass
}
