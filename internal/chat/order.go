package chat

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/impart-im/impart"
)

// order is what one line of input asks for.
type order struct {
	word string     // "" sends text
	text string     // what to send
	seq  impart.Seq // of recall, read and who; 0: none given
	ref  string     // of cancel, retry and dismiss: the end of a cmid; "": the newest
	conv impart.ConvID
}

// words are the orders, the same on the screen and in a script.
var words = []struct{ word, arg, help string }{
	{"recall", "SEQ", "take back a stored message, for everybody"},
	{"cancel", "[#REF]", "take back a waiting message: the newest, or this one"},
	{"read", "[SEQ]", "say that you have read up to here"},
	{"who", "SEQ", "on how many devices a message is, and who has read it"},
	{"retry", "[#REF]", "send a refused message again: the newest, or this one"},
	{"dismiss", "[#REF]", "forget a refused message: the newest, or this one"},
	{"open", "CONV", "go to another conversation (screen only)"},
	{"reconnect", "", "connect now, also when this device was taken over"},
	{"help", "", "list these"},
	{"quit", "", "leave; what waits stays in the outbox"},
}

// parse reads a line: a word after a slash, or text to send. Two slashes send a
// text that begins with one.
func parse(line string) (order, error) {
	rest, slash := strings.CutPrefix(line, "/")
	if !slash {
		return order{text: line}, nil
	}
	if strings.HasPrefix(rest, "/") {
		return order{text: rest}, nil
	}
	word, arg, _ := strings.Cut(strings.TrimSpace(rest), " ")
	o, arg := order{word: word}, strings.TrimSpace(arg)
	form := formOf(word)
	switch {
	case form == nil:
		return o, fmt.Errorf("there is no order /%s; /help lists them, and // begins a message with a slash", plain(word))
	case *form == "" && arg != "", arg == "" && *form != "" && !strings.HasPrefix(*form, "["):
		return o, fmt.Errorf("write /%s", strings.TrimSpace(word+" "+*form))
	case arg == "":
		return o, nil
	}
	switch strings.Trim(*form, "[]") {
	case "SEQ":
		seq, err := strconv.ParseInt(arg, 10, 64)
		if err != nil || seq < 1 || seq > impart.MaxNumber {
			return o, fmt.Errorf("/%s: %q should be the number of a message, from 1", word, plain(arg))
		}
		o.seq = impart.Seq(seq)
	case "#REF":
		o.ref = strings.TrimPrefix(arg, "#")
	case "CONV":
		o.conv = impart.ConvID(arg)
	}
	return o, nil
}

// formOf is the argument that a word takes; nil: there is no such word.
func formOf(word string) *string {
	for i := range words {
		if words[i].word == word {
			return &words[i].arg
		}
	}
	return nil
}

// Orders is the table of orders as text, two columns.
func Orders() string {
	var b strings.Builder
	for _, w := range words {
		fmt.Fprintf(&b, "%-18s %s\n", strings.TrimSpace("/"+w.word+" "+w.arg), w.help)
	}
	return b.String()
}
