package world

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/gobwas/ws"
)

// Frame is one frame on its way.
type Frame struct {
	FromServer bool
	T          string // its "t"; "" for pings, pongs and closes
	Text       []byte
}

// Fate is what happens to a frame.
type Fate int

// The fates of a frame.
const (
	Pass Fate = iota
	Drop
	Cut      // the connection ends in its place
	CutAfter // the connection ends behind it
	Twice    // it arrives twice
)

// Rule decides about each frame; it may sleep, which delays all that follow in
// that direction.
type Rule func(Frame) Fate

// Link is the network of one client.
type Link struct {
	w *World

	mu    sync.Mutex // guards what follows
	off   bool
	rule  Rule
	conns map[*relay]bool
	dials int
}

// Link makes the network of one more client.
func (w *World) Link() *Link {
	l := &Link{w: w, conns: map[*relay]bool{}}
	w.mu.Lock()
	w.links = append(w.links, l)
	w.mu.Unlock()
	return l
}

// HTTPClient dials through the link.
func (l *Link) HTTPClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx) },
		DisableKeepAlives: true,
	}}
}

// Rule sets what happens to frames from now on; nil: all pass.
func (l *Link) Rule(rule Rule) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rule = rule
}

// Off refuses new connections and cuts the present one; On lets them through again.
func (l *Link) Off() {
	l.mu.Lock()
	l.off = true
	l.mu.Unlock()
	l.Cut()
}

// On ends Off.
func (l *Link) On() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.off = false
}

// Dials counts the attempts to connect.
func (l *Link) Dials() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dials
}

// Cut ends the present connections.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := range l.conns {
		r.cut()
	}
}

var errUnreachable = errors.New("the server is not reachable")

func (l *Link) dial(ctx context.Context) (net.Conn, error) {
	l.mu.Lock()
	l.dials++
	off := l.off
	l.mu.Unlock()
	l.w.mu.Lock()
	down, accept := l.w.down, l.w.accept
	l.w.mu.Unlock()
	if off || down {
		return nil, errUnreachable
	}
	client, clientEnd := net.Pipe()
	server, serverEnd := net.Pipe()
	r := &relay{link: l, client: clientEnd, server: serverEnd}
	l.mu.Lock()
	l.conns[r] = true
	l.mu.Unlock()
	l.w.closing.Go(r.run)
	if err := accept.Hand(ctx, server); err != nil {
		r.cut()
		if errors.Is(err, net.ErrClosed) {
			err = errUnreachable
		}
		return nil, err
	}
	return client, nil
}

// relay carries one connection, frame by frame.
type relay struct {
	link           *Link
	client, server net.Conn // the relay's ends
	once           sync.Once
}

func (r *relay) cut() {
	r.once.Do(func() {
		_ = r.client.Close()
		_ = r.server.Close()
	})
}

func (r *relay) run() {
	var both sync.WaitGroup
	both.Go(func() { r.carry(r.client, r.server, false) })
	both.Go(func() { r.carry(r.server, r.client, true) })
	both.Wait()
	r.link.mu.Lock()
	delete(r.link.conns, r)
	r.link.mu.Unlock()
}

// carry copies one direction until an end is closed.
func (r *relay) carry(from io.Reader, to io.Writer, fromServer bool) {
	defer r.cut()
	in := bufio.NewReader(from)
	head, err := handshake(in)
	if err != nil || write(to, head) != nil {
		return
	}
	if fromServer && !bytes.HasPrefix(head, []byte("HTTP/1.1 101")) {
		_, _ = io.Copy(to, in) // a refusal, in plain HTTP
		return
	}
	for {
		frame, err := readFrame(in)
		if err != nil {
			return
		}
		raw := ws.MustCompileFrame(frame)
		switch r.fate(frame, fromServer) {
		case Drop:
		case Cut:
			return
		case CutAfter:
			_ = write(to, raw)
			return
		case Twice:
			if write(to, append(raw, raw...)) != nil {
				return
			}
		default:
			if write(to, raw) != nil {
				return
			}
		}
	}
}

// maxFrame bounds a frame on a link, in bytes; a server closes on far less.
const maxFrame = 32 << 20

func readFrame(in io.Reader) (ws.Frame, error) {
	header, err := ws.ReadHeader(in)
	if err == nil && header.Length > maxFrame {
		err = errors.New("the frame is too large")
	}
	if err != nil {
		return ws.Frame{}, err
	}
	frame := ws.Frame{Header: header, Payload: make([]byte, header.Length)}
	_, err = io.ReadFull(in, frame.Payload)
	return frame, err
}

func write(to io.Writer, data []byte) error {
	_, err := to.Write(data)
	return err
}

// handshake reads the head of a request or of a response.
func handshake(in *bufio.Reader) ([]byte, error) {
	var head []byte
	for !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		head = append(head, line...)
	}
	return head, nil
}

func (r *relay) fate(frame ws.Frame, fromServer bool) Fate {
	r.link.mu.Lock()
	rule := r.link.rule
	r.link.mu.Unlock()
	if rule == nil {
		return Pass
	}
	f := Frame{FromServer: fromServer}
	if frame.Header.OpCode == ws.OpText {
		f.Text = frame.Payload
		if frame.Header.Masked {
			f.Text = bytes.Clone(frame.Payload)
			ws.Cipher(f.Text, frame.Header.Mask, 0)
		}
		f.T = typeOf(f.Text)
	}
	fate := rule(f)
	r.link.Seen()
	return fate
}

// Seen makes what rules have noted by now safe to read: whoever calls it comes
// after every rule that has returned.
func (l *Link) Seen() {
	l.mu.Lock()
	defer l.mu.Unlock()
}

// typeOf is the "t" of a frame, which both sides write first.
func typeOf(text []byte) string {
	rest, found := bytes.CutPrefix(text, []byte(`{"t":"`))
	if !found {
		return ""
	}
	name, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(name)
}
