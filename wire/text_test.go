package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/impart-im/impart"
)

// exactTexts are what a body must survive byte for byte, from one client through
// the server to another.
var exactTexts = map[string]string{
	"empty":                    "",
	"emoji":                    "😀🏳️‍🌈",
	"a family joined by ZWJ":   "👩\u200d👩\u200d👧\u200d👦",
	"composed and combining":   "é e\u0301 ạ\u0301\u0323",
	"right to left, overrides": "שלום \u202eabc\u202c مرحبا \u2067x\u2069",
	"line separators":          "a\u2028b\u2029c",
	"every C0 but NUL":         "\x01\x02\x03\x04\x05\x06\x07\b\t\n\v\f\r\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f",
	"DEL and C1":               "\x7f\u0080\u0085\u009f",
	"quotes and escapes":       `"\/\u0041\\n'` + "`",
	"markup":                   "</script><!--<b>&amp;",
	"noncharacters, BOM":       "\ufffe\uffff\ufeff\U0001ffff",
	"replacement character":    "\ufffd",
	"private use, last plane":  "\ue000\U0010fffd\U0010ffff",
	"spaces at both ends":      " \u00a0 a \u3000 ",
	"looks like JSON":          `{"t":"send","body":"\u0000"}`,
	"64 KiB of Chinese":        strings.Repeat("消息", 64<<10/6),
	"64 KiB of line feeds":     strings.Repeat("\n", 64<<10),
}

func TestBodyArrivesByteForByte(t *testing.T) {
	for name, body := range exactTexts {
		t.Run(name, func(t *testing.T) {
			frame, _, err := Decode(AppendFrame(nil, &Send{Conv: "c-ab", CMID: "m1", Body: body}))
			if err != nil {
				t.Fatal(err)
			}
			if got := frame.(*Send).Body; got != body {
				t.Fatalf("the server read %+q, want %+q", got, body)
			}
			checkPush(t, body)
		})
	}
}

