package chat

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxMarks bounds the combining marks on one character: more would paint over the
// lines above and below.
const maxMarks = 4

// plain makes text from elsewhere harmless on one line of a terminal. What moves
// the cursor, starts a line, changes colours or turns the direction of writing is
// shown as an escape, such as \x1b or \u202e; letters of all scripts, and the
// joiners that emoji and Persian need, stay.
func plain(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf || r < ' ' || r == 0x7f }) {
		return s
	}
	var b strings.Builder
	marks := 0
	for i, r := range s {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(s[i:]); size == 1 {
				fmt.Fprintf(&b, `\x%02x`, s[i])
				continue
			}
		}
		if !unicode.Is(unicode.M, r) {
			marks = 0
		} else if marks++; marks > maxMarks {
			continue
		}
		plainRune(&b, r)
	}
	return b.String()
}

func plainRune(b *strings.Builder, r rune) {
	switch {
	case r == '\n':
		b.WriteString(`\n`)
	case r == '\t':
		b.WriteString(`\t`)
	case unicode.IsPrint(r), r == '\u200c', r == '\u200d':
		b.WriteRune(r)
	case unicode.Is(unicode.Zs, r):
		b.WriteByte(' ')
	case r < 0x100:
		fmt.Fprintf(b, `\x%02x`, r)
	case r < 0x10000:
		fmt.Fprintf(b, `\u%04x`, r)
	default:
		fmt.Fprintf(b, `\U%08x`, r)
	}
}

// plainJSON spells in JSON text what plain would take out of it: the same value,
// but a terminal that shows it is not steered by it.
func plainJSON(text []byte) string {
	var b strings.Builder
	for _, r := range string(text) {
		switch {
		case r < utf8.RuneSelf && r != 0x7f, unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
	}
	return b.String()
}
