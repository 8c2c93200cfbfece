package bench

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/impart-im/impart"
)

// stampLen is the length of the time at the beginning of a body.
const stampLen = 16

// stamped is a body of size bytes that begins with when its message was due, in
// nanoseconds after the bench began, so that every receiver can tell how long it
// was on its way.
func stamped(since time.Duration, size int) string {
	return fmt.Sprintf("%016x", int64(since)) + strings.Repeat("m", max(size-stampLen, 0))
}

var (
	eventBegin = []byte(`{"t":"event","ev":{"conv":"`)
	seqName    = []byte(`","seq":`)
	bodyName   = []byte(`,"body":"`)
)

// scanEvent reads seq and stamp of an event frame as this server writes it, for
// a tenth of what decoding costs: a bench that decodes every push is busier than
// the server. false: decode it.
func scanEvent(text []byte) (seq impart.Seq, stamp time.Duration, ok bool) {
	rest, ok := bytes.CutPrefix(text, eventBegin)
	if !ok {
		return 0, 0, false
	}
	_, rest, ok = bytes.Cut(rest, seqName)
	if !ok {
		return 0, 0, false
	}
	digits := 0
	for digits < len(rest) && digits < 16 && rest[digits] >= '0' && rest[digits] <= '9' {
		seq = 10*seq + impart.Seq(rest[digits]-'0')
		digits++
	}
	_, body, ok := bytes.Cut(rest[digits:], bodyName)
	if !ok || digits == 0 || len(body) < stampLen {
		return 0, 0, false
	}
	stamp, ok = parseStamp(body[:stampLen])
	return seq, stamp, ok
}

// parseStamp reads what [stamped] wrote.
func parseStamp[T string | []byte](body T) (stamp time.Duration, ok bool) {
	if len(body) < stampLen {
		return 0, false
	}
	for i := range stampLen {
		c := body[i]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		default:
			return 0, false
		}
		stamp = stamp<<4 | time.Duration(c)
	}
	return stamp, true
}
