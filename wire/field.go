package wire

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/impart-im/impart"
)

// The readers below turn a noted span into a Go value. A field that is refused
// is remembered in s.err if it is the first, and reads as its zero value.

// refuse remembers the first refusal.
func (s *scanner) refuse(code impart.Code, format string, args ...any) {
	if s.err == nil {
		s.err = impart.Errorf(code, format, args...)
	}
}

// has reports whether the field is there and not null.
func (s *scanner) has(n name) bool { return s.spans[n].end != 0 }

// raw is the field's JSON text, nil when absent.
func (s *scanner) raw(n name) []byte {
	at := s.spans[n]
	return s.data[at.start:at.end]
}

// typed is the field's JSON text if it is of the kind wanted.
func (s *scanner) typed(n name, want jsontext.Kind) ([]byte, bool) {
	raw := s.raw(n)
	if len(raw) == 0 {
		return nil, false
	}
	if kind := jsontext.Value(raw).Kind(); kind != want {
		s.refuse(impart.BadFrame, "%s must be %s, not %s", names[n], kindName(want), kindName(kind))
		return nil, false
	}
	return raw, true
}

// text reads any string, "" when absent.
func (s *scanner) text(n name) string {
	raw, ok := s.typed(n, '"')
	if !ok {
		return ""
	}
	text, err := unquote(raw)
	if err != nil {
		s.refuse(impart.BadFrame, "%s is not a valid string", names[n])
	}
	return text
}

// kept reads a string that a store keeps: without NUL, which not every database
// can hold.
func (s *scanner) kept(n name) string {
	text := s.text(n)
	if strings.IndexByte(text, 0) >= 0 {
		s.refuse(impart.BadFrame, "%s contains NUL, which cannot be stored", names[n])
		return ""
	}
	return text
}

// id reads a required id.
func (s *scanner) id(n name, maxLen int) string {
	text := s.text(n)
	if s.err != nil {
		return text
	}
	if err := impart.CheckID(names[n], text, maxLen); err != nil {
		s.err = impart.AsError(err)
	}
	return text
}

// optionalID reads an id that may be absent, but not empty.
func (s *scanner) optionalID(n name, maxLen int) string {
	if !s.has(n) {
		return ""
	}
	return s.id(n, maxLen)
}

// after reads the id a list goes on from; "" is its beginning, as is absent.
func (s *scanner) after(n name) string {
	if string(s.raw(n)) == `""` {
		return ""
	}
	return s.optionalID(n, impart.MaxID)
}

// short reads a string of 1..maxLen bytes that may be absent; TOO_LARGE beyond.
func (s *scanner) short(n name, text string, maxLen int) string {
	switch {
	case !s.has(n):
	case len(text) > maxLen:
		s.refuse(impart.TooLarge, "%s is %d bytes, at most %d are allowed", names[n], len(text), maxLen)
	case text == "":
		s.refuse(impart.BadFrame, "%s must not be empty; leave it out instead", names[n])
	}
	return text
}

// number reads an integer within ±MaxNumber, 0 when absent. A fraction or an
// exponent is refused even where the value is whole (1.0, 1e3): another reader
// may take it for a float.
func (s *scanner) number(n name) int64 {
	raw, ok := s.typed(n, '0')
	if !ok {
		return 0
	}
	value, ok := integer(raw)
	if !ok {
		s.refuse(impart.BadFrame, "%s must be an integer between -(2^53-1) and 2^53-1, without fraction or exponent", names[n])
	}
	return value
}

// required is a number that must be there.
func (s *scanner) required(n name) int64 {
	if !s.has(n) {
		s.refuse(impart.BadFrame, "%s is missing", names[n])
	}
	return s.number(n)
}

// count reads a number that may be absent and is not negative.
func (s *scanner) count(n name) *int64 {
	if !s.has(n) {
		return nil
	}
	value := s.number(n)
	if value < 0 {
		s.refuse(impart.BadFrame, "%s must not be negative", names[n])
	}
	return &value
}

// seq reads a seq that may be absent. A negative one is kept: it is CURSOR_AHEAD,
// which is for whoever knows the head to say.
func (s *scanner) seq(n name) *impart.Seq {
	if !s.has(n) {
		return nil
	}
	value := impart.Seq(s.number(n))
	return &value
}

// limit reads a page's limit.
func (s *scanner) limit() *int {
	if !s.has(nLimit) {
		return nil
	}
	value := s.number(nLimit)
	if value < 1 || value > impart.MaxLimit {
		s.refuse(impart.BadFrame, "limit must be between 1 and %d", impart.MaxLimit)
	}
	limit := int(value)
	return &limit
}

