package chat

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"hello":                           "hello",
		"你好 🙂 naïve":                      "你好 🙂 naïve",
		"\x1b[2Jgone":                     `\x1b[2Jgone`,
		"\x1b]0;title\x07":                `\x1b]0;title\x07`,
		"c1 \u009b31m":                    `c1 \x9b31m`,
		"a\rb\nc\td":                      `a\x0db\nc\td`,
		"\u202egnp.exe":                   `\u202egnp.exe`,
		"\u2066iso\u2069 \u200f\u061c":    `\u2066iso\u2069 \u200f\u061c`,
		"line\u2028sep\u2029":             `line\u2028sep\u2029`,
		"zero\u200bwidth\ufeff":           `zero\u200bwidth\ufeff`,
		"tag\U000e0041":                   `tag\U000e0041`,
		"family 👩\u200d👧":                 "family 👩\u200d👧",
		"می\u200cخواهم":                   "می\u200cخواهم",
		"wide\u3000space\u00a0hard":       "wide space hard",
		"broken\xff":                      `broken\xff`,
		"e" + strings.Repeat("\u0301", 9): "e" + strings.Repeat("\u0301", maxMarks),
		"\x7f":                            `\x7f`,
	} {
		if got := plain(in); got != want {
			t.Errorf("plain(%q) = %q, not %q", in, got, want)
		}
	}
}

// FuzzPlain holds every text against the rule itself: what is left can be printed,
// and JSON that was made harmless means the same.
func FuzzPlain(f *testing.F) {
	f.Add("a\x1b[31m\u202e\u009b 你\U000e0041\xff")
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range plain(s) {
			if !unicode.IsPrint(r) && r != '\u200c' && r != '\u200d' {
				t.Fatalf("plain(%q) has %q left", s, r)
			}
		}
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		safe := plainJSON(text)
		for _, r := range safe {
			if !unicode.IsPrint(r) {
				t.Fatalf("plainJSON(%q) has %q left", text, r)
			}
		}
		var before, after string
		if json.Unmarshal(text, &before) != nil || json.Unmarshal([]byte(safe), &after) != nil || before != after {
			t.Fatalf("plainJSON(%q) = %q means something else", text, safe)
		}
	})
}

func TestParse(t *testing.T) {
	for line, want := range map[string]order{
		"hi":            {text: "hi"},
		" hi /x":        {text: " hi /x"},
		"//etc/passwd":  {text: "/etc/passwd"},
		"/recall 7":     {word: "recall", seq: 7},
		"/read":         {word: "read"},
		"/read 3":       {word: "read", seq: 3},
		"/cancel #a1b2": {word: "cancel", ref: "a1b2"},
		"/cancel a1b2":  {word: "cancel", ref: "a1b2"},
		"/open c-a b":   {word: "open", conv: "c-a b"},
		"/quit ":        {word: "quit"},
		"/dismiss":      {word: "dismiss"},
	} {
		if got, err := parse(line); err != nil || got != want {
			t.Errorf("parse(%q) = %+v, %v", line, got, err)
		}
	}
	for line, want := range map[string]string{
		"/etc/passwd": "there is no order /etc/passwd; /help lists them, and // begins",
		"/":           "there is no order",
		"/recall":     "write /recall SEQ",
		"/recall x":   `"x" should be the number`,
		"/recall 0":   "should be the number",
		"/quit now":   "write /quit",
		"/open":       "write /open CONV",
		"/\x1b[2J":    `no order /\x1b[2J`,
	} {
		if _, err := parse(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parse(%q): %v, not %q", line, err, want)
		}
	}
}
