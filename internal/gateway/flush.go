package gateway

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/impart-im/impart/wire"
)

// flushIf starts the flushing goroutine if the queue said so: it allows one at a
// time.
func (c *conn) flushIf(start bool) {
	if start {
		c.g.sockets.Go(c.flush)
	}
}

// Times of the flushing side.
const (
	// stallTime is how long a socket may take no byte at all.
	stallTime = time.Minute
	// leaveTime is how long a closing connection may take no byte, and then how long
	// it may take to answer the close frame.
	leaveTime = 2 * time.Second
	// lingerTime is how long closing may take in all.
	lingerTime = 5 * time.Second
)

var flushBuffers = sync.Pool{New: func() any { b := make([]byte, 0, flushSize); return &b }}

// flush writes what is queued, many frames to a system call, and ends when the
// queue is empty.
func (c *conn) flush() {
	buf := flushBuffers.Get().(*[]byte)
	defer flushBuffers.Put(buf)
	for {
		chunk, more, finished := c.out.take((*buf)[:0], c.overflowHint)
		if finished {
			c.written()
			return
		}
		if !more {
			return
		}
		if err := c.write(chunk); err != nil {
			c.out.close()
			c.cut()
			return
		}
	}
}

func (c *conn) write(p []byte) error {
	for len(p) > 0 {
		c.writing()
		n, err := c.nc.Write(p)
		p = p[n:]
		var timeout net.Error
		if err != nil && (n == 0 || !errors.As(err, &timeout) || !timeout.Timeout()) {
			return err
		}
	}
	return nil
}

// writing sets the deadline of the next write.
func (c *conn) writing() {
	c.mu.Lock()
	defer c.mu.Unlock()
	deadline := time.Now().Add(stallTime)
	if c.stage >= leaving {
		deadline = c.soon()
	}
	_ = c.nc.SetWriteDeadline(deadline)
}

// written gives the client a little time to answer the close frame.
func (c *conn) written() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.nc.SetReadDeadline(c.soon())
}

// soon is when the next step of closing must be done. c.mu is held.
func (c *conn) soon() time.Time {
	if soon := time.Now().Add(leaveTime); soon.Before(c.leaveBy) {
		return soon
	}
	return c.leaveBy
}

// overflowHint replaces dropped pushes.
func (c *conn) overflowHint() []byte {
	c.g.metrics.hints.WithLabelValues(wire.WhyOverflow).Inc()
	return textFrame((&wire.Hint{Epoch: c.g.Epoch(), Why: wire.WhyOverflow}).Append)
}
