package wire

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/impart-im/impart"
)

// Every field is appended with the comma that goes before it. A frame starts
// with its "t", so the commas fall into place; a bare object turns its first
// comma into the brace (see wrap). None of these allocates while dst has room.

// begin appends the opening of a frame of type t, with its rid if there is one.
func begin(dst []byte, t, rid string) []byte {
	dst = append(dst, `{"t":"`...)
	dst = append(dst, t...)
	dst = append(dst, '"')
	if rid != "" {
		dst = appendText(dst, nRID, rid)
	}
	return dst
}

// end closes a frame.
func end(dst []byte) []byte { return append(dst, '}') }

// wrap makes an object of the fields that were appended to dst since it was
// start bytes long.
func wrap(dst []byte, start int) []byte {
	if len(dst) == start {
		return append(dst, "{}"...)
	}
	dst[start] = '{'
	return append(dst, '}')
}

// appendName appends the comma, the quoted name and the colon.
func appendName(dst []byte, n name) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, names[n]...)
	return append(dst, '"', ':')
}

// appendText appends a string, with the fewest escapes that JSON allows: the
// quote, the backslash and C0. U+2028 and U+2029 stay as they are; they are
// legal in JSON and, since ES2019, in scripts.
func appendText[S ~string](dst []byte, n name, text S) []byte {
	return appendQuoted(appendName(dst, n), string(text))
}

// appendQuoted appends text as a JSON string. Invalid UTF-8 cannot come here:
// everything that lets text in has refused it; if it did, U+FFFD would keep the
// frame readable.
func appendQuoted(dst []byte, text string) []byte {
	dst, _ = jsontext.AppendQuote(dst, text)
	return dst
}

// appendOptional is appendText that leaves an empty text out.
func appendOptional[S ~string](dst []byte, n name, text S) []byte {
	if text == "" {
		return dst
	}
	return appendText(dst, n, text)
}

// appendNumber appends an integer.
func appendNumber[N ~int | ~int64](dst []byte, n name, value N) []byte {
	return strconv.AppendInt(appendName(dst, n), int64(value), 10)
}

// appendBool appends true or false.
func appendBool(dst []byte, n name, value bool) []byte {
	return strconv.AppendBool(appendName(dst, n), value)
}

// appendStrings appends a list of strings; nil is an empty one.
func appendStrings(dst []byte, n name, list []string) []byte {
	dst = append(appendName(dst, n), '[')
	for i, text := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendQuoted(dst, text)
	}
	return append(dst, ']')
}

// appendObjects appends a list of objects, each of the fields that fields
// appends; nil is an empty list.
func appendObjects[T any](dst []byte, n name, list []T, fields func(dst []byte, item *T) []byte) []byte {
	dst = append(appendName(dst, n), '[')
	for i := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		start := len(dst)
		dst = wrap(fields(dst, &list[i]), start)
	}
	return append(dst, ']')
}

// AppendEventObject appends ev as the JSON object that stands in event, synced,
// pulled and convs frames. Which fields are there goes by its kind: a msg has
// cmid, type and, unless recalled, body; a recall has target and target_mid; join
// and leave have user and by. What else is empty is left out. Device is never told.
func AppendEventObject(dst []byte, ev *impart.Event) []byte {
	start := len(dst)
	return wrap(appendEvent(dst, ev), start)
}

func appendEvent(dst []byte, ev *impart.Event) []byte {
	message := ev.Kind == impart.KindMsg
	dst = appendText(dst, nConv, ev.Conv)
	dst = appendNumber(dst, nSeq, ev.Seq)
	dst = appendText(dst, nKind, ev.Kind)
	dst = appendText(dst, nMID, ev.MID)
	dst = appendText(dst, nSender, ev.Sender)
	if message || ev.CMID != "" {
		dst = appendText(dst, nCMID, ev.CMID)
	}
	if !ev.Recalled && (message || ev.Body != "") {
		dst = appendText(dst, nBody, ev.Body)
	}
	if message || ev.Type != "" {
		dst = appendText(dst, nType, ev.Type)
	}
	if !ev.Recalled && len(ev.Ext) > 0 {
		dst = append(appendName(dst, nExt), ev.Ext...)
	}
	dst = appendNumber(dst, nAt, ev.At)
	if ev.Kind == impart.KindRecall || ev.Target != 0 {
		dst = appendNumber(dst, nTarget, ev.Target)
		dst = appendText(dst, nTargetMID, ev.TargetMID)
	}
	if ev.Kind == impart.KindJoin || ev.Kind == impart.KindLeave || ev.User != "" {
		dst = appendText(dst, nUser, ev.User)
		dst = appendText(dst, nBy, ev.By)
	}
	if ev.Recalled {
		dst = appendBool(dst, nRecalled, true)
	}
	return dst
}
