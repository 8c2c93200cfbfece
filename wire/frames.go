// Package wire is the text of protocol v1: JSON frames to and from Go values,
// with every limit that a frame alone can break. It does no I/O and promises
// byte-exact text: what a store could not keep byte for byte is refused as
// BAD_FRAME and nothing is silently replaced.
package wire

import "github.com/impart-im/impart"

// Subprotocol is the WebSocket subprotocol of protocol v1.
const Subprotocol = "impart.v1.json"

// Proto is the protocol version that a hello must name.
const Proto = 1

// Frame is a frame from a client, as [Decode] returns it.
type Frame interface {
	// T is the frame's type, as it stands in its "t".
	T() string
}

// Hello is the first frame of a connection.
type Hello struct {
	RID      string
	Token    string
	Device   impart.DeviceID
	Install  string
	N        *int64
	Proto    int64 // 0 when absent
	History  *int64
	Features []string
}

// Sub starts live delivery.
type Sub struct{ RID string }

// Send stores a message. Type is "" when absent.
type Send struct {
	RID   string
	Conv  impart.ConvID
	CMID  impart.CMID
	Body  string
	Type  string
	Ext   []byte // as the client wrote it, or nil
	Prev  impart.CMID
	Epoch impart.Epoch
}

// Ack acknowledges one conversation or several. Batch tells the two forms apart.
type Ack struct {
	RID   string
	N     *int64
	Epoch impart.Epoch
	Batch bool
	Items []impart.AckItem
}

// Sync asks for a page after or before a seq.
type Sync struct {
	RID      string
	Conv     impart.ConvID
	After    *impart.Seq
	Before   *impart.Seq
	AfterMID impart.MID
	Limit    *int // nil when absent
	Epoch    impart.Epoch
}

// Pull asks for what the device lacks.
type Pull struct {
	RID   string
	Limit *int
}

// Convs pages through the user's conversations.
type Convs struct {
	RID   string
	After impart.ConvID
	Limit *int
}

// Read moves the user's read cursor.
type Read struct {
	RID   string
	Conv  impart.ConvID
	Seq   impart.Seq
	Epoch impart.Epoch
}

// Recall takes a message back.
type Recall struct {
	RID   string
	Conv  impart.ConvID
	Seq   impart.Seq
	CMID  impart.CMID
	MID   impart.MID
	Epoch impart.Epoch
}

// Who asks who has an event.
type Who struct {
	RID   string
	Conv  impart.ConvID
	Seq   impart.Seq
	After impart.UserID
	Limit *int
}

// Typing is ephemeral and has no reply.
type Typing struct {
	RID  string
	Conv impart.ConvID
}

// Ping is liveness from a client that cannot send WebSocket pings.
type Ping struct{ RID string }

// T implements [Frame].
func (*Hello) T() string { return "hello" }

// T implements [Frame].
func (*Sub) T() string { return "sub" }

// T implements [Frame].
func (*Send) T() string { return "send" }

// T implements [Frame].
func (*Ack) T() string { return "ack" }

// T implements [Frame].
func (*Sync) T() string { return "sync" }

// T implements [Frame].
func (*Pull) T() string { return "pull" }

// T implements [Frame].
func (*Convs) T() string { return "convs" }

// T implements [Frame].
func (*Read) T() string { return "read" }

// T implements [Frame].
func (*Recall) T() string { return "recall" }

// T implements [Frame].
func (*Who) T() string { return "who" }

// T implements [Frame].
func (*Typing) T() string { return "typing" }

// T implements [Frame].
func (*Ping) T() string { return "ping" }
