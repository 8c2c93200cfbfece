package wire

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/impart-im/impart"
)

// MaxDepth is how deep a value of a frame may nest: an ext of 64 objects, one in
// the other, is the deepest. It bounds the work of a depth bomb.
const MaxDepth = 64

// span is where a field's value stands in a frame, both ends of one JSON value.
// The zero span means that the field is absent or null.
type span struct{ start, end int }

// scanner walks JSON objects strictly and keeps where the values of known names
// stand. Strict means RFC 8259 with UTF-8, paired surrogates and no name twice in
// one object, at any depth.
//
// Invariant: after a walk without error, each span holds one valid JSON value.
type scanner struct {
	dec   jsontext.Decoder
	src   bytes.Buffer // lets dec read data in place
	data  []byte
	spans [numNames]span
	err   *impart.Error // the first field that was refused
}

var scanners = sync.Pool{New: func() any { return new(scanner) }}

// open takes a scanner and sets it before the first byte of data.
func open(data []byte, options ...jsontext.Options) *scanner {
	s := scanners.Get().(*scanner) //nolint:forcetypeassert // the pool holds nothing else
	s.data = data
	s.src = *bytes.NewBuffer(data)
	s.dec.Reset(&s.src, options...)
	return s
}

// close gives the scanner back; nothing of the frame stays reachable through it.
func (s *scanner) close() {
	s.data, s.err = nil, nil
	s.src = bytes.Buffer{}
	s.dec.Reset(&s.src)
	scanners.Put(s)
}

// document walks data as one object and nothing else.
func (s *scanner) document() *impart.Error {
	if kind := s.dec.PeekKind(); kind != '{' && kind != 0 {
		// The kind is told by the first letter alone: it may be no JSON at all.
		if _, err := s.dec.ReadValue(); err != nil {
			return s.syntax(err)
		}
		return impart.Errorf(impart.BadFrame, "a frame must be a JSON object, not %s", kindName(kind))
	}
	if err := s.object(); err != nil {
		return err
	}
	if _, err := s.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return impart.Errorf(impart.BadFrame, "more text after the end of the frame, at byte %d", s.dec.InputOffset())
	}
	return nil
}

// object walks the object that comes next and notes its fields.
func (s *scanner) object() *impart.Error {
	clear(s.spans[:])
	if _, err := s.dec.ReadToken(); err != nil {
		return s.syntax(err)
	}
	for {
		switch s.dec.PeekKind() {
		case '}':
			_, err := s.dec.ReadToken()
			return s.syntax(err)
		case '"':
		default: // no name, or the end: the decoder says which
			_, err := s.dec.ReadToken()
			return s.syntax(err)
		}
		text, err := s.dec.ReadValue()
		if err != nil {
			return s.syntax(err)
		}
		n, known := lookup(text)
		at, refused := s.value(text)
		if refused != nil {
			return refused
		}
		if known && s.data[at.start] != 'n' {
			s.spans[n] = at
		}
	}
}

// value walks the value that comes next, of the field with the quoted name.
func (s *scanner) value(field jsontext.Value) (span, *impart.Error) {
	switch s.dec.PeekKind() {
	case '{', '[':
		start := s.next()
		if tooDeep(s.data[start:]) {
			return span{}, impart.Errorf(impart.BadFrame, "%s nests deeper than %d", clip(string(field)), MaxDepth)
		}
	}
	raw, err := s.dec.ReadValue()
	if err != nil {
		return span{}, s.syntax(err)
	}
	end := int(s.dec.InputOffset())
	return span{end - len(raw), end}, nil
}

// next is where the value that PeekKind saw begins.
func (s *scanner) next() int {
	at := int(s.dec.InputOffset())
	for strings.IndexByte(" \t\r\n:,", s.data[at]) >= 0 {
		at++
	}
	return at
}

// tooDeep reports whether the object or array at the start of text nests deeper
// than MaxDepth. It only counts brackets; whether text is JSON is not its matter.
func tooDeep(text []byte) bool {
	depth := 0
	for at := 0; at < len(text); at++ {
		switch text[at] {
		case '{', '[':
			if depth++; depth > MaxDepth {
				return true
			}
		case '}', ']':
			if depth--; depth == 0 {
				return false
			}
		case '"':
			for at++; at < len(text) && text[at] != '"'; at++ {
				if text[at] == '\\' {
					at++
				}
			}
		}
	}
	return false
}

// lookup finds the name of a quoted text. Names may be written with escapes.
func lookup(quoted []byte) (name, bool) {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		n, known := nameOf[string(inner)]
		return n, known
	}
	text, err := jsontext.AppendUnquote(nil, quoted)
	n, known := nameOf[string(text)]
	return n, known && err == nil
}

// syntax says in our words why the decoder stopped; nil for nil.
func (s *scanner) syntax(err error) *impart.Error {
	if err == nil {
		return nil
	}
	var bad *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return impart.Errorf(impart.BadFrame, "the frame ends in the middle, at byte %d: it is not a whole JSON object", len(s.data))
	case !errors.As(err, &bad):
		return &impart.Error{Code: impart.BadFrame, Message: "not JSON", Cause: err}
	case errors.Is(bad.Err, jsontext.ErrDuplicateName):
		return impart.Errorf(impart.BadFrame, "%s stands twice in one object", clip(string(bad.JSONPointer)))
	case bad.JSONPointer == "":
		return impart.Errorf(impart.BadFrame, "not JSON at byte %d: %s", bad.ByteOffset, clip(bad.Err.Error()))
	default:
		return impart.Errorf(impart.BadFrame, "%s is not valid at byte %d: %s", clip(string(bad.JSONPointer)), bad.ByteOffset, clip(bad.Err.Error()))
	}
}

// clip makes text of a frame safe to quote in a message: short and on one line.
func clip(text string) string {
	const most = 80
	text = strings.Trim(text, `"/`)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	quoted := strconv.Quote(text)
	return quoted[1 : len(quoted)-1]
}

// kindName is a kind of JSON value in words.
func kindName(kind jsontext.Kind) string {
	switch kind {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '[':
		return "an array"
	case '{':
		return "an object"
	default:
		return "something else"
	}
}
