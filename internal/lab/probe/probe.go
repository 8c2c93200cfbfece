// Package probe is a device of the lab that speaks frames and nothing else: it
// repeats nothing, acknowledges nothing by itself and keeps every frame it heard,
// so that a check can look at the wire. It loses what it heard when it ends.
package probe

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

// Heard is one frame from the server.
type Heard struct {
	At    time.Time
	Frame wire.ServerFrame
	Text  string
}

// Conn is one connection. Its methods may be called by several goroutines.
type Conn struct {
	ws   *websocket.Conn
	note func(what, text string)
	done chan struct{} // closed when nothing more is read

	mu    sync.Mutex // guards what follows
	heard []Heard
	more  chan struct{} // closed and replaced when something was heard
	rid   int
	err   error // why it ended
	cut   bool  // by Close
}

// maxFrame is above every frame that a server may send.
const maxFrame = 8 << 20

// Dial connects to the server at addr ("127.0.0.1:8080"). note is told of each
// frame, by its type; nil is fine.
func Dial(ctx context.Context, addr string, note func(what, text string)) (*Conn, error) {
	ws, _, err := websocket.Dial(ctx, "ws://"+addr+"/v1/ws", &websocket.DialOptions{Subprotocols: []string{wire.Subprotocol}})
	if err != nil {
		return nil, fmt.Errorf("probe: %w", err)
	}
	ws.SetReadLimit(maxFrame)
	if note == nil {
		note = func(string, string) {}
	}
	c := &Conn{ws: ws, note: note, done: make(chan struct{}), more: make(chan struct{})}
	go c.read()
	return c, nil
}

func (c *Conn) read() {
	defer close(c.done)
	for {
		_, text, err := c.ws.Read(context.Background())
		if err != nil {
			c.noteEnd(err)
			c.mu.Lock()
			c.err = fmt.Errorf("probe: the connection ended: %w", err)
			close(c.more)
			c.mu.Unlock()
			return
		}
		frame, err := wire.DecodeServer(text)
		if err != nil && !errors.Is(err, wire.ErrUnknownFrame) {
			err = fmt.Errorf("probe: a frame that is none: %q: %w", text, err)
		}
		c.note(kindOf(frame), string(text))
		c.mu.Lock()
		c.heard = append(c.heard, Heard{time.Now(), frame, string(text)})
		c.err = errors.Join(c.err, err)
		close(c.more)
		c.more = make(chan struct{})
		c.mu.Unlock()
	}
}

// noteEnd tells how the connection ended: the device's own doing is no loss.
func (c *Conn) noteEnd(err error) {
	c.mu.Lock()
	cut := c.cut
	c.mu.Unlock()
	if cut {
		c.note("closed", "by the device")
		return
	}
	c.note("lost", err.Error())
}

// Close cuts the connection without a goodbye, as a dead phone does.
func (c *Conn) Close() {
	c.mu.Lock()
	c.cut = true
	c.mu.Unlock()
	_ = c.ws.CloseNow()
	<-c.done
}

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Heard gives all frames so far.
func (c *Conn) Heard() []Heard {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heard[:len(c.heard):len(c.heard)]
}

// Say writes one frame and waits for nothing.
func (c *Conn) Say(ctx context.Context, f wire.Frame) error {
	text := wire.AppendFrame(nil, f)
	c.note(f.T(), string(text))
	if err := c.ws.Write(ctx, websocket.MessageText, text); err != nil {
		return fmt.Errorf("probe: writing %s: %w", f.T(), err)
	}
	return nil
}

// Await gives the first frame from index from on that match accepts, and the
// index after it. It waits until ctx or the connection ends.
func (c *Conn) Await(ctx context.Context, from int, match func(wire.ServerFrame) bool) (Heard, int, error) {
	for i := from; ; {
		c.mu.Lock()
		heard, more, err := c.heard, c.more, c.err
		c.mu.Unlock()
		for ; i < len(heard); i++ {
			if match(heard[i].Frame) {
				return heard[i], i + 1, nil
			}
		}
		if err != nil {
			return Heard{}, i, err
		}
		select {
		case <-more:
		case <-ctx.Done():
			return Heard{}, i, context.Cause(ctx)
		}
	}
}

// Ask sends a request and waits for its reply, with a rid of its own. An error
// frame comes back as its *impart.Error.
func (c *Conn) Ask(ctx context.Context, f wire.Frame) (wire.ServerFrame, error) {
	c.mu.Lock()
	c.rid++
	rid, from := strconv.Itoa(c.rid), len(c.heard)
	c.mu.Unlock()
	if err := c.Say(ctx, wire.WithRID(f, rid)); err != nil {
		return nil, err
	}
	heard, _, err := c.Await(ctx, from, func(s wire.ServerFrame) bool { return ridOf(s) == rid })
	if err != nil {
		return nil, fmt.Errorf("no reply to %s: %w", f.T(), err)
	}
	if e, refused := heard.Frame.(*wire.ErrorFrame); refused {
		return nil, e.Err
	}
	return heard.Frame, nil
}

// Login says hello and starts live delivery: user on a device with an install.
func (c *Conn) Login(ctx context.Context, user impart.UserID, device impart.DeviceID, install string, n *int64) (*wire.Welcome, *wire.Subbed, error) {
	return c.LoginWith(ctx, "dev:"+string(user), device, install, n)
}

// LoginWith is Login with a token.
func (c *Conn) LoginWith(ctx context.Context, token string, device impart.DeviceID, install string, n *int64) (*wire.Welcome, *wire.Subbed, error) {
	reply, err := c.Ask(ctx, &wire.Hello{Token: token, Device: device, Install: install, N: n, Proto: wire.Proto})
	if err != nil {
		return nil, nil, err
	}
	welcome, ok := reply.(*wire.Welcome)
	if !ok {
		return nil, nil, fmt.Errorf("probe: hello was answered by %s", kindOf(reply))
	}
	if reply, err = c.Ask(ctx, &wire.Sub{}); err != nil {
		return nil, nil, err
	}
	subbed, ok := reply.(*wire.Subbed)
	if !ok {
		return nil, nil, fmt.Errorf("probe: sub was answered by %s", kindOf(reply))
	}
	return welcome, subbed, nil
}
