package wire

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/impart-im/impart"
)

func TestListsAreNeverNull(t *testing.T) {
	for _, c := range []struct {
		frame ServerFrame
		want  string
	}{
		{Subbed{}, `{"convs":[],"more":false,"epoch":0}`},
		{Acked{Batch: true}, `{"acks":[]}`},
		{Synced{Page: impart.Page{Conv: "c"}}, `{"conv":"c","events":[],"through":0,"head":0,"floor":0,"epoch":0,"more":false}`},
		{Synced{Back: true, Page: impart.Page{Conv: "c"}}, `{"conv":"c","events":[],"head":0,"floor":0,"epoch":0,"more":false}`},
		{Pulled{}, `{"convs":[],"failed":[],"more":false,"epoch":0}`},
		{ConvsPage{}, `{"convs":[],"more":false,"epoch":0}`},
		{Whos{Conv: "c", Seq: 1}, `{"conv":"c","seq":1,"users":[],"more":false}`},
		{Pong{RID: "r1"}, `{}`},
	} {
		if got := string(c.frame.AppendBody(nil)); got != c.want {
			t.Errorf("%T is %s, want %s", c.frame, got, c.want)
		}
	}
}

// What HTTP answers is the frame without its first two fields, wherever in a
// buffer it is put.
func TestBodiesAreFramesWithoutTypeAndRID(t *testing.T) {
	for _, typ := range serverTypes {
		for _, c := range readGolden(t, "testdata/server/"+typ+".json").Valid {
			frame, err := DecodeServer([]byte(c.JSON))
			if err != nil {
				t.Fatal(err)
			}
			var whole, body map[string]json.RawMessage
			unmarshal(t, frame.Append(nil), &whole)
			const before = "before "
			text := frame.AppendBody([]byte(before))
			if string(text[:len(before)]) != before {
				t.Fatalf("%T wrote over what stood there: %s", frame, text)
			}
			unmarshal(t, text[len(before):], &body)
			delete(whole, "t")
			delete(whole, "rid")
			if len(whole) != len(body) {
				t.Errorf("%T: the body %s has other fields than %s", frame, text, c.JSON)
			}
			for field, value := range whole {
				if string(body[field]) != string(value) {
					t.Errorf("%T: %s is %s in the body and %s in the frame", frame, field, body[field], value)
				}
			}
		}
	}
}

func unmarshal(t *testing.T, data []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
}

