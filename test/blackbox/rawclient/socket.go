package rawclient

import (
	"bufio"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Opcodes of RFC 6455.
const (
	OpContinuation = 0x0
	OpText         = 0x1
	OpBinary       = 0x2
	OpClose        = 0x8
	OpPing         = 0x9
	OpPong         = 0xA
)

// Socket is a WebSocket connection by hand, for frames no library would send: lying lengths, odd fragments, reserved
// bits. It answers nothing on its own.
type Socket struct {
	net.Conn
	// Response is the server's answer to the handshake, also when it was refused.
	Response *http.Response
	in       *bufio.Reader
}

// ErrRefused says that the server answered the handshake with something else than 101.
var ErrRefused = errors.New("the handshake was refused")

// DialSocket opens a TCP connection to address and makes the handshake with further header fields.
// With readBuffer > 0 the receive buffer is that small, so that a slow reader is felt soon.
func DialSocket(address string, header http.Header, readBuffer int) (*Socket, error) {
	tcp, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	if readBuffer > 0 {
		if err := tcp.(*net.TCPConn).SetReadBuffer(readBuffer); err != nil {
			tcp.Close()
			return nil, err
		}
	}
	s := &Socket{Conn: tcp, in: bufio.NewReaderSize(tcp, 4096)}
	if err := s.handshake(address, header); err != nil {
		tcp.Close()
		return s, err
	}
	return s, nil
}

func (s *Socket) handshake(address string, header http.Header) error {
	nonce := make([]byte, 16)
	rand.Read(nonce)
	key := base64.StdEncoding.EncodeToString(nonce)
	req, err := http.NewRequest("GET", "http://"+address+Path, nil)
	if err != nil {
		return err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "websocket")
	req.Header.Set("Sec-WebSocket-Version", "13")
	req.Header.Set("Sec-WebSocket-Key", key)
	req.Header.Set("Sec-WebSocket-Protocol", Subprotocol)
	if err := s.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if err := req.Write(s); err != nil {
		return err
	}
	if s.Response, err = http.ReadResponse(s.in, req); err != nil {
		return err
	}
	if s.Response.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("%w: %s", ErrRefused, s.Response.Status)
	}
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	if got := s.Response.Header.Get("Sec-WebSocket-Accept"); got != base64.StdEncoding.EncodeToString(sum[:]) {
		return fmt.Errorf("%w: wrong Sec-WebSocket-Accept %q", ErrRefused, got)
	}
	return s.SetDeadline(time.Time{})
}

// Text sends one whole text frame.
func (s *Socket) Text(payload string) error { return s.Frame(0x80|OpText, []byte(payload)) }

// Frame sends a masked frame whose first byte (FIN, reserved bits, opcode) is given as it is.
func (s *Socket) Frame(first byte, payload []byte) error {
	return s.Lie(first, uint64(len(payload)), payload)
}

// Lie sends a masked frame whose header claims another length than the payload has.
func (s *Socket) Lie(first byte, claimed uint64, payload []byte) error {
	buf := []byte{first}
	switch {
	case claimed < 126:
		buf = append(buf, 0x80|byte(claimed))
	case claimed <= 0xFFFF:
		buf = binary.BigEndian.AppendUint16(append(buf, 0x80|126), uint16(claimed))
	default:
		buf = binary.BigEndian.AppendUint64(append(buf, 0x80|127), claimed)
	}
	var mask [4]byte
	rand.Read(mask[:])
	buf = append(buf, mask[:]...)
	for i, b := range payload {
		buf = append(buf, b^mask[i%4])
	}
	if err := s.SetWriteDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	_, err := s.Write(buf)
	return err
}

// Unmasked sends a frame without the mask that RFC 6455 demands of clients.
func (s *Socket) Unmasked(first byte, payload string) error {
	_, err := s.Write(append([]byte{first, byte(len(payload))}, payload...))
	return err
}

// ReadFrame gives the next frame of the server within the time given. An end of the stream is io.EOF or a net.Error.
func (s *Socket) ReadFrame(within time.Duration) (ServerFrame, error) {
	if err := s.SetReadDeadline(time.Now().Add(within)); err != nil {
		return ServerFrame{}, err
	}
	return ReadServerFrame(s.in)
}

// ServerFrame is one frame of the server's direction: never masked.
type ServerFrame struct {
	First   byte // FIN, reserved bits and opcode
	Payload []byte
	Raw     []byte // header and payload as they came
}

// Opcode is the low half of the first byte.
func (f ServerFrame) Opcode() byte { return f.First & 0x0F }

// ReadServerFrame reads one frame; frames over 64 MiB are an error.
func ReadServerFrame(in io.Reader) (ServerFrame, error) {
	raw := make([]byte, 2, 10)
	if _, err := io.ReadFull(in, raw); err != nil {
		return ServerFrame{}, err
	}
	n := uint64(raw[1] & 0x7F)
	if long := map[uint64]int{126: 2, 127: 8}[n]; long > 0 {
		raw = raw[:2+long]
		if _, err := io.ReadFull(in, raw[2:]); err != nil {
			return ServerFrame{}, err
		}
		var wide [8]byte
		copy(wide[8-long:], raw[2:])
		n = binary.BigEndian.Uint64(wide[:])
	}
	if n > 64<<20 {
		return ServerFrame{}, fmt.Errorf("the server announces a frame of %d bytes", n)
	}
	head := len(raw)
	raw = append(raw, make([]byte, n)...)
	if _, err := io.ReadFull(in, raw[head:]); err != nil {
		return ServerFrame{}, err
	}
	return ServerFrame{First: raw[0], Payload: raw[head:], Raw: raw}, nil
}

// AwaitEnd reads until the server ends the connection and gives its close code, -1 when it sent none.
func (s *Socket) AwaitEnd(within time.Duration) (code int, err error) {
	end := time.Now().Add(within)
	code = -1
	for {
		f, err := s.ReadFrame(time.Until(end))
		var timeout net.Error
		switch {
		case errors.As(err, &timeout) && timeout.Timeout():
			return code, fmt.Errorf("the connection is still open after %v", within)
		case err != nil:
			return code, nil
		case f.Opcode() == OpClose && len(f.Payload) >= 2:
			code = int(binary.BigEndian.Uint16(f.Payload))
		}
	}
}
