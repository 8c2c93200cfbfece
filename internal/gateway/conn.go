package gateway

import (
	"context"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobwas/ws"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/wire"
)

// stage is how far a connection has come.
type stage uint8

const (
	greeting stage = iota // no hello yet
	open                  // hello accepted
	leaving               // bye is queued; what still arrives is thrown away
	closed
)

// conn is one WebSocket connection. It has one reading goroutine; a working one
// only while requests wait and a flushing one only while frames wait, so that
// an idle connection costs little.
type conn struct {
	g         *Gateway
	id        uint64
	nc        net.Conn
	out       queue
	lastHeard atomic.Int64  // when bytes last arrived, as a time.Duration since the gateway started
	arrivals  atomic.Uint32 // counts what has arrived, so that "anything since?" can be asked

	mu         sync.Mutex // guards the rest
	room       sync.Cond  // on mu: the inbox has room, or the stage changed
	stage      stage
	subscribed bool
	fresh      bool           // a device that starts anew: subbed lists all its conversations
	working    bool           // there is a working goroutine
	paused     bool           // the reader waits for room
	quieting   bool           // no more requests are read: the server is draining
	more       bool           // lagging conversations beyond maxFlows
	session    impart.Session // fixed once open; before, its number is 0
	outdone    int64          // while greeting: the highest session of the device that was heard of
	issued     impart.Millis
	expires    impart.Millis
	inbox      []inbound
	held       time.Duration // for how long work has waited for the client to read replies
	inflight   int           // requests read and not answered
	inBytes    int           // their bytes
	typedIn    impart.ConvID // where and when it last said that somebody is typing
	typedAt    time.Time
	spentUntil time.Time // the request budget, as the time at which it is full again
	flows      map[impart.ConvID]*flow
	rtt        rtt
	interest   bus.Interest // what it makes a selective bus hear; nil before sub
	narrow     bool         // the interest is in the user's conversations alone
	leaveBy    time.Time    // set when the stage becomes leaving
	checkAt    time.Time    // the next full check is no earlier than this
}

func newConn(g *Gateway, nc net.Conn) *conn {
	c := &conn{g: g, id: g.nextID.Add(1), nc: nc}
	c.room.L = &c.mu
	c.out.init()
	c.heard()
	return c
}

// name is the connection's name in welcome and in logs.
func (c *conn) name() string { return strconv.FormatUint(c.id, 36) }

// identity is what the token said.
func (c *conn) identity() impart.Identity {
	c.mu.Lock()
	defer c.mu.Unlock()
	return impart.Identity{User: c.session.User, Issued: c.issued, Expires: c.expires}
}

// at is the connection's stage.
func (c *conn) at() stage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stage
}

// heard, began, ended, pinged and ponged implement peer.
func (c *conn) heard() {
	c.stillThere()
	c.arrivals.Add(1)
}

// stillThere starts the silence of the peer anew.
func (c *conn) stillThere() { c.lastHeard.Store(int64(time.Since(c.g.started))) }

func (c *conn) began() { c.readUntil(time.Now().Add(messageTime)) }
func (c *conn) ended() { c.readUntil(time.Time{}) }

// readUntil sets the deadline of an open connection. Before, that of the hello
// stands, and afterwards that of the closing.
func (c *conn) readUntil(deadline time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stage == open {
		_ = c.nc.SetReadDeadline(deadline)
	}
}

func (c *conn) pinged(payload []byte) error {
	if !c.spend(1) {
		return errFlood
	}
	c.flushIf(c.out.addPong(pongFrame(payload)))
	return nil
}

func (c *conn) ponged() { c.spend(1) }

// spend takes n requests from the connection's budget, which refills at
// MaxRate a second and holds one second's worth (GCRA).
func (c *conn) spend(n int) bool {
	if c.g.cfg.MaxRate < 0 {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.spentUntil.Before(now) {
		c.spentUntil = now
	}
	next := c.spentUntil.Add(time.Duration(float64(n) * float64(time.Second) / c.g.cfg.MaxRate))
	if next.Sub(now) > time.Second {
		return false
	}
	c.spentUntil = next
	return true
}

// reply queues a frame that must not be dropped.
func (c *conn) reply(frame wire.ServerFrame) { c.flushIf(c.out.add(textFrame(frame.Append))) }

// ping asks for a sign of life.
func (c *conn) ping() { c.flushIf(c.out.addPing()) }

// push queues frames that may be dropped for one hint.
func (c *conn) push(frames [][]byte) bool {
	taken, start := c.out.push(frames, c.g.cfg.QueueFrames, c.g.cfg.QueueBytes)
	c.flushIf(start)
	if !taken {
		c.g.metrics.dropped.Add(float64(len(frames)))
	}
	return taken
}

// bye says goodbye after what is already queued, and closes.
func (c *conn) bye(code wire.ByeCode, reconnect time.Duration) {
	bye := wire.Bye{Code: code, ReconnectAfter: reconnect}
	if c.leave(textFrame(bye.Append), closeFrame(ws.StatusCode(code.CloseCode()), string(code))) {
		c.g.metrics.byes.WithLabelValues(string(code)).Inc()
	}
}

// leave queues the last frames; the connection closes once they are written and
// answered, or after lingerTime. It reports whether it is the first to do so.
func (c *conn) leave(last ...[]byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stage >= leaving {
		return false
	}
	now := time.Now()
	c.stage, c.leaveBy = leaving, now.Add(lingerTime)
	c.inbox = nil
	c.room.Broadcast()
	_ = c.nc.SetWriteDeadline(now.Add(leaveTime)) // also of a write that is under way
	c.flushIf(c.out.finish(last...))
	return true
}

// cut closes without a word.
func (c *conn) cut() { _ = c.nc.Close() }

// end gives everything back when the reading goroutine ends.
func (c *conn) end() {
	c.mu.Lock()
	c.stage = closed
	c.inbox, c.flows = nil, nil
	c.room.Broadcast()
	c.mu.Unlock()
	c.out.close()
	_ = c.nc.Close()
	c.g.conns.remove(c)
	c.forgo()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.g.ctx), c.g.cfg.RequestTime)
	defer cancel()
	c.g.note(c.g.cfg.Pending.Drop(ctx, c.id))
	c.g.count.Add(-1)
}
