package wire

import (
	"time"

	"github.com/impart-im/impart"
)

// ServerFrame is a frame to a client.
type ServerFrame interface {
	// Append appends the frame's JSON text to dst.
	Append(dst []byte) []byte
	// AppendBody appends the same object without "t" and "rid", as HTTP answers it.
	AppendBody(dst []byte) []byte
}

// Limits are what a welcome tells of the server.
type Limits struct {
	Body      int           // bytes of a message body
	Frame     int           // bytes of a frame
	Inflight  int           // requests without a reply
	AckEvery  int           // events after which the client acks
	Heartbeat time.Duration // how often the server pings
}

// Welcome answers a hello.
type Welcome struct {
	RID      string
	User     impart.UserID
	Device   impart.DeviceID
	Install  impart.InstallEpoch
	Conn     string
	Epoch    impart.Epoch
	Now      impart.Millis
	N        int64
	Features []string
	Limits   Limits
}

// Subbed answers a sub.
type Subbed struct {
	RID   string
	Convs []impart.ConvState
	More  bool
	Epoch impart.Epoch
}

// Sent answers a send or a recall that has committed.
type Sent struct {
	RID  string
	Sent impart.Sent
}

// Acked answers an ack in the form it came in.
type Acked struct {
	RID   string
	Batch bool
	Items []impart.Acked // exactly one, without error, unless Batch
}

// Synced answers a sync. Back leaves out "through".
type Synced struct {
	RID  string
	Back bool
	Page impart.Page
}

// Pulled answers a pull.
type Pulled struct {
	RID    string
	Pulled impart.Pulled
}

// ConvsPage answers a convs.
type ConvsPage struct {
	RID  string
	Page impart.ConvsPage
}

// Readed answers a read.
type Readed struct {
	RID  string
	Conv impart.ConvID
	Read impart.Seq
}

// Whos answers a who.
type Whos struct {
	RID    string
	Conv   impart.ConvID
	Seq    impart.Seq
	Report impart.Report
}

// Event is a live push.
type Event struct {
	Event *impart.Event
	Epoch impart.Epoch
}

// Hint says that the device is behind. Conv is "" for "pull everything".
type Hint struct {
	Conv  impart.ConvID
	Head  impart.Seq
	Epoch impart.Epoch
	Why   string // WhySweep …
}

// Why a hint is sent.
const (
	WhySweep    = "sweep"
	WhyOverflow = "overflow"
	WhyRetry    = "retry"
	WhyResume   = "resume"
)

// Receipt says how far a user has come.
type Receipt struct {
	Conv      impart.ConvID
	User      impart.UserID
	Delivered impart.Seq
	Read      impart.Seq
}

// TypingNote says that a user is typing.
type TypingNote struct {
	Conv impart.ConvID
	User impart.UserID
}

// Pong answers a ping.
type Pong struct{ RID string }

// ErrorFrame refuses a request.
type ErrorFrame struct {
	RID string
	Err *impart.Error
	// Retry is what the frame said, for a client that does not know the code. Append
	// goes by the code instead.
	Retry bool
}

// Bye is the last frame of a connection that the server closes.
type Bye struct {
	Code           ByeCode
	ReconnectAfter time.Duration
}

// ByeCode says why the server closes a connection.
type ByeCode string

// The reasons to close.
const (
	ByeDrain      ByeCode = "DRAIN"
	ByeSuperseded ByeCode = "SUPERSEDED"
	ByeIdle       ByeCode = "IDLE"
	ByeExpired    ByeCode = "EXPIRED"
	ByeRevoked    ByeCode = "REVOKED"
)

// Final reports whether the client must not reconnect by itself.
func (c ByeCode) Final() bool { return c == ByeSuperseded || c == ByeRevoked }
