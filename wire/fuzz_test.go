package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/impart-im/impart"
)

// FuzzDecode: any bytes are a frame that is written and read again as the same
// frame, or one of two refusals. What is accepted is also JSON to another parser,
// which reads the same text.
func FuzzDecode(f *testing.F) {
	goldenTexts(f, "client")
	f.Fuzz(func(t *testing.T, data []byte) {
		kept := bytes.Clone(data)
		frame, rid, err := Decode(data)
		if !bytes.Equal(data, kept) {
			t.Fatal("Decode wrote to its input")
		}
		if err != nil {
			checkRefusal(t, frame, err)
			return
		}
		if !utf8.Valid(data) || !json.Valid(data) || len(rid) > impart.MaxRID {
			t.Fatalf("%q is accepted", data)
		}
		if send, ok := frame.(*Send); ok {
			checkOtherReader(t, data, send)
		}
		text := AppendFrame(nil, frame)
		again, _, err := Decode(text)
		if err != nil || !reflect.DeepEqual(frame, again) {
			t.Fatalf("%q is %+v, written as %q and read again as %+v, %v", data, frame, text, again, err)
		}
	})
}

func checkRefusal(t *testing.T, frame any, err error) {
	t.Helper()
	var refused *impart.Error
	if !errors.As(err, &refused) || (refused.Code != impart.BadFrame && refused.Code != impart.TooLarge) {
		t.Fatalf("refused with %v", err)
	}
	if frame != nil && !reflect.ValueOf(frame).IsNil() || len(refused.Message) > 500 || !utf8.ValidString(refused.Message) {
		t.Fatalf("refused with %+v and a message of %d bytes", frame, len(refused.Message))
	}
}

// checkOtherReader reads a send with encoding/json, which folds the case of
// names: a text that has such names is not compared.
func checkOtherReader(t *testing.T, data []byte, send *Send) {
	t.Helper()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	var body, conv, cmid string
	for name, into := range map[string]*string{"body": &body, "conv": &conv, "cmid": &cmid} {
		if err := json.Unmarshal(fields[name], into); err != nil {
			t.Fatal(err)
		}
	}
	if body != send.Body || conv != string(send.Conv) || cmid != string(send.CMID) {
		t.Fatalf("encoding/json reads %q %q %q, Decode %q %q %q", conv, cmid, body, send.Conv, send.CMID, send.Body)
	}
}

// FuzzDecodeServer: what a client accepts is written again as what it read.
func FuzzDecodeServer(f *testing.F) {
	goldenTexts(f, "server")
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, err := DecodeServer(data)
		if errors.Is(err, ErrUnknownFrame) {
			return
		}
		if err != nil {
			checkRefusal(t, frame, err)
			return
		}
		text := frame.Append(nil)
		if !json.Valid(text) {
			t.Fatalf("%q is written as %q, which is not JSON", data, text)
		}
		again, err := DecodeServer(text)
		if err != nil {
			t.Fatalf("%q is written as %q and refused: %v", data, text, err)
		}
		if third := again.Append(nil); !bytes.Equal(third, text) {
			t.Fatalf("%q is written as %q and then as %q", data, text, third)
		}
	})
}

// FuzzExt: an ext is kept byte for byte, in a frame that is still JSON for every
// reader, or it is refused.
func FuzzExt(f *testing.F) {
	for _, ext := range []string{
		`{}`, `{"a":1}`, "{ \"a\" :\n[1.0e5, true, null] }", `{"a":{"a":{"a":{}}}}`, `{"k":1,"k":2}`, `{"\u006b":1,"k":2}`, `{"a":"\ud800"}`,
		`{"a":"\ud83d\ude00"}`, `{"a":"\u0000"}`, `{"a":"\\u0000"}`, `[]`, `"x"`, `{"a":1}}`, `{"a":1},"body":"x"`, `{"a":NaN}`, `{"é":"消息"}`, "{\"a\":\"\xff\"}",
	} {
		f.Add([]byte(ext))
	}
	f.Fuzz(func(t *testing.T, ext []byte) {
		data := fmt.Appendf(nil, `{"t":"send","conv":"c","cmid":"m","body":"b","ext":%s}`, ext)
		frame, _, err := Decode(data)
		if err != nil {
			checkRefusal(t, frame, err)
			return
		}
		send, ok := frame.(*Send)
		if !ok || send.Ext == nil {
			return // null, or a text that closed the frame's object early
		}
		if !bytes.Equal(bytes.TrimSpace(ext), send.Ext) && !bytes.HasPrefix(bytes.TrimSpace(ext), send.Ext) {
			t.Fatalf("ext %q is kept as %q", ext, send.Ext)
		}
		if len(send.Ext) > impart.MaxExt || bytes.IndexByte(send.Ext, 0) >= 0 {
			t.Fatalf("ext %q is accepted", send.Ext)
		}
		ev := &impart.Event{Conv: "c", Seq: 1, Kind: impart.KindMsg, MID: "mid", Sender: "u", CMID: "m", Body: "b", Type: "text", Ext: send.Ext}
		text := Event{Event: ev, Epoch: 1}.Append(nil)
		pushed, err := DecodeServer(text)
		if err != nil || !json.Valid(text) {
			t.Fatalf("the push %q is refused: %v", text, err)
		}
		if got := pushed.(*Event).Event.Ext; !bytes.Equal(got, send.Ext) {
			t.Fatalf("ext %q arrives as %q", send.Ext, got)
		}
	})
}

// FuzzReadRID: it never fails, and it agrees with Decode on what is valid.
func FuzzReadRID(f *testing.F) {
	goldenTexts(f, "client")
	f.Fuzz(func(t *testing.T, data []byte) {
		rid := readRID(data)
		if len(rid) > maxEcho || !utf8.ValidString(rid) {
			t.Fatalf("rid %q", rid)
		}
		if _, decoded, err := Decode(data); err == nil && decoded != rid {
			t.Fatalf("%q has rid %q, readRID says %q", data, decoded, rid)
		}
	})
}

// FuzzSendRequest: the HTTP send request has a send frame's limits.
func FuzzSendRequest(f *testing.F) {
	f.Add([]byte(`{"conv_id":88001,"client_msg_id":"c-1a2b3c","text":"hi"}`))
	f.Add([]byte(`{"conv_id":"c","client_msg_id":"m","text":"hi","type":"x","ext":{"a":1},"prev":"p","epoch":2}`))
	f.Add([]byte(`{"conv_id":-0,"client_msg_id":"m","text":"\u0000"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		send, err := DecodeSendRequest(data)
		if err != nil {
			checkRefusal(t, send, err)
			return
		}
		again, _, err := Decode(AppendFrame(nil, send))
		if err != nil || !reflect.DeepEqual(Frame(send), again) {
			t.Fatalf("%q is %+v and as a frame %+v, %v", data, send, again, err)
		}
	})
}
