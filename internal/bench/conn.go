package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/gobwas/ws"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

// Of a connection: how long dialling, hello and sub may take together, and its
// read buffer, which there is one of for each of many thousand connections.
const (
	greetTime  = 30 * time.Second
	readBuffer = 2 << 10
)

// errClosed is the end of a connection by the server.
var errClosed = errors.New("the server closed the connection")

// conn is a load generator's connection. It does as little as it can, since it
// mostly runs on the cores of the server that it loads. One goroutine may read;
// any may write.
type conn struct {
	nc        net.Conn
	heartbeat time.Duration // of the server: one that is silent for longer is asked whether it lives

	read *bufio.Reader
	buf  []byte

	mu   sync.Mutex // guards what follows
	out  bytes.Buffer
	text []byte
}

// dial connects and says hello, and sub with live.
func dial(ctx context.Context, url string, user impart.UserID, token string, device impart.DeviceID, live bool) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, greetTime)
	defer cancel()
	nc, early, _, err := ws.Dialer{Protocols: []string{wire.Subprotocol}}.Dial(ctx, "ws"+strings.TrimPrefix(url, "http")+"/v1/ws")
	if err != nil {
		return nil, fmt.Errorf("connecting %s: %w", user, err)
	}
	c := &conn{nc: nc, read: early}
	if early == nil {
		c.read = bufio.NewReaderSize(nc, readBuffer)
	}
	// Not only the handshake ends with ctx, but what comes after it too.
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := c.greet(token, device, live); err != nil {
		c.close()
		return nil, fmt.Errorf("signing in %s: %w", user, err)
	}
	return c, nil
}

func (c *conn) greet(token string, device impart.DeviceID, live bool) error {
	hello := &wire.Hello{RID: "h", Token: token, Device: device, Proto: wire.Proto}
	welcome, err := ask[*wire.Welcome](c, hello)
	if err != nil {
		return err
	}
	c.heartbeat = welcome.Limits.Heartbeat
	if !live {
		return nil
	}
	_, err = ask[*wire.Subbed](c, &wire.Sub{RID: "s"})
	return err
}

// ask sends one frame and reads frames until its answer, which is an F; frames
// that come in between are lost. An error frame is its *impart.Error.
func ask[F wire.ServerFrame](c *conn, frame wire.Frame) (answer F, err error) {
	if err := c.write(frame); err != nil {
		return answer, err
	}
	for {
		got, err := c.next()
		if err != nil {
			return answer, err
		}
		switch f := got.(type) {
		case F:
			return f, nil
		case *wire.ErrorFrame:
			return answer, f.Err
		}
	}
}

// write sends frames with one system call.
func (c *conn) write(frames ...wire.Frame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.Reset()
	for _, f := range frames {
		c.text = wire.AppendFrame(c.text[:0], f)
		c.put(ws.OpText, c.text)
	}
	_, err := c.nc.Write(c.out.Bytes())
	return err
}

// put appends one masked frame to out. c.mu is held.
func (c *conn) put(code ws.OpCode, payload []byte) {
	mask := ws.NewMask()
	_ = ws.WriteHeader(&c.out, ws.Header{Fin: true, OpCode: code, Masked: true, Mask: mask, Length: int64(len(payload))}) // a buffer takes all
	from := c.out.Len()
	c.out.Write(payload)
	ws.Cipher(c.out.Bytes()[from:], mask, 0)
}

// next reads the next frame of a type that is known. A bye is its error.
func (c *conn) next() (wire.ServerFrame, error) {
	for {
		text, err := c.nextText()
		if err != nil {
			return nil, err
		}
		frame, err := wire.DecodeServer(text)
		switch {
		case errors.Is(err, wire.ErrUnknownFrame):
			continue
		case err != nil:
			return nil, fmt.Errorf("a frame that the protocol does not have: %w: %.200s", err, text)
		}
		if bye, is := frame.(*wire.Bye); is {
			return nil, fmt.Errorf("%w: bye %s", errClosed, bye.Code)
		}
		return frame, nil
	}
}

// nextText reads the text of the next data frame, which is valid until the next
// call. It answers pings.
func (c *conn) nextText() ([]byte, error) {
	for {
		h, err := ws.ReadHeader(c.read)
		if err != nil {
			return nil, err
		}
		if h.Length > impart.MaxPage*4 {
			return nil, fmt.Errorf("a frame of %d bytes", h.Length)
		}
		if cap(c.buf) < int(h.Length) {
			c.buf = make([]byte, h.Length)
		}
		c.buf = c.buf[:h.Length]
		if _, err := io.ReadFull(c.read, c.buf); err != nil {
			return nil, err
		}
		switch h.OpCode {
		case ws.OpText:
			return c.buf, nil
		case ws.OpPing:
			if err := c.pong(c.buf); err != nil {
				return nil, err
			}
		case ws.OpClose:
			code, reason := ws.ParseCloseFrameData(c.buf)
			return nil, fmt.Errorf("%w: %d %s", errClosed, code, reason)
		}
	}
}

// pong says that the client lives, in answer to a ping or before there is one.
func (c *conn) pong(payload []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.Reset()
	c.put(ws.OpPong, payload)
	_, err := c.nc.Write(c.out.Bytes())
	return err
}

func (c *conn) close() { _ = c.nc.Close() }
