package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/gobwas/ws"
)

// client is a load generator's connection: it writes frames and counts frames,
// and does as little else as it can, since it runs on the same cores.
type client struct {
	nc   net.Conn
	read *bufio.Reader
	buf  []byte
}

func dial(b *testing.B, addr, user, device string, sub bool) *client {
	b.Helper()
	c, err := tryDial(addr, user, device, sub)
	check(b, err)
	b.Cleanup(func() { _ = c.nc.Close() })
	return c
}

func tryDial(addr, user, device string, sub bool) (*client, error) {
	nc, early, _, err := ws.Dialer{Protocols: []string{"impart.v1.json"}}.Dial(context.Background(), "ws://"+addr+"/v1/ws")
	if err != nil {
		return nil, err
	}
	c := &client{nc: nc, read: early}
	c.init()
	if err := c.request(`{"t":"hello","rid":"h","token":"%s","device":"%s","proto":1}`, user, device); err != nil {
		return nil, err
	}
	if sub {
		return c, c.request(`{"t":"sub","rid":"s"}`)
	}
	return c, nil
}

// init makes the reader that the handshake did not leave.
func (c *client) init() {
	if c.read == nil {
		c.read = bufio.NewReaderSize(c.nc, 16<<10)
	}
}

// write sends one frame.
func (c *client) write(text []byte) error {
	_, err := c.nc.Write(masked(text))
	return err
}

func masked(text []byte) []byte {
	return ws.MustCompileFrame(ws.MaskFrameInPlace(ws.NewTextFrame(bytes.Clone(text))))
}

// request sends one frame and reads frames until its answer.
func (c *client) request(format string, args ...any) error {
	if err := c.write(fmt.Appendf(nil, format, args...)); err != nil {
		return err
	}
	for {
		frame, err := c.next()
		if err != nil {
			return err
		}
		if bytes.HasPrefix(frame, []byte(`{"t":"error"`)) {
			return fmt.Errorf("server answered %s", frame)
		}
		if bytes.Contains(frame[:min(len(frame), 64)], []byte(`"rid":`)) {
			return nil
		}
	}
}

// next returns the text of the next data frame, valid until the next call.
func (c *client) next() ([]byte, error) {
	for {
		h, err := ws.ReadHeader(c.read)
		if err != nil {
			return nil, err
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
			if _, err := c.nc.Write(ws.MustCompileFrame(ws.MaskFrame(ws.NewPongFrame(c.buf)))); err != nil {
				return nil, err
			}
		case ws.OpClose:
			return nil, io.EOF
		}
	}
}
