package wire

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/impart-im/impart"
)

func TestRefusalsEchoTheRID(t *testing.T) {
	long := strings.Repeat("x", impart.MaxRID+1)
	for name, c := range map[string]struct{ data, rid string }{
		"before the fault":            {`{"rid":"r1","t":"send","body":7}`, "r1"},
		"after the fault":             {`{"t":"send","body":7,"rid":"r1"}`, "r1"},
		"after a lone surrogate":      {`{"t":"send","body":"\ud800","rid":"r1"}`, "r1"},
		"after invalid UTF-8":         {"{\"t\":\"send\",\"body\":\"\xff\",\"rid\":\"r1\"}", "r1"},
		"after a name twice":          {`{"t":"send","x":1,"x":2,"rid":"r1"}`, "r1"},
		"after a depth bomb":          {`{"t":"ping","x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `,"rid":"r1"}`, "r1"},
		"written with escapes":        {`{"t":"shout","\u0072id":"r\u0031"}`, "r1"},
		"before broken JSON":          {`{"rid":"r1","t":"send","body":`, "r1"},
		"behind broken JSON":          {`{"t":"send",,"rid":"r1"}`, ""},
		"an unknown frame":            {`{"t":"shout","rid":"r1"}`, "r1"},
		"no t":                        {`{"rid":"r1"}`, "r1"},
		"the first of two":            {`{"rid":"r1","rid":"r2","t":"ping"}`, "r1"},
		"a number first":              {`{"rid":1,"rid":"r2","t":"ping"}`, "r2"},
		"a number":                    {`{"rid":1,"t":"ping"}`, ""},
		"only nested":                 {`{"t":"shout","x":{"rid":"r1"}}`, ""},
		"broken itself":               {`{"rid":"\ud800","t":"ping"}`, ""},
		"too long, but readable":      {`{"rid":"` + long + `","t":"ping"}`, long},
		"too long to echo":            {`{"rid":"` + strings.Repeat("x", maxEcho+1) + `","t":"ping"}`, ""},
		"too long, in what is broken": {`{"rid":"` + strings.Repeat("x", maxEcho+1) + `","t":"ping"`, ""},
		"not an object":               {`["rid","r1"]`, ""},
		"nothing":                     {``, ""},
	} {
		t.Run(name, func(t *testing.T) {
			frame, rid, err := Decode([]byte(c.data))
			if err == nil || frame != nil {
				t.Fatalf("%.100s is accepted as %+v", c.data, frame)
			}
			if rid != c.rid {
				t.Errorf("rid %q, want %q", rid, c.rid)
			}
		})
	}
}

// TestWhatIsNoObjectIsNamed: the first letter of a text is not what it is.
func TestWhatIsNoObjectIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"nonsense":   "not JSON at byte 1: ",
		"truth":      "not JSON at byte 3: ",
		"[1,}":       "1 is not valid at byte 3: ",
		"nul":        "the frame ends in the middle, at byte 3",
		"":           "the frame ends in the middle, at byte 0",
		"null":       "a frame must be a JSON object, not null",
		" true":      "a frame must be a JSON object, not a boolean",
		"[{}]":       "a frame must be a JSON object, not an array",
		`"a string"`: "a frame must be a JSON object, not a string",
	} {
		_, _, err := Decode([]byte(text))
		if impart.CodeOf(err) != impart.BadFrame || !strings.HasPrefix(impart.AsError(err).Message, want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestAcceptedFramesTellTheirRID(t *testing.T) {
	frame, rid, err := Decode([]byte(`{"t":"ping","rid":"r1"}`))
	if err != nil || rid != "r1" || frame.(*Ping).RID != "r1" {
		t.Errorf("got %+v, %q, %v", frame, rid, err)
	}
}

func TestReadRIDOfAHugeFrame(t *testing.T) {
	data := `{"t":"send","conv":"c","cmid":"m","body":"` + strings.Repeat("x", 3<<20) + `","rid":"r1"}`
	if rid := readRID([]byte(data)); rid != "r1" {
		t.Errorf("rid %q, want r1", rid)
	}
	if rid := readRID([]byte(data[:2<<20])); rid != "" {
		t.Errorf("rid %q of a text that ends before it", rid)
	}
}

// A value may nest MaxDepth deep and no deeper, known or unknown, ext or acks.
func TestDepth(t *testing.T) {
	nest := func(depth int) string {
		return strings.Repeat(`{"a":`, depth-1) + `{}` + strings.Repeat("}", depth-1)
	}
	for _, format := range []string{
		`{"t":"send","conv":"c","cmid":"m","body":"","ext":%s}`,
		`{"t":"ping","x":%s}`,
		`{"t":"ping","x":"]}\"]}","y":%s}`,
	} {
		if _, _, err := Decode(fmt.Appendf(nil, format, nest(MaxDepth))); err != nil {
			t.Errorf(format+": depth %d: %v", "…", MaxDepth, err)
		}
		_, _, err := Decode(fmt.Appendf(nil, format, nest(MaxDepth+1)))
		if impart.CodeOf(err) != impart.BadFrame || !strings.Contains(err.Error(), "deeper") {
			t.Errorf(format+": depth %d: %v", "…", MaxDepth+1, err)
		}
	}
}

// Frames of the largest size that hurt other parsers are refused, or read, with
// memory in proportion to their size and nothing kept.
func TestBombs(t *testing.T) {
	const size = 1 << 20
	names := new(strings.Builder)
	for i := 0; names.Len() < size; i++ {
		fmt.Fprintf(names, `,"k%d":0`, i)
	}
	for name, c := range map[string]struct {
		data string
		code impart.Code
	}{
		"open brackets":      {`{"t":"ping","x":` + strings.Repeat("[", size), impart.BadFrame},
		"open objects":       {`{"t":"ping","x":` + strings.Repeat(`{"a":`, size/5), impart.BadFrame},
		"brackets at once":   {strings.Repeat("[", size), impart.BadFrame},
		"objects at once":    {strings.Repeat(`{"t":`, size/5), impart.BadFrame},
		"a huge ext":         {`{"t":"send","conv":"c","cmid":"m","body":"","ext":{"k":"` + strings.Repeat("x", size) + `"}}`, impart.TooLarge},
		"a huge array":       {`{"t":"ping","x":[0` + strings.Repeat(",0", size/2) + `]}`, ""},
		"huge acks":          {`{"t":"ack","acks":[{"conv":"c","seq":1}` + strings.Repeat(`,{"conv":"c","seq":1}`, size/21) + `]}`, impart.TooLarge},
		"acks of nothing":    {`{"t":"ack","acks":[0` + strings.Repeat(",0", size/2) + `]}`, impart.BadFrame},
		"a huge number":      {`{"t":"ack","conv":"c","seq":` + strings.Repeat("9", size) + `}`, impart.BadFrame},
		"a huge exponent":    {`{"t":"ack","conv":"c","seq":1e999999999}`, impart.BadFrame},
		"a huge id":          {`{"t":"typing","conv":"` + strings.Repeat("x", size) + `"}`, impart.BadFrame},
		"a huge rid":         {`{"t":"ping","rid":"` + strings.Repeat("x", size) + `"}`, impart.TooLarge},
		"a huge name":        {`{"t":"ping","` + strings.Repeat("x", size) + `":1}`, ""},
		"many names":         {`{"t":"ping"` + names.String() + `}`, ""},
		"many features":      {`{"t":"hello","device":"d","features":[""` + strings.Repeat(`,""`, size/3) + `]}`, impart.BadFrame},
		"escapes only":       {`{"t":"send","conv":"c","cmid":"m","body":"` + strings.Repeat(`\u0041`, size/6) + `"}`, ""},
		"backslashes to end": {`{"t":"ping","x":["` + strings.Repeat(`\\`, size/2), impart.BadFrame},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _, err := Decode([]byte(c.data))
			runtime.ReadMemStats(&after)
			if impart.CodeOf(err) != c.code {
				t.Errorf("got %v, want code %q", err, c.code)
			}
			if spent := after.TotalAlloc - before.TotalAlloc; spent > 32*size {
				t.Errorf("%d bytes were allocated for a frame of %d", spent, len(c.data))
			}
		})
	}
}

func TestAcksUpToTheLimit(t *testing.T) {
	f := &Ack{Batch: true, Items: make([]impart.AckItem, impart.MaxLimit)}
	for i := range f.Items {
		f.Items[i] = impart.AckItem{Conv: "c", Seq: impart.Seq(i)}
	}
	frame, _, err := Decode(AppendFrame(nil, f))
	if err != nil {
		t.Fatal(err)
	}
	items := frame.(*Ack).Items
	if len(items) != impart.MaxLimit || items[impart.MaxLimit-1].Seq != impart.MaxLimit-1 {
		t.Errorf("%d acks arrived, the last is %+v", len(items), items[len(items)-1])
	}
}

// A frame outlives the buffer that it was read from, and the next frame.
func TestFramesKeepNothingOfTheText(t *testing.T) {
	data := []byte(`{"t":"send","rid":"r1","conv":"c-ab","cmid":"m1","body":"hi","type":"x","ext":{"a":1},"prev":"m0"}`)
	frame, rid, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	want := string(AppendFrame(nil, frame))
	copy(data, bytes.Repeat([]byte{'#'}, len(data)))
	if _, _, err := Decode([]byte(`{"t":"ping"}`)); err != nil {
		t.Fatal(err)
	}
	if got := string(AppendFrame(nil, frame)); got != want || rid != "r1" {
		t.Errorf("the frame changed with the buffer: %s, want %s", got, want)
	}
}

func TestDecodeAsReadsABodyWithoutTypeAndRID(t *testing.T) {
	for _, typ := range clientTypes {
		file := readGolden(t, "testdata/client/"+typ+".json")
		for _, c := range file.Valid {
			want, _, err := Decode([]byte(c.JSON))
			if err != nil {
				t.Fatal(err)
			}
			got, err := DecodeAs(typ, []byte(c.JSON))
			if err != nil {
				t.Errorf("%s: %v", c.JSON, err)
				continue
			}
			wanted := strings.Replace(string(AppendFrame(nil, want)), `,"rid":"r1"`, "", 1)
			wanted = strings.Replace(wanted, `,"rid":"r2"`, "", 1)
			if got := string(AppendFrame(nil, got)); got != wanted {
				t.Errorf("DecodeAs read %s, want %s", got, wanted)
			}
		}
	}
	frame, err := DecodeAs("read", []byte(`{"conv":"c-ab","seq":7}`))
	if err != nil || *frame.(*Read) != (Read{Conv: "c-ab", Seq: 7}) {
		t.Errorf("got %+v, %v", frame, err)
	}
	for _, bad := range []string{``, `[]`, `{"seq":7}`, `{"conv":"c","seq":7}x`, `{"conv":"c","conv":"c","seq":7}`} {
		if frame, err := DecodeAs("read", []byte(bad)); impart.CodeOf(err) != impart.BadFrame || frame != nil {
			t.Errorf("%q became %+v, %v", bad, frame, err)
		}
	}
	if frame, err := DecodeAs("shout", []byte(`{}`)); impart.CodeOf(err) != impart.BadFrame || frame != nil {
		t.Errorf("an unknown frame became %+v, %v", frame, err)
	}
}

func TestSendRequestOfTheHTTPAPI(t *testing.T) {
	for data, want := range map[string]Send{
		`{"conv_id":88001,"client_msg_id":"c-1a2b3c","text":"hi"}`:                {Conv: "88001", CMID: "c-1a2b3c", Body: "hi"},
		`{"conv_id":"88001","client_msg_id":"m","text":""}`:                       {Conv: "88001", CMID: "m"},
		`{"conv_id":18446744073709551615,"client_msg_id":"m","text":"hi"}`:        {Conv: "18446744073709551615", CMID: "m", Body: "hi"},
		`{"conv_id":-1,"client_msg_id":"m","text":"hi","epoch":3,"prev":"m0"}`:    {Conv: "-1", CMID: "m", Body: "hi", Epoch: 3, Prev: "m0"},
		`{"type":"image","text":"hi","client_msg_id":"m","conv_id":"c","conv":1}`: {Conv: "c", CMID: "m", Body: "hi", Type: "image"},
	} {
		got, err := DecodeSendRequest([]byte(data))
		if err != nil || string(AppendFrame(nil, got)) != string(AppendFrame(nil, &want)) {
			t.Errorf("%s became %+v, %v", data, got, err)
		}
	}
	for data, field := range map[string]string{
		`{"conv_id":1.0,"client_msg_id":"m","text":"hi"}`:                               "conv_id",
		`{"conv_id":1e3,"client_msg_id":"m","text":"hi"}`:                               "conv_id",
		`{"conv_id":true,"client_msg_id":"m","text":"hi"}`:                              "conv_id",
		`{"conv_id":{},"client_msg_id":"m","text":"hi"}`:                                "conv_id",
		`{"conv_id":null,"client_msg_id":"m","text":"hi"}`:                              "conv_id",
		`{"client_msg_id":"m","text":"hi"}`:                                             "conv_id",
		`{"conv_id":"c","text":"hi"}`:                                                   "client_msg_id",
		`{"conv_id":"c","client_msg_id":"m"}`:                                           "text",
		`{"conv_id":"c","client_msg_id":"m","text":"\u0000"}`:                           "text",
		`{"conv_id":"c","client_msg_id":"m","text":"\ud800"}`:                           "text",
		`{"conv_id":` + strings.Repeat("1", 129) + `,"client_msg_id":"m","text":"hi"}`:  "conv_id",
		`{"conv_id":"c","client_msg_id":"m","text":"hi","conv_id":"d"}`:                 "conv_id",
		`{"conv_id":"` + strings.Repeat("c", 129) + `","client_msg_id":"m","text":"h"}`: "conv_id",
	} {
		if got, err := DecodeSendRequest([]byte(data)); impart.CodeOf(err) != impart.BadFrame || !strings.Contains(err.Error(), field) {
			t.Errorf("%.80s became %+v, %v; want BAD_FRAME that names %s", data, got, err, field)
		}
	}
}

func TestIntegers(t *testing.T) {
	for raw, want := range map[string]int64{
		"0": 0, "-0": 0, "7": 7, "-7": -7, "9007199254740991": impart.MaxNumber, "-9007199254740991": -impart.MaxNumber,
	} {
		if got, ok := integer([]byte(raw)); !ok || got != want {
			t.Errorf("%s is read as %d, %v", raw, got, ok)
		}
	}
	for _, raw := range []string{
		"9007199254740992", "-9007199254740992", "9999999999999999", "10000000000000000", "99999999999999999999999999", "1.0", "1.5", "1e3", "1E0",
		"-1e-1", "0.0", "-",
	} {
		if got, ok := integer([]byte(raw)); ok {
			t.Errorf("%s is read as %d", raw, got)
		}
	}
}

func TestEveryNameIsListedOnce(t *testing.T) {
	if len(nameOf) != int(numNames) {
		t.Errorf("%d names, %d of them distinct", numNames, len(nameOf))
	}
	for n, text := range names {
		if text == "" || nameOf[text] != name(n) {
			t.Errorf("name %d is %q and looks up as %d", n, text, nameOf[text])
		}
	}
}

// An epoch of 0 names none of the store's, and is refused like any other wrong
// one; it does not mean the current one.
func TestAnEpochOfZeroIsNotTheCurrentOne(t *testing.T) {
	for text, want := range map[string]impart.Epoch{
		`{"t":"read","conv":"c","seq":1}`:              0,
		`{"t":"read","conv":"c","seq":1,"epoch":null}`: 0,
		`{"t":"read","conv":"c","seq":1,"epoch":7}`:    7,
		`{"t":"read","conv":"c","seq":1,"epoch":0}`:    noEpoch,
		`{"t":"read","conv":"c","seq":1,"epoch":-0}`:   noEpoch,
	} {
		frame, _, err := Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := frame.(*Read).Epoch; got != want {
			t.Errorf("%s: epoch %d, want %d", text, got, want)
		}
	}
}
