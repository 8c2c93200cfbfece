package bus

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/impart-im/impart"
)

// MaxPayload is the size of a payload at most, in bytes: PostgreSQL's NOTIFY takes
// less than 8,000.
const MaxPayload = 7_999

// NotifyChannel is the name of the channel on which payloads go through PostgreSQL, as
// an SQL expression. Notifications are the whole database's: stores in two of its
// schemas do not hear each other.
const NotifyChannel = "'impart_' || hashtextextended(current_schema(), 0)"

// maxRecord is more than the longest record takes: three ids, four numbers, and
// what stands between them.
const maxRecord = 3*impart.MaxID + 4*14 + 16

// The form of a payload: one line that says the version and the origin, then one
// line a message, its kind and its fields apart by tabs. Ids hold no control
// characters. A reader passes over kinds that it does not know and fields that it
// does not expect at the end of a line, so that nodes of neighbouring versions
// understand each other; what cannot be read so gets another version.
const (
	payloadVersion = "1"
	fieldSeparator = "\t"
	lineSeparator  = "\n"
	numberBase     = 36
)

// ErrPayload says that a payload is not one of this version.
var ErrPayload = errors.New("the payload cannot be read")

// AppendPayload appends the text of as many messages as fit into one payload, and
// gives those that are left for the next. origin is the node that they come from,
// at most [impart.MaxID] bytes. A message with a text that no id can hold is left
// out: a database would refuse the payload, and whatever it came with.
//
//	for len(messages) > 0 {
//		var payload []byte
//		payload, messages = bus.AppendPayload(nil, origin, messages...)
//		…
//	}
func AppendPayload(dst []byte, origin string, messages ...Message) (payload []byte, rest []Message) {
	start := len(dst)
	dst = append(dst, payloadVersion...)
	dst = append(dst, fieldSeparator...)
	dst = append(dst, origin...)
	for i := range messages {
		if i > 0 && len(dst)-start+maxRecord > MaxPayload {
			return dst, messages[i:]
		}
		dst = appendRecord(dst, &messages[i])
	}
	return dst, nil
}

func appendRecord(dst []byte, m *Message) []byte {
	if !plain(string(m.Conv)) || !plain(string(m.User)) || !plain(string(m.Device)) {
		return dst
	}
	r := record{dst}
	switch m.Kind {
	case Wake:
		r.open('w').text(string(m.Conv)).number(int64(m.From)).number(int64(m.Head)).number(m.Members)
		if m.Everyone {
			r.number(1)
		}
	case Receipt:
		r.open('r').text(string(m.Conv)).text(string(m.User)).text(string(m.Device)).number(m.Session)
		r.number(int64(m.Delivered)).number(int64(m.Read)).number(int64(m.Epoch))
	case Typing:
		r.open('t').text(string(m.Conv)).text(string(m.User))
	case Takeover:
		r.open('o').text(string(m.User)).text(string(m.Device)).number(m.Session)
	case Revoked:
		r.open('x').text(string(m.User)).number(int64(m.At))
	case EpochRaised:
		r.open('e').number(int64(m.Epoch))
	case Missed:
		r.open('m')
	}
	return r.dst
}

// plain reports whether a text can stand in a payload.
func plain(text string) bool {
	return len(text) <= impart.MaxID && utf8.ValidString(text) && !strings.ContainsAny(text, "\t\n\x00")
}

// record is a line that is being written.
type record struct{ dst []byte }

func (r *record) open(kind byte) *record {
	r.dst = append(r.dst, lineSeparator...)
	r.dst = append(r.dst, kind)
	return r
}

func (r *record) text(s string) *record {
	r.dst = append(r.dst, fieldSeparator...)
	r.dst = append(r.dst, s...)
	return r
}

func (r *record) number(n int64) *record {
	r.dst = append(r.dst, fieldSeparator...)
	r.dst = strconv.AppendInt(r.dst, n, numberBase)
	return r
}

// ParsePayload reads a payload. The messages share its memory. Messages of unknown
// kinds are passed over; [ErrPayload] when it is of another version or damaged, and
// then what it said is not known.
func ParsePayload(payload string) (origin string, messages []Message, err error) {
	head, lines, _ := strings.Cut(payload, lineSeparator)
	version, origin, found := strings.Cut(head, fieldSeparator)
	if !found || version != payloadVersion {
		return "", nil, fmt.Errorf("%w: version %.8q", ErrPayload, version)
	}
	origin, _, _ = strings.Cut(origin, fieldSeparator)
	for line := range strings.SplitSeq(lines, lineSeparator) {
		m, known, err := parseRecord(line)
		if err != nil {
			return "", nil, err
		}
		if known {
			messages = append(messages, m)
		}
	}
	return origin, messages, nil
}

func parseRecord(line string) (m Message, known bool, err error) {
	kind, rest, _ := strings.Cut(line, fieldSeparator)
	f := fields{rest: rest}
	switch kind {
	case "w":
		m = Message{Kind: Wake, Conv: impart.ConvID(f.text()), From: impart.Seq(f.number()), Head: impart.Seq(f.number()), Members: f.number()}
		m.Everyone = f.rest != "" && f.number() != 0
	case "r":
		m = Message{Kind: Receipt, Conv: impart.ConvID(f.text()), User: impart.UserID(f.text()), Device: impart.DeviceID(f.text()), Session: f.number(),
			Delivered: impart.Seq(f.number()), Read: impart.Seq(f.number()), Epoch: impart.Epoch(f.number())}
	case "t":
		m = Message{Kind: Typing, Conv: impart.ConvID(f.text()), User: impart.UserID(f.text())}
	case "o":
		m = Message{Kind: Takeover, User: impart.UserID(f.text()), Device: impart.DeviceID(f.text()), Session: f.number()}
	case "x":
		m = Message{Kind: Revoked, User: impart.UserID(f.text()), At: impart.Millis(f.number())}
	case "e":
		m = Message{Kind: EpochRaised, Epoch: impart.Epoch(f.number())}
	case "m":
		m = Message{Kind: Missed}
	default:
		return Message{}, false, nil
	}
	if f.bad {
		return Message{}, false, fmt.Errorf("%w: a record of kind %s", ErrPayload, kind)
	}
	return m, true, nil
}

// fields are what is left of a line that is being read.
type fields struct {
	rest string
	bad  bool // a number was none
}

func (f *fields) text() string {
	s, rest, _ := strings.Cut(f.rest, fieldSeparator)
	f.rest = rest
	return s
}

func (f *fields) number() int64 {
	n, err := strconv.ParseInt(f.text(), numberBase, 64)
	f.bad = f.bad || err != nil
	return n
}
