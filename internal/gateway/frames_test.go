package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/gobwas/ws"
)

// heardPeer records what a frameReader reports.
type heardPeer struct {
	pings [][]byte
	pongs int
}

func (p *heardPeer) heard()                {}
func (p *heardPeer) began()                {}
func (p *heardPeer) ended()                {}
func (p *heardPeer) pinged(b []byte) error { p.pings = append(p.pings, b); return nil }
func (p *heardPeer) ponged()               { p.pongs++ }

func stream(frames ...ws.Frame) []byte {
	var b bytes.Buffer
	for _, f := range frames {
		_ = ws.WriteFrame(&b, ws.MaskFrame(f))
	}
	return b.Bytes()
}

func readAll(raw []byte, limit int) (messages []string, peer *heardPeer, err error) {
	peer = &heardPeer{}
	r := newFrameReader(bytes.NewReader(raw), nil, peer)
	for {
		var m []byte
		m, err = r.next(limit)
		if errors.Is(err, errDry) {
			continue
		}
		if err != nil {
			return messages, peer, err
		}
		messages = append(messages, string(m))
	}
}

func TestFrames(t *testing.T) {
	unmasked := func(f ws.Frame) []byte { return ws.MustCompileFrame(f) }
	part := func(op ws.OpCode, fin bool, s string) ws.Frame { return ws.NewFrame(op, fin, []byte(s)) }
	for _, c := range []struct {
		name string
		raw  []byte
		want []string
		err  error // nil: the end of the stream
	}{
		{"one", stream(ws.NewTextFrame([]byte("hi"))), []string{"hi"}, nil},
		{"empty", stream(ws.NewTextFrame(nil)), []string{""}, nil},
		{"fragments with a ping between", stream(part(ws.OpText, false, "a"), ws.NewPingFrame([]byte("p")), part(ws.OpContinuation, false, "b"), part(ws.OpContinuation, true, "c")), []string{"abc"}, nil},
		{"a character over two fragments", stream(part(ws.OpText, false, "\xe4\xb8"), part(ws.OpContinuation, true, "\xad")), []string{"中"}, nil},
		{"large", stream(ws.NewTextFrame(bytes.Repeat([]byte("x"), 70_000))), []string{strings.Repeat("x", 70_000)}, nil},
		{"too large", stream(ws.NewTextFrame(bytes.Repeat([]byte("x"), 100_001))), nil, errTooBig},
		{"too large in fragments", stream(part(ws.OpText, false, strings.Repeat("x", 60_000)), part(ws.OpContinuation, true, strings.Repeat("x", 60_000))), nil, errTooBig},
		{"a lying length", append(stream(ws.NewTextFrame([]byte("ok"))), 0x81, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0), []string{"ok"}, errTooBig},
		{"binary", stream(ws.NewBinaryFrame([]byte("x"))), nil, errNotText},
		{"not UTF-8", stream(ws.NewTextFrame([]byte("a\xff"))), nil, errNotUTF8},
		{"half a character", stream(ws.NewTextFrame([]byte("\xe4\xb8"))), nil, errNotUTF8},
		{"a surrogate in UTF-8", stream(ws.NewTextFrame([]byte("\xed\xa0\x80"))), nil, errNotUTF8},
		{"not masked", unmasked(ws.NewTextFrame([]byte("hi"))), nil, errProtocol},
		{"reserved bits", []byte{0xf1, 0x80, 0, 0, 0, 0}, nil, errProtocol},
		{"reserved opcode", []byte{0x83, 0x80, 0, 0, 0, 0}, nil, errProtocol},
		{"continuation of nothing", stream(part(ws.OpContinuation, true, "x")), nil, errProtocol},
		{"text inside a text", stream(part(ws.OpText, false, "x"), part(ws.OpText, true, "y")), nil, errProtocol},
		{"a ping in fragments", []byte{0x09, 0x80, 0, 0, 0, 0}, nil, errProtocol},
		{"a close", stream(ws.NewTextFrame([]byte("hi")), ws.NewCloseFrame(ws.NewCloseFrameBody(1000, ""))), []string{"hi"}, errClosed},
		{"a close with a bad status", stream(ws.NewCloseFrame([]byte{0x03, 0xed})), nil, errProtocol},
		{"very many fragments", stream(append([]ws.Frame{part(ws.OpText, false, "")}, repeat(part(ws.OpContinuation, false, ""), maxFragments)...)...), nil, errFlood},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _, err := readAll(c.raw, 100_000)
			if strings.Join(got, "|") != strings.Join(c.want, "|") {
				t.Errorf("read %q, want %q", got, c.want)
			}
			if c.err == nil && !errors.Is(err, io.EOF) || c.err != nil && !errors.Is(err, c.err) {
				t.Errorf("ended with %v, want %v", err, c.err)
			}
		})
	}
}

func repeat(f ws.Frame, n int) []ws.Frame {
	frames := make([]ws.Frame, n)
	for i := range frames {
		frames[i] = f
	}
	return frames
}

// A header that claims much and delivers nothing costs next to nothing.
func TestALyingLengthCostsLittle(t *testing.T) {
	raw := []byte{0x81, 0xff, 0, 0, 0, 0, 0, 0x3f, 0xff, 0xff, 0, 0, 0, 0, 'x'} // 4 MiB - 1 announced, one byte sent
	got := testing.AllocsPerRun(10, func() { _, _, _ = readAll(raw, maxMessage) })
	r := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _, _ = readAll(raw, maxMessage)
		}
	})
	if bytes := r.AllocedBytesPerOp(); bytes > 3*readAhead {
		t.Errorf("a claim of 4 MiB cost %d bytes in %v allocations", bytes, got)
	}
}

// readServerFrame reads one whole frame of the server.
func readServerFrame(r io.Reader) (ws.Frame, error) {
	header, err := ws.ReadHeader(r)
	if err != nil {
		return ws.Frame{}, err
	}
	if header.Length > maxMessage {
		return ws.Frame{}, fmt.Errorf("a frame of %d bytes", header.Length)
	}
	f := ws.Frame{Header: header, Payload: make([]byte, header.Length)}
	_, err = io.ReadFull(r, f.Payload)
	return f, err
}

func TestTextFrame(t *testing.T) {
	for _, n := range []int{0, 1, 125, 126, 65_535, 65_536, 1 << 20} {
		text := strings.Repeat("x", n)
		raw := textFrame(func(dst []byte) []byte { return append(dst, text...) })
		f, err := readServerFrame(bytes.NewReader(raw))
		if err != nil || string(f.Payload) != text || !f.Header.Fin || f.Header.Masked || f.Header.OpCode != ws.OpText {
			t.Errorf("a text of %d bytes does not come back: %v", n, err)
		}
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(stream(ws.NewTextFrame([]byte(`{"t":"ping"}`)), ws.NewPingFrame(nil)))
	f.Add([]byte{0x81, 0xff, 0, 0, 0, 0, 0, 0x3f, 0xff, 0xff, 0, 0, 0, 0, 'x'})
	f.Add([]byte{0x01, 0x81, 1, 2, 3, 4, 5, 0x80, 0x80, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		messages, peer, err := readAll(raw, 1<<16)
		if err == nil {
			t.Fatal("a finite stream did not end")
		}
		total := 0
		for _, m := range messages {
			if total += len(m); !isText(m) {
				t.Errorf("%q was let through", m)
			}
		}
		for _, p := range peer.pings {
			total += len(p)
		}
		if total > len(raw) {
			t.Errorf("%d bytes came out of %d", total, len(raw))
		}
	})
}

func isText(s string) bool { return strings.ToValidUTF8(s, "") == s }
