package rawclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// Subprotocol is the only one of version 1.
const Subprotocol = "impart.v1.json"

// Path is where the server takes WebSocket handshakes.
const Path = "/v1/ws"

// maxFrames bounds what one connection records: a test that needs more has lost control of the server.
const maxFrames = 400_000

// ErrClosed says that the connection ended before what was waited for came.
var ErrClosed = errors.New("the connection is closed")

// DialOptions changes the handshake. The zero value is what a correct client sends.
type DialOptions struct {
	// Header is added to the handshake request.
	Header http.Header
	// Query is appended to the URL, without the question mark.
	Query string
	// IgnorePings leaves the server's WebSocket pings unanswered.
	IgnorePings bool
}

// Conn is one WebSocket connection that records every frame it receives until it is closed.
// All methods may be used from several goroutines.
type Conn struct {
	ws   *websocket.Conn
	done chan struct{}

	mu      sync.Mutex
	frames  []Frame
	changed chan struct{} // closed and replaced on every new frame
	err     error         // why reading ended
}

// Dial opens a connection to address ("127.0.0.1:8080"). The response is given on success and on a refused handshake.
func Dial(ctx context.Context, address string, o DialOptions) (*Conn, *http.Response, error) {
	url := "ws://" + address + Path
	if o.Query != "" {
		url += "?" + o.Query
	}
	opts := &websocket.DialOptions{Subprotocols: []string{Subprotocol}, HTTPHeader: o.Header}
	if o.IgnorePings {
		opts.OnPingReceived = func(context.Context, []byte) bool { return false }
	}
	ws, resp, err := websocket.Dial(ctx, url, opts)
	if err != nil {
		return nil, resp, fmt.Errorf("dial %s: %w", url, err)
	}
	ws.SetReadLimit(64 << 20)
	c := &Conn{ws: ws, done: make(chan struct{}), changed: make(chan struct{})}
	go c.read()
	return c, resp, nil
}

func (c *Conn) read() {
	defer close(c.done)
	for {
		_, raw, err := c.ws.Read(context.Background())
		if err == nil {
			err = c.record(raw)
		}
		if err != nil {
			c.mu.Lock()
			c.err = err
			close(c.changed)
			c.mu.Unlock()
			c.ws.CloseNow()
			return
		}
	}
}

func (c *Conn) record(raw []byte) error {
	o, err := ParseObject(raw)
	if err != nil {
		return fmt.Errorf("the server sent a frame that is no object: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.frames) == maxFrames {
		return errors.New("more frames than a test may record")
	}
	c.frames = append(c.frames, Frame{Object: o, Raw: raw, At: time.Now()})
	close(c.changed)
	c.changed = make(chan struct{})
	return nil
}

// Text sends one text frame as it is. It waits at most 20 s for the socket.
func (c *Conn) Text(raw string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return c.ws.Write(ctx, websocket.MessageText, []byte(raw))
}

// JSON sends v as one text frame.
func (c *Conn) JSON(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.Text(string(raw))
}

// Since gives the frames from index mark on and a channel that is closed at the next frame or at the end;
// err says why reading ended, nil while it has not.
func (c *Conn) Since(mark int) (frames []Frame, changed <-chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if mark < len(c.frames) {
		frames = c.frames[mark:len(c.frames):len(c.frames)]
	}
	return frames, c.changed, c.err
}

// Frames gives everything received so far.
func (c *Conn) Frames() []Frame { f, _, _ := c.Since(0); return f }

// Mark is the number of frames received so far: a place from which Wait and Since can look on.
func (c *Conn) Mark() int { return len(c.Frames()) }

// Wait gives the first frame from index mark on that fits, waiting until ctx ends or the connection is closed (ErrClosed).
func (c *Conn) Wait(ctx context.Context, mark int, fits func(Frame) bool) (Frame, error) {
	for {
		frames, changed, err := c.Since(mark)
		for _, f := range frames {
			if fits(f) {
				return f, nil
			}
		}
		if err != nil {
			return Frame{}, fmt.Errorf("%w: %w", ErrClosed, err)
		}
		mark += len(frames)
		select {
		case <-changed:
		case <-ctx.Done():
			return Frame{}, ctx.Err()
		}
	}
}

// Reply waits for the one frame that carries rid.
func (c *Conn) Reply(ctx context.Context, rid string) (Frame, error) {
	return c.Wait(ctx, 0, func(f Frame) bool { return f.Str("rid") == rid })
}

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// CloseCode is the WebSocket close code with which the server ended the connection; -1 when there was none.
// It is meaningful after Done.
func (c *Conn) CloseCode() int {
	_, _, err := c.Since(0)
	return int(websocket.CloseStatus(err))
}

// Ping sends a WebSocket ping and waits for its pong.
func (c *Conn) Ping(ctx context.Context) error { return c.ws.Ping(ctx) }

// Close drops the connection without a closing handshake, as a phone does, and waits for the reader.
func (c *Conn) Close() {
	c.ws.CloseNow()
	<-c.done
}

// CloseNormally says good-bye with close code 1000 and waits for the reader.
func (c *Conn) CloseNormally() {
	// The server may be gone already: what matters is that nothing is left running here.
	_ = c.ws.Close(websocket.StatusNormalClosure, "")
	<-c.done
}