// A recalled body is not told even if a store were to hand it out (D17), and
// neither is the device that sent a message.
func TestEventsTellNoMoreThanTheyMay(t *testing.T) {
	ev := &impart.Event{
		Conv: "c", Seq: 1, Kind: impart.KindMsg, MID: "mid", Sender: "u-ana", Device: "d-secret", CMID: "m", Type: "text",
		Body: "hidden", Ext: []byte(`{"hidden":1}`), Recalled: true,
	}
	want := `{"conv":"c","seq":1,"kind":"msg","mid":"mid","sender":"u-ana","cmid":"m","type":"text","at":0,"recalled":true}`
	if got := string(AppendEventObject(nil, ev)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestErrorFramesOfEveryCode(t *testing.T) {
	for _, code := range impart.Codes() {
		err := &impart.Error{
			Code: code, Message: "why", Epoch: 9, RetryAfter: 1500*time.Millisecond + 1, Cause: errors.New("secret cause"),
		}
		var got struct {
			T, RID, Code, Message string
			Retry                 bool
			RetryAfterMS          int64 `json:"retry_after_ms"`
			Epoch                 int64
		}
		text := ErrorFrame{RID: "r1", Err: err}.Append(nil)
		unmarshal(t, text, &got)
		if got.T != "error" || got.RID != "r1" || got.Code != string(code) || got.Message != "why" || got.Retry != code.Retry() || got.RetryAfterMS != 1501 {
			t.Errorf("%s is sent as %s", code, text)
		}
		if told := got.Epoch == 9; told != (code == impart.EpochChanged) {
			t.Errorf("%s tells the epoch: %v", code, told)
		}
	}
	if got := string(ErrorFrame{Err: impart.Errorf(impart.NotMember, "no")}.AppendBody(nil)); got != `{"code":"NOT_MEMBER","message":"no","retry":false}` {
		t.Errorf("got %s", got)
	}
	var lost struct{ Code string }
	unmarshal(t, ErrorFrame{}.Append(nil), &lost)
	if lost.Code != string(impart.Unavailable) {
		t.Errorf("an error frame without an error says %q", lost.Code)
	}
}

// A refused ack never looks like a merged cursor, and an error that is none of
// ours is UNAVAILABLE.
func TestAckedTellsRefusals(t *testing.T) {
	f := Acked{Batch: true, Items: []impart.Acked{
		{Conv: "a", Delivered: 7}, {Conv: "b", Err: impart.Errorf(impart.CursorAhead, "seq=9 head=7")}, {Conv: "c", Err: errors.New("disk")},
	}}
	want := `{"acks":[{"conv":"a","delivered":7},{"conv":"b","code":"CURSOR_AHEAD"},{"conv":"c","code":"UNAVAILABLE"}]}`
	if got := string(f.AppendBody(nil)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestUnknownServerFramesAreTold(t *testing.T) {
	if frame, err := DecodeServer([]byte(`{"t":"of the future","x":1}`)); !errors.Is(err, ErrUnknownFrame) || frame != nil {
		t.Errorf("got %v, %v", frame, err)
	}
	for _, bad := range []string{``, `[]`, `{}`, `{"t":1}`, `{"t":"pong"`, `{"t":"pong"}{}`} {
		if frame, err := DecodeServer([]byte(bad)); err == nil || errors.Is(err, ErrUnknownFrame) || frame != nil {
			t.Errorf("%q became %v, %v", bad, frame, err)
		}
	}
}

func TestDelaysFromAServerAreBounded(t *testing.T) {
	for ms, want := range map[string]time.Duration{"1500": 1500 * time.Millisecond, "-5": 0, "9007199254740991": 24 * time.Hour} {
		frame, err := DecodeServer([]byte(`{"t":"bye","code":"DRAIN","reconnect_after_ms":` + ms + `}`))
		if err != nil || frame.(*Bye).ReconnectAfter != want {
			t.Errorf("%s ms is read as %+v, %v", ms, frame, err)
		}
	}
}

// Hot frames cost no allocation while their buffer has room.
func TestHotFramesDoNotAllocate(t *testing.T) {
	dst := make([]byte, 0, 4096)
	ev := &impart.Event{
		Conv: "c-ab", Seq: 7, Kind: impart.KindMsg, MID: "mid-7", Sender: "u-ana", CMID: "m1", Type: "text",
		Body: "a body with \"escapes\",\nmore than one, and longer than thirty-two bytes: 消息", Ext: []byte(`{"a":1}`),
	}
	refused := impart.Errorf(impart.NotMember, "no")
	items := []impart.Acked{{Conv: "c-ab", Delivered: 7}, {Conv: "c-cd", Delivered: 1}}
	page := impart.Page{Conv: "c-ab", Events: []impart.Event{*ev, *ev}, Through: 8, Head: 9}
	pulled := impart.Pulled{Convs: []impart.Page{page}, Failed: []impart.PullFailure{{Conv: "c", Code: impart.Unavailable}}}
	for name, appendTo := range map[string]func(){
		"event":   func() { dst = Event{Event: ev, Epoch: 1}.Append(dst[:0]) },
		"sent":    func() { dst = Sent{RID: "r1", Sent: impart.Sent{Conv: "c-ab", Seq: 7, MID: "mid-7"}}.Append(dst[:0]) },
		"acked":   func() { dst = Acked{RID: "r1", Items: items[:1]}.Append(dst[:0]) },
		"acks":    func() { dst = Acked{RID: "r1", Items: items, Batch: true}.Append(dst[:0]) },
		"hint":    func() { dst = Hint{Conv: "c-ab", Head: 9, Epoch: 1, Why: WhySweep}.Append(dst[:0]) },
		"receipt": func() { dst = Receipt{Conv: "c-ab", User: "u-ana", Delivered: 7}.Append(dst[:0]) },
		"pong":    func() { dst = Pong{RID: "r1"}.Append(dst[:0]) },
		"error":   func() { dst = ErrorFrame{RID: "r1", Err: refused}.Append(dst[:0]) },
		"synced":  func() { dst = Synced{RID: "r1", Page: page}.Append(dst[:0]) },
		"pulled":  func() { dst = Pulled{RID: "r1", Pulled: pulled}.Append(dst[:0]) },
	} {
		if allocs := testing.AllocsPerRun(100, appendTo); allocs != 0 {
			t.Errorf("%s: %v allocations", name, allocs)
		}
	}
}

func TestCloseCodesTellEachReason(t *testing.T) {
	seen := map[uint16]ByeCode{}
	for _, code := range ByeCodes() {
		status := code.CloseCode()
		if other, taken := seen[status]; taken || status == CloseInternal {
			t.Errorf("%s and %s close with %d", code, other, status)
		}
		seen[status] = code
		if back := ByeOfClose(status); back != code {
			t.Errorf("close code %d is read as %q, want %s", status, back, code)
		}
		if status != CloseGoingAway && (status < 4000 || status > 4999) {
			t.Errorf("%s closes with %d, which is not ours to use", code, status)
		}
	}
	if got := ByeCode("OTHER").CloseCode(); got != CloseInternal {
		t.Errorf("an unknown reason closes with %d", got)
	}
	if got := ByeOfClose(1006); got != "" {
		t.Errorf("a lost connection is read as %s", got)
	}
}