// checkPush pushes body and reads it back, with our reader and with another.
func checkPush(t *testing.T, body string) {
	t.Helper()
	ev := &impart.Event{Conv: "c-ab", Seq: 1, Kind: impart.KindMsg, MID: "mid-1", Sender: "u-ana", CMID: "m1", Type: "text", Body: body}
	text := Event{Event: ev, Epoch: 1}.Append(nil)
	frame, err := DecodeServer(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if got := frame.(*Event).Event.Body; got != body {
		t.Errorf("the receiver read %+q, want %+q", got, body)
	}
	var other struct {
		Ev struct {
			Body string `json:"body"`
		} `json:"ev"`
	}
	if err := json.Unmarshal(text, &other); err != nil || other.Ev.Body != body {
		t.Errorf("encoding/json read %+q (%v), want %+q", other.Ev.Body, err, body)
	}
}

func TestEscapedAndPlainTextAreTheSameBody(t *testing.T) {
	body := "é😀\u2028\n\x1f/"
	var escaped strings.Builder
	for _, r := range body {
		if r > 0xffff {
			r -= 0x10000
			fmt.Fprintf(&escaped, `\u%04x\u%04X`, 0xd800+r>>10, 0xdc00+r&0x3ff)
			continue
		}
		fmt.Fprintf(&escaped, `\u%04x`, r)
	}
	frame, _, err := Decode([]byte(`{"t":"send","conv":"c","cmid":"m","body":"` + escaped.String() + `"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := frame.(*Send).Body; got != body {
		t.Errorf("read %+q, want %+q", got, body)
	}
}

// Whatever a store could not keep is refused wherever it stands, and nothing is
// replaced.
func TestBrokenTextIsRefusedEverywhere(t *testing.T) {
	broken := map[string]string{
		"lone high surrogate":       `\ud83d`,
		"lone low surrogate":        `\ude00`,
		"two high surrogates":       `\ud83d\ud83d`,
		"surrogates swapped":        `\ude00\ud83d`,
		"high surrogate, then text": `\ud83dx`,
		"invalid UTF-8":             "\xff",
		"cut UTF-8":                 "\xe4\xb8",
		"overlong slash":            "\xc0\xaf",
		"surrogate as UTF-8":        "\xed\xa0\x80",
		"beyond Unicode":            "\xf4\x90\x80\x80",
		"raw line feed":             "\n",
		"raw NUL":                   "\x00",
		"unknown escape":            `\a`,
		"short escape":              `\u12`,
	}
	places := map[string]string{
		"conv":          `{"t":"send","rid":"r1","conv":"%s","cmid":"m","body":""}`,
		"cmid":          `{"t":"send","rid":"r1","conv":"c","cmid":"%s","body":""}`,
		"body":          `{"t":"send","rid":"r1","conv":"c","cmid":"m","body":"%s"}`,
		"type":          `{"t":"send","rid":"r1","conv":"c","cmid":"m","body":"","type":"%s"}`,
		"prev":          `{"t":"send","rid":"r1","conv":"c","cmid":"m","body":"","prev":"%s"}`,
		"ext value":     `{"t":"send","rid":"r1","conv":"c","cmid":"m","body":"","ext":{"k":["%s"]}}`,
		"ext name":      `{"t":"send","rid":"r1","conv":"c","cmid":"m","body":"","ext":{"%s":1}}`,
		"install":       `{"t":"hello","rid":"r1","token":"","device":"d","install":"%s"}`,
		"token":         `{"t":"hello","rid":"r1","token":"%s","device":"d"}`,
		"feature":       `{"t":"hello","rid":"r1","token":"","device":"d","features":["%s"]}`,
		"acks conv":     `{"t":"ack","rid":"r1","acks":[{"conv":"%s","seq":1}]}`,
		"after_mid":     `{"t":"sync","rid":"r1","conv":"c","after":1,"after_mid":"%s"}`,
		"mid":           `{"t":"recall","rid":"r1","conv":"c","seq":1,"cmid":"m","mid":"%s"}`,
		"unknown value": `{"t":"ping","rid":"r1","x":"%s"}`,
		"unknown name":  `{"t":"ping","rid":"r1","%s":1}`,
	}
	for place, format := range places {
		for kind, text := range broken {
			t.Run(place+"/"+kind, func(t *testing.T) {
				data := fmt.Sprintf(format, text)
				frame, rid, err := Decode([]byte(data))
				if impart.CodeOf(err) != impart.BadFrame {
					t.Fatalf("%q became %+v, %v", data, frame, err)
				}
				if rid != "r1" {
					t.Errorf("the error has rid %q, want r1", rid)
				}
			})
		}
	}
}

func TestNULIsRefusedInWhatIsKept(t *testing.T) {
	for field, data := range map[string]string{
		"conv":      `{"t":"send","conv":"\u0000","cmid":"m","body":""}`,
		"cmid":      `{"t":"send","conv":"c","cmid":"a\u0000","body":""}`,
		"body":      `{"t":"send","conv":"c","cmid":"m","body":"\u0000"}`,
		"type":      `{"t":"send","conv":"c","cmid":"m","body":"","type":"a\u0000b"}`,
		"prev":      `{"t":"send","conv":"c","cmid":"m","body":"","prev":"\u0000"}`,
		"ext":       `{"t":"send","conv":"c","cmid":"m","body":"","ext":{"a\u0000":1}}`,
		"device":    `{"t":"hello","token":"","device":"\u0000"}`,
		"install":   `{"t":"hello","token":"","device":"d","install":"\u0000"}`,
		"acks[0]":   `{"t":"ack","acks":[{"conv":"\u0000","seq":1}]}`,
		"after_mid": `{"t":"sync","conv":"c","after":1,"after_mid":"\u0000"}`,
	} {
		_, _, err := Decode([]byte(data))
		if impart.CodeOf(err) != impart.BadFrame || !strings.Contains(err.Error(), field) {
			t.Errorf("%s gave %v, want BAD_FRAME that names %s", data, err, field)
		}
	}
	kept := `{"t":"send","conv":"c","cmid":"m","body":"\\u0000","ext":{"k":"\\u0000\\\\u0000"}}`
	if _, _, err := Decode([]byte(kept)); err != nil {
		t.Errorf("a backslash before u0000 is no NUL: %v", err)
	}
}

func TestMessagesOfErrorsKeepToOneShortLine(t *testing.T) {
	long := strings.Repeat("x\\n\\u001b[31m\u202e", 5000)
	for _, data := range []string{
		`{"t":"` + long + `"}`,
		`{"` + long + `":1,"` + long + `":2,"t":"ping"}`,
		`{"t":"ping","` + long + `":"\ud800"}`,
		`{"t":"ping","` + long + `":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
		`{"t":"send","conv":"` + long + `","cmid":"m","body":""}`,
	} {
		_, _, err := Decode([]byte(data))
		var refused *impart.Error
		if !errors.As(err, &refused) {
			t.Fatalf("%.60s… gave %v", data, err)
		}
		if len(refused.Message) > 400 || strings.ContainsAny(refused.Message, "\n\r\x1b\u202e") {
			t.Errorf("%.60s… gave the message %q", data, refused.Message)
		}
	}
}
