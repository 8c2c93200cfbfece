// Package impart holds the words that every part of Impart shares: ids, events,
// membership periods, errors, and the port [Logic] that a gateway or an HTTP
// handler calls. It promises names and shapes, does no I/O, and needs nothing
// but the standard library.
package impart

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Ids are opaque text, compared byte for byte. UserID, DeviceID and ConvID are
// 1..128 bytes, CMID is 1..64 bytes; see [CheckID] for the characters.
type (
	UserID   string
	DeviceID string // scoped by its user: (UserID, DeviceID) names a device
	ConvID   string
	CMID     string // the client's id of one message, reused unchanged on every retry
	MID      string // the server's id of a stored event: unique, time-ordered
)

// Seq is a position in one conversation's log: 1, 2, 3 … with no holes. 0 is
// the position before the first event.
type Seq int64

// Epoch names the history that seqs belong to, for the whole store. It starts
// at 1; 0 in a request means "the current one".
type Epoch int64

// InstallEpoch counts the local stores a device has had; it starts at 1.
type InstallEpoch int64

// Millis is a time in milliseconds since 1970-01-01 UTC.
type Millis int64

// MaxNumber is the highest number that may appear in a frame: 2^53 - 1, so that
// every client language keeps it exactly.
const MaxNumber = 1<<53 - 1

// System is the sender of join and leave events and of messages that the
// operator sends. Nobody can log in under this name.
const System UserID = "system"

// Limits on ids, in bytes.
const (
	MaxID   = 128
	MaxCMID = 64
	MaxType = 64
	MaxRID  = 64
	MaxExt  = 4 << 10
)

// Limits on counts.
const (
	DefaultLimit = 100  // events or conversations a page
	MaxLimit     = 1000 // events, conversations or acks a request
	MaxPage      = 1 << 20
	// MaxReceipts is the largest number of members with which a conversation
	// still sends receipts.
	MaxReceipts = 50
)

// DefaultType is the content type of a message that names none.
const DefaultType = "text"

// Kind says what an event is.
type Kind string

// The kinds of events. Clients store and acknowledge kinds they do not know.
const (
	KindMsg    Kind = "msg"
	KindRecall Kind = "recall"
	KindJoin   Kind = "join"
	KindLeave  Kind = "leave"
	KindMeta   Kind = "meta"
)

// Event is one entry of a conversation's log.
type Event struct {
	Conv   ConvID
	Seq    Seq
	Kind   Kind
	MID    MID
	Sender UserID
	Device DeviceID // the device whose connection sent it, or "" (HTTP, system); never leaves the server
	CMID   CMID
	Type   string
	Body   string // "" once recalled
	Ext    []byte // a JSON object as the sender wrote it, or nil; nil once recalled
	At     Millis
	// Target and TargetMID are set on recall events; TargetMID names the recalled message.
	Target    Seq
	TargetMID MID
	// User and By are set on join and leave events: who joined or left, and who did it.
	User     UserID
	By       UserID
	Recalled bool
}

// Period is one span of membership in seqs, both ends included. To is 0 while
// the period is open.
//
// Invariant: From >= 1, and To == 0 or To >= From.
type Period struct {
	From Seq
	To   Seq
}

// Covers reports whether seq lies within the period.
func (p Period) Covers(seq Seq) bool { return seq >= p.From && (p.To == 0 || seq <= p.To) }

// Periods are one user's memberships of one conversation, ascending and
// disjoint. No periods means that the conversation is not theirs.
type Periods []Period

// Covers reports whether any period covers seq.
func (ps Periods) Covers(seq Seq) bool {
	for i := len(ps) - 1; i >= 0; i-- {
		if ps[i].Covers(seq) {
			return true
		}
	}
	return false
}

// Open reports whether the last period is open: the user is a member now.
func (ps Periods) Open() bool { return len(ps) > 0 && ps[len(ps)-1].To == 0 }

// First is the first seq that the user may see, or 0 without periods.
func (ps Periods) First() Seq {
	if len(ps) == 0 {
		return 0
	}
	return ps[0].From
}

// All reports whether the user sees the whole log, from seq 1 and still.
func (ps Periods) All() bool { return len(ps) == 1 && ps[0].From == 1 && ps[0].To == 0 }

// Sees reports whether ev is visible (D8): a recall is visible to whoever may
// see its target, wherever it stands in the log; everything else by its seq.
func (ps Periods) Sees(ev *Event) bool {
	if ev.Kind == KindRecall {
		return ps.Covers(ev.Target)
	}
	return ps.Covers(ev.Seq)
}

// CheckID reports whether s is a legal id of at most maxLen bytes: 1..maxLen
// bytes of UTF-8 without control characters (C0, C1, DEL), and not "." or "..".
// The error is a BAD_FRAME that names the field.
func CheckID(field, s string, maxLen int) error {
	switch {
	case s == "":
		return Errorf(BadFrame, "%s is missing or empty", field)
	case len(s) > maxLen:
		return Errorf(BadFrame, "%s is %d bytes, at most %d are allowed", field, len(s), maxLen)
	case s == "." || s == "..":
		return Errorf(BadFrame, "%s must not be %q", field, s)
	case !utf8.ValidString(s):
		return Errorf(BadFrame, "%s is not valid UTF-8", field)
	case strings.ContainsFunc(s, unicode.IsControl):
		return Errorf(BadFrame, "%s contains a control character", field)
	}
	return nil
}
