package gateway

import (
	"bufio"
	"bytes"
	"io"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gobwas/ws"
)

// This file and accept.go are the only ones that know the WebSocket library.

// Bounds on what a client may send at the level of WebSocket frames.
const (
	// maxMessage is the largest message that is read at all; a larger one closes
	// with 1009. Messages between Config.MaxFrame and this get TOO_LARGE.
	maxMessage = 4 << 20
	// maxFragments bounds a message of many tiny fragments.
	maxFragments = 4096
	// readAhead is how much of a claimed length is allocated before bytes arrive.
	readAhead = 64 << 10
	// messageTime is how long one message may take to arrive.
	messageTime = time.Minute
	// readBuffer is lent to a connection while it is read.
	readBuffer = 4 << 10
)

// closeError is a reason to close that is sent as a WebSocket status.
type closeError struct {
	code   ws.StatusCode
	reason string
}

func (e *closeError) Error() string { return e.reason }

var (
	errTooBig   = &closeError{ws.StatusMessageTooBig, "message larger than 4 MiB, or 64 KiB before the hello"}
	errNotText  = &closeError{ws.StatusUnsupportedData, "only text messages are understood"}
	errNotUTF8  = &closeError{ws.StatusInvalidFramePayloadData, "text is not valid UTF-8"}
	errProtocol = &closeError{ws.StatusProtocolError, "WebSocket protocol error"}
	errFlood    = &closeError{ws.StatusPolicyViolation, "too many control frames or fragments"}
	errSlow     = &closeError{ws.StatusPolicyViolation, "the message did not arrive in time"}
	// errDry is no reason to close: a control frame was all there was.
	errDry = &closeError{}
	// errClosed is the client's own close frame.
	errClosed = &closeError{ws.StatusNormalClosure, ""}
)

// frameReader reads text messages from one connection.
type frameReader struct {
	buf    *bufio.Reader
	peer   peer
	header [ws.MaxHeaderSize]byte
}

// peer is told what arrives between messages.
type peer interface {
	// heard: bytes have arrived.
	heard()
	// began: a message has arrived in part. ended: and nothing waits for the rest
	// any more.
	began()
	ended()
	// pinged: answer with the payload, which is the callee's. An error ends the reading.
	pinged(payload []byte) error
	// ponged: the peer is alive.
	ponged()
}

// newFrameReader reads what came early, together with the handshake, and then
// from source.
func newFrameReader(source io.Reader, early []byte, peer peer) *frameReader {
	if len(early) > 0 {
		source = io.MultiReader(bytes.NewReader(early), source)
	}
	r := frameReaders.Get().(*frameReader) //nolint:forcetypeassert // nothing else is in the pool
	r.buf.Reset(source)
	r.peer = peer
	return r
}

var frameReaders = sync.Pool{New: func() any { return &frameReader{buf: bufio.NewReaderSize(nil, readBuffer)} }}

// release gives the reader back once it is dry, or what is in it does not matter.
func (r *frameReader) release() {
	r.buf.Reset(nil)
	r.peer = nil
	frameReaders.Put(r)
}

// dry reports whether everything that was taken off the socket has been read.
func (r *frameReader) dry() bool { return r.buf.Buffered() == 0 }

// next returns the next text message, of at most limit bytes, which belong to
// the caller. A *closeError says with which status to close; any other error
// means that the connection is gone or that its deadline has passed.
func (r *frameReader) next(limit int) ([]byte, error) {
	var message []byte
	state, began := ws.StateServerSide, false
	defer func() {
		if began {
			r.peer.ended()
		}
	}()
	for fragments := 0; ; {
		header, err := ws.ReadHeaderBuffer(r.buf, r.header[:])
		if err != nil {
			return nil, err
		}
		r.peer.heard()
		if err := ws.CheckHeader(header, state); err != nil {
			return nil, errProtocol
		}
		if header.OpCode.IsControl() {
			if err := r.control(header); err != nil {
				return nil, err
			}
			if fragments == 0 && r.dry() {
				return nil, errDry
			}
			continue
		}
		if header.OpCode == ws.OpBinary {
			return nil, errNotText
		}
		if fragments++; fragments > maxFragments {
			return nil, errFlood
		}
		if header.Length > int64(limit-len(message)) {
			return nil, errTooBig
		}
		if !began && (!header.Fin || header.Length > int64(r.buf.Buffered())) {
			began = true
			r.peer.began()
		}
		if message, err = r.payload(message, header); err != nil {
			return nil, err
		}
		if header.Fin {
			if !utf8.Valid(message) {
				return nil, errNotUTF8
			}
			return message, nil
		}
		state = state.Set(ws.StateFragmented)
	}
}

// payload appends the unmasked payload of a frame. It allocates as bytes
// arrive, so that a lying length costs at most readAhead.
func (r *frameReader) payload(message []byte, header ws.Header) ([]byte, error) {
	start, left := len(message), int(header.Length)
	if message == nil {
		message = make([]byte, 0, min(left, readAhead))
	}
	for left > 0 {
		n := min(left, readAhead)
		at := len(message)
		message = append(message, make([]byte, n)...)
		if _, err := io.ReadFull(r.buf, message[at:]); err != nil {
			return nil, err
		}
		r.peer.heard()
		left -= n
	}
	ws.Cipher(message[start:], header.Mask, 0)
	return message, nil
}

func (r *frameReader) control(header ws.Header) error {
	payload := make([]byte, header.Length)
	if _, err := io.ReadFull(r.buf, payload); err != nil {
		return err
	}
	ws.Cipher(payload, header.Mask, 0)
	switch header.OpCode {
	case ws.OpPing:
		return r.peer.pinged(payload)
	case ws.OpPong:
		r.peer.ponged()
		return nil
	default:
		if len(payload) == 0 {
			return errClosed
		}
		code, reason := ws.ParseCloseFrameData(payload)
		if ws.CheckCloseFrameData(code, reason) != nil {
			return errProtocol
		}
		return errClosed
	}
}

// textFrame is a whole WebSocket frame around the JSON text that write appends,
// ready to be sent to any number of connections.
func textFrame(write func([]byte) []byte) []byte {
	const room = ws.MaxHeaderSize
	text := write(make([]byte, room, room+256))
	header := ws.Header{Fin: true, OpCode: ws.OpText, Length: int64(len(text) - room)}
	// The header goes right in front of the text, so that the text is not copied.
	size := ws.HeaderSize(header)
	_ = ws.WriteHeader(bytes.NewBuffer(text[room-size:room-size]), header)
	return text[room-size:]
}

func pongFrame(payload []byte) []byte {
	return ws.MustCompileFrame(ws.NewPongFrame(payload))
}

var pingFrame = ws.MustCompileFrame(ws.NewPingFrame(nil))

func closeFrame(code ws.StatusCode, reason string) []byte {
	return ws.MustCompileFrame(ws.NewCloseFrame(ws.NewCloseFrameBody(code, reason)))
}
