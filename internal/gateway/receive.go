package gateway

import (
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

// maxGreeting bounds the first frame: before its hello, a peer costs little.
const maxGreeting = 64 << 10

// receive is the waiting goroutine, which lives as long as its connection. It
// stays shallow, so that an idle connection keeps the smallest stack there is
// and no buffer: what needs more is read, in a goroutine of its own that ends
// when the socket has run dry.
func (c *conn) receive(early []byte) {
	defer c.end()
	_ = c.nc.SetReadDeadline(time.Now().Add(c.g.cfg.HelloTime))
	socket := waitable(c.nc)
	if socket == nil {
		c.read(early, false)
		return
	}
	goesOn := make(chan bool)
	for {
		c.g.sockets.Go(func() { goesOn <- c.read(early, true) })
		if !<-goesOn {
			return
		}
		early = nil
		awaitBytes(socket)
	}
}

// read takes messages off the socket and leaves their meaning to work. It ends
// with the connection, or, where somebody waits for more, when there is no more
// for the moment: then it returns true.
func (c *conn) read(early []byte, waits bool) (goesOn bool) {
	reader := newFrameReader(c.nc, early, c)
	defer reader.release()
	for {
		limit, ok := c.waitForRoom()
		if !ok {
			c.lastWords(reader)
			return false
		}
		switch message, err := reader.next(limit); {
		case err == nil:
			c.enqueue(message)
		case !errors.Is(err, errDry):
			c.readFailed(err)
			return false
		}
		if waits && reader.dry() {
			return true
		}
	}
}

// waitForRoom blocks while the connection has all the requests in flight that
// it may have: TCP then pushes back, and nothing is refused (hole 15). Before
// the hello is answered there is room for one.
func (c *conn) waitForRoom() (limit int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.stage >= leaving:
			return 0, false
		case c.quieting: // no more requests
		case c.stage == greeting && c.inflight == 0:
			return maxGreeting, true
		case c.stage == open && c.inflight < c.g.cfg.MaxInflight && c.inBytes < c.g.cfg.MaxFrame:
			return maxMessage, true
		}
		c.paused = true
		c.room.Wait()
		c.paused = false
		c.stillThere() // not being read is no silence of the client's
	}
}

// inbound is a message that waits to be handled.
type inbound struct {
	text []byte
	// due is when the time to handle it is over, if the client reads its replies all
	// along: what [conn.held] grows by from now on is added.
	due time.Time
}

// enqueue hands a message to the working goroutine, which it starts if there is
// none. A ping is answered here, ahead of what waits.
func (c *conn) enqueue(message []byte) {
	if c.overtakes(message) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stage >= leaving {
		return
	}
	c.inbox = append(c.inbox, inbound{text: message, due: time.Now().Add(c.g.cfg.RequestTime - c.held)})
	c.inflight++
	c.inBytes += len(message)
	if !c.working {
		c.working = true
		c.g.sockets.Go(c.work)
	}
}

// maxOvertaking bounds, in bytes, a message that is looked at for being a ping.
const maxOvertaking = 1 << 10

// overtakes answers a ping at once, and reports whether message was one. It is the
// sign of life of clients without WebSocket pings, and says nothing if it has to wait
// for a store. A client that leaves its replies unread gets it in its turn.
func (c *conn) overtakes(message []byte) bool {
	if len(message) > maxOvertaking || !bytes.Contains(message, []byte(`"ping"`)) || c.at() != open || c.out.isOver(maxUnwritten) {
		return false
	}
	frame, rid, err := wire.Decode(message)
	if _, isPing := frame.(*wire.Ping); err != nil || !isPing {
		return false
	}
	if err := c.afford(); err != nil {
		c.fail(rid, err)
		return true
	}
	c.reply(&wire.Pong{RID: rid})
	return true
}

// readFailed says goodbye in the way that the reason asks for.
func (c *conn) readFailed(err error) {
	var closing *closeError
	stage := c.at()
	switch {
	case errors.As(err, &closing):
		c.leave(closeFrame(closing.code, closing.reason))
	case isTimeout(err) && stage == greeting:
		c.refuse("", unauthenticated("no hello within %v of connecting", c.g.cfg.HelloTime))
	case isTimeout(err) && stage == open:
		c.leave(closeFrame(errSlow.code, errSlow.reason))
	default:
		c.cut()
	}
	c.finishWriting(err)
}

// lastWords reads on, to no effect, until the client's close frame.
func (c *conn) lastWords(reader *frameReader) {
	for {
		if _, err := reader.next(maxMessage); err != nil && !errors.Is(err, errDry) {
			c.finishWriting(err)
			return
		}
	}
}

// finishWriting waits until what was queued is written, after reading ended with
// err. Closing a socket with unread bytes in it would reset the connection and
// lose the last frames, so what still comes is read until the client closes, or
// the time for it is up. After the client's close frame nothing comes.
func (c *conn) finishWriting(err error) {
	if !errors.Is(err, errClosed) {
		_, _ = io.Copy(io.Discard, c.nc)
	}
	c.out.waitEmpty()
}

// refuse answers with UNAUTHENTICATED, the one error that closes.
func (c *conn) refuse(rid string, e *impart.Error) {
	frame := wire.ErrorFrame{RID: rid, Err: e}
	if c.leave(textFrame(frame.Append), closeFrame(unauthenticatedStatus, string(e.Code))) {
		c.g.metrics.errors.WithLabelValues(string(e.Code)).Inc()
	}
}