// bool reads true or false, false when absent.
func (s *scanner) bool(n name) bool {
	switch raw := s.raw(n); string(raw) {
	case "", "false":
		return false
	case "true":
		return true
	default:
		s.refuse(impart.BadFrame, "%s must be true or false, not %s", names[n], kindName(jsontext.Value(raw).Kind()))
		return false
	}
}

// ext reads a message's ext as the client wrote it, spaces included.
func (s *scanner) ext() []byte {
	raw, ok := s.typed(nExt, '{')
	if !ok {
		return nil
	}
	if len(raw) > impart.MaxExt {
		s.refuse(impart.TooLarge, "ext is %d bytes, at most %d are allowed", len(raw), impart.MaxExt)
		return nil
	}
	if hasNUL(raw) {
		s.refuse(impart.BadFrame, "ext contains NUL, which cannot be stored")
		return nil
	}
	return bytes.Clone(raw)
}

// strings reads a list of strings, nil when absent.
func (s *scanner) strings(n name, most, maxLen int) []string {
	raw, ok := s.typed(n, '[')
	if !ok {
		return nil
	}
	list := []string{}
	s.elements(raw, n, '"', func(sub *scanner) *impart.Error {
		value, err := sub.dec.ReadValue()
		if err != nil {
			return sub.syntax(err)
		}
		text, err := unquote(value)
		if err != nil || len(text) > maxLen || len(list) == most {
			return impart.Errorf(impart.BadFrame, "%s may hold at most %d strings of at most %d bytes", names[n], most, maxLen)
		}
		list = append(list, text)
		return nil
	})
	return list
}

// objects reads a list of objects; read is called for each with its fields noted
// in sub, and what it refuses is refused.
func (s *scanner) objects(n name, read func(sub *scanner)) {
	raw, ok := s.typed(n, '[')
	if !ok {
		return
	}
	s.elements(raw, n, '{', func(sub *scanner) *impart.Error {
		if err := sub.object(); err != nil {
			return err
		}
		read(sub)
		return sub.err
	})
}

// nested reads one nested object, if it is there.
func (s *scanner) nested(n name, read func(sub *scanner)) {
	raw, ok := s.typed(n, '{')
	if !ok {
		return
	}
	sub := open(raw)
	defer sub.close()
	err := sub.object()
	if err == nil {
		read(sub)
		err = sub.err
	}
	if err != nil {
		s.refuse(err.Code, "%s: %s", names[n], err.Message)
	}
}

// elements walks the array raw of field n; every element must be of the kind
// wanted. It stops at the first refusal, which then names the element.
func (s *scanner) elements(raw []byte, n name, want jsontext.Kind, each func(sub *scanner) *impart.Error) {
	sub := open(raw)
	defer sub.close()
	if _, err := sub.dec.ReadToken(); err != nil {
		s.refuse(impart.BadFrame, "%s is not a list", names[n])
		return
	}
	for at := 0; ; at++ {
		kind := sub.dec.PeekKind()
		if kind == ']' {
			return
		}
		if kind != want {
			s.refuse(impart.BadFrame, "%s[%d] must be %s, not %s", names[n], at, kindName(want), kindName(kind))
			return
		}
		if err := each(sub); err != nil {
			s.refuse(err.Code, "%s[%d]: %s", names[n], at, err.Message)
			return
		}
	}
}

// unquote is the text of a JSON string.
func unquote(quoted []byte) (string, error) {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), nil // the scan has checked its UTF-8
	}
	text, err := jsontext.AppendUnquote(make([]byte, 0, len(inner)), quoted)
	return string(text), err
}

// integer parses the JSON number raw if it is an integer within ±MaxNumber.
func integer(raw []byte) (int64, bool) {
	digits, negative := raw, false
	if digits[0] == '-' {
		digits, negative = digits[1:], true
	}
	if len(digits) == 0 || len(digits) > 16 { // MaxNumber has 16 digits
		return 0, false
	}
	var value int64
	for _, digit := range digits {
		if digit < '0' || digit > '9' {
			return 0, false
		}
		value = value*10 + int64(digit-'0')
	}
	if value > impart.MaxNumber {
		return 0, false
	}
	if negative {
		value = -value
	}
	return value, true
}

// hasNUL reports whether JSON text that is valid holds an escaped NUL anywhere.
// A raw one is not valid JSON.
func hasNUL(raw []byte) bool {
	for {
		at := bytes.IndexByte(raw, '\\')
		if at < 0 {
			return false
		}
		if bytes.HasPrefix(raw[at:], []byte(`\u0000`)) {
			return true
		}
		raw = raw[at+2:] // the escaped character: it may be a backslash
	}
}
