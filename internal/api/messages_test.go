package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/impart-im/impart"
)

func TestTheSendOfTheFirstBookWorksTwiceWithTheSameAnswer(t *testing.T) {
	w := newWorld(t, nil)
	w.conversation("88001", "u-ana", "u-ben")
	const body = `{"conv_id":88001,"client_msg_id":"c-1a2b3c","text":"hi"}`
	first := w.api("send", body, as("u-ana")).wants(http.StatusOK).object()
	again := w.api("send", body, as("u-ana")).wants(http.StatusOK).object()
	if first["dup"] != false || again["dup"] != true {
		t.Errorf("dup is %v, then %v", first["dup"], again["dup"])
	}
	if first["msg_id"] != again["msg_id"] || first["seq"] != 1.0 || again["seq"] != 1.0 || first["epoch"] != 1.0 {
		t.Errorf("not the same answer: %v, then %v", first, again)
	}
	if len(first) != 4 || len(again) != 4 {
		t.Errorf("more than msg_id, seq, dup and epoch: %v", first)
	}
	page := w.api("sync", `{"conv":"88001","after":0}`, as("u-ben")).wants(http.StatusOK)
	if events, _ := page.object()["events"].([]any); len(events) != 1 {
		t.Errorf("ben sees %s", page.body)
	}
	// The number stands for its text: both name one conversation and one message.
	w.api("send", `{"conv_id":"88001","client_msg_id":"c-1a2b3c","text":"hi"}`, as("u-ana")).wants(http.StatusOK).contains(`"dup":true`)
}

func TestTextComesBackByteForByte(t *testing.T) {
	w := newWorld(t, nil)
	w.conversation("c-ab", "u-ana", "u-ben")
	for i, c := range []struct{ sent, stored string }{
		{`""`, ""},
		{`" a  b "`, " a  b "},
		{`"é e\u0301"`, "é e\u0301"}, // composed and decomposed stay apart
		{`"\u202eabc\u2066"`, "\u202eabc\u2066"},
		{`"<script>alert(1)</script>&amp;"`, "<script>alert(1)</script>&amp;"},
		{`"\ud83d\ude00 😀"`, "😀 😀"},
		{`"\r\n\u001b[31m\u007f\u0085\ufeff\uffff"`, "\r\n\x1b[31m\x7f\u0085\ufeff\uffff"},
		{`"\"\\\/"`, `"\/`},
		{`"{\"code\":\"X\"}"`, `{"code":"X"}`},
		{`"` + strings.Repeat("中", 21845) + `"`, strings.Repeat("中", 21845)}, // 65,535 bytes
	} {
		cmid := "m" + string(rune('a'+i))
		seq := w.api("send", `{"conv_id":"c-ab","client_msg_id":"`+cmid+`","text":`+c.sent+`}`, as("u-ana")).wants(http.StatusOK).number("seq")
		page := w.api("sync", `{"conv":"c-ab","after":`+jsonText(t, seq-1)+`,"limit":1}`, as("u-ben")).wants(http.StatusOK)
		var got struct{ Events []struct{ Body string } }
		if err := json.Unmarshal([]byte(page.body), &got); err != nil || len(got.Events) != 1 || got.Events[0].Body != c.stored {
			t.Errorf("sent %.60s, got back %.80s", c.sent, page.body)
		}
	}
}

func jsonText(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestWhatCannotBeKeptIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	w.conversation("c-ab", "u-ana", "u-ben")
	send := func(fields string) string { return `{"conv_id":"c-ab","client_msg_id":"m",` + fields + `}` }
	for name, body := range map[string]string{
		"no JSON":               `hello`,
		"half":                  `{"conv_id":`,
		"an array":              `[]`,
		"null":                  `null`,
		"two objects":           `{} {}`,
		"NUL":                   send(`"text":"a\u0000b"`),
		"lone surrogate":        send(`"text":"\ud800"`),
		"invalid UTF-8":         send("\"text\":\"\xff\""),
		"text is a number":      send(`"text":1`),
		"no text":               send(`"type":"text"`),
		"text twice":            send(`"text":"a","text":"b"`),
		"names in another case": `{"CONV_ID":"c-ab","client_msg_id":"m","text":"a"}`,
		"the frames' names":     `{"conv":"c-ab","cmid":"m","body":"a"}`,
		"no conversation":       `{"client_msg_id":"m","text":"a"}`,
		"empty conversation":    `{"conv_id":"","client_msg_id":"m","text":"a"}`,
		"fraction":              `{"conv_id":1.5,"client_msg_id":"m","text":"a"}`,
		"exponent":              `{"conv_id":1e3,"client_msg_id":"m","text":"a"}`,
		"conv_id is a list":     `{"conv_id":["c-ab"],"client_msg_id":"m","text":"a"}`,
		"control character":     `{"conv_id":"c\u0007","client_msg_id":"m","text":"a"}`,
		"dots":                  `{"conv_id":"..","client_msg_id":"m","text":"a"}`,
		"long cmid":             `{"conv_id":"c-ab","client_msg_id":"` + strings.Repeat("m", 65) + `","text":"a"}`,
		"ext is text":           send(`"text":"a","ext":"x"`),
		"empty type":            send(`"text":"a","type":""`),
		"deep":                  send(`"text":"a","ext":` + strings.Repeat(`{"a":`, 20000) + `1` + strings.Repeat(`}`, 20000)),
	} {
		t.Run(name, func(t *testing.T) { w.api("send", body, as("u-ana")).fails(impart.BadFrame) })
	}
	for name, body := range map[string]string{
		"body":    send(`"text":"` + strings.Repeat("x", 65537) + `"`),
		"ext":     send(`"text":"a","ext":{"x":"` + strings.Repeat("x", 5000) + `"}`),
		"type":    send(`"text":"a","type":"` + strings.Repeat("x", 65) + `"`),
		"request": send(`"text":"` + strings.Repeat("x", 1<<20) + `"`),
	} {
		t.Run("large "+name, func(t *testing.T) { w.api("send", body, as("u-ana")).fails(impart.TooLarge) })
	}
	if page := w.api("sync", `{"conv":"c-ab","after":0}`, as("u-ben")).wants(http.StatusOK); page.number("head") != 0 {
		t.Errorf("something was stored: %s", page.body)
	}
}

func TestSendHasTheOptionalFieldsOfTheFrame(t *testing.T) {
	rules := &fake{}
	w := newFake(t, rules, nil)
	w.api("send", `{"conv_id":"c","client_msg_id":"m","text":"x","type":"note","ext":{"b": 1,"a":[ ]},"prev":"l","epoch":3,"new":"field"}`, as("u-ana"),
		on("d-1"))
	want := impart.Send{Sender: "u-ana", Conv: "c", CMID: "m", Prev: "l", Type: "note", Body: "x", Ext: []byte(`{"b": 1,"a":[ ]}`), Epoch: 3}
	if len(rules.sends) != 1 || jsonText(t, rules.sends[0]) != jsonText(t, want) {
		t.Errorf("got %+v\nwant %+v", rules.sends, want)
	}
}

// A story over HTTP alone: send, pull, ack, read, who, recall, and what the
// others see of it.
func TestADeviceCanDoWithoutAConnection(t *testing.T) {
	w := newWorld(t, nil)
	w.conversation("c-ab", "u-ana", "u-ben")
	w.api("pull", "", as("u-ben"), on("d-ben")).wants(http.StatusOK).contains(`"convs":[]`)
	w.message("u-ana", "c-ab", "m1", "one")
	w.message("u-ana", "c-ab", "m2", "two")

	page := w.api("pull", `{"limit":10}`, as("u-ben"), on("d-ben")).wants(http.StatusOK).contains(`"through":2`).contains(`"body":"one"`)
	w.api("pull", `{}`, as("u-ben"), on("d-ben")).says("%s", page.body)
	w.api("ack", `{"conv":"c-ab","seq":2,"n":1,"epoch":1}`, as("u-ben"), on("d-ben")).says(`{"conv":"c-ab","delivered":2}`)
	w.api("ack", `{"conv":"c-ab","seq":1}`, as("u-ben"), on("d-ben")).says(`{"conv":"c-ab","delivered":2}`)
	w.api("ack", `{"acks":[{"conv":"c-ab","seq":2},{"conv":"c-no","seq":1},{"conv":"c-ab","seq":9}]}`, as("u-ben"), on("d-ben")).
		says(`{"acks":[{"conv":"c-ab","delivered":2},{"conv":"c-no","code":"NOT_MEMBER"},{"conv":"c-ab","code":"CURSOR_AHEAD"}]}`)
	w.api("pull", `{}`, as("u-ben"), on("d-ben")).contains(`"convs":[]`)
	w.api("read", `{"conv":"c-ab","seq":1}`, as("u-ben")).says(`{"conv":"c-ab","read":1}`)
	w.api("who", `{"conv":"c-ab","seq":1}`, as("u-ana")).wants(http.StatusOK).
		contains(`{"user":"u-ben","delivered":1,"devices":1,"read":true}`)
	w.api("who", `{"conv":"c-ab","seq":1,"after":"u-ana","limit":1}`, as("u-ana")).contains(`"users":[{"user":"u-ben"`)

	w.api("recall", `{"conv":"c-ab","seq":2,"cmid":"r1"}`, as("u-ben")).fails(impart.RecallRefused)
	recall := w.api("recall", `{"conv":"c-ab","seq":2,"cmid":"r2"}`, as("u-ana"), on("d-ana")).wants(http.StatusOK)
	if recall.number("seq") != 3 || len(recall.object()) != 6 {
		t.Errorf("recalled: %s", recall.body)
	}
	w.api("recall", `{"conv":"c-ab","seq":2,"cmid":"r2"}`, as("u-ana")).wants(http.StatusOK).contains(`"dup":true`)
	back := w.api("sync", `{"conv":"c-ab","before":4,"limit":2}`, as("u-ben")).wants(http.StatusOK).contains(`"recalled":true`)
	if strings.Contains(back.body, "two") || strings.Contains(back.body, "through") {
		t.Errorf("a page of history with a recalled body or a through: %s", back.body)
	}
	w.api("sync", `{"conv":"c-ab","after":1,"after_mid":"nope"}`, as("u-ben")).fails(impart.EpochChanged).contains(`"epoch":1`)
}

func TestPagesHaveLimits(t *testing.T) {
	w := newWorld(t, nil)
	w.conversation("c-ab", "u-ana", "u-ben")
	w.message("u-ana", "c-ab", "m1", "one")
	for _, body := range []string{
		`{"conv":"c-ab"}`, `{"conv":"c-ab","after":0,"before":1}`, `{"conv":"c-ab","after":0,"limit":0}`, `{"conv":"c-ab","after":0,"limit":1001}`,
		`{"conv":"c-ab","after":0,"limit":-1}`, `{"conv":"c-ab","after":0.5}`, `{"conv":"c-ab","after":9007199254740993}`, `{"conv":"c-ab","after":"0"}`,
	} {
		w.api("sync", body, as("u-ana")).fails(impart.BadFrame)
	}
	for _, body := range []string{`{"conv":"c-ab","after":2}`, `{"conv":"c-ab","after":-1}`, `{"conv":"c-ab","before":3}`} {
		w.api("sync", body, as("u-ana")).fails(impart.CursorAhead)
	}
	w.api("pull", `{"limit":1001}`, as("u-ana"), on("d")).fails(impart.BadFrame)
	w.api("who", `{"conv":"c-ab","seq":1,"limit":1001}`, as("u-ana")).fails(impart.BadFrame)
	w.api("who", `{"conv":"c-ab","seq":2}`, as("u-ana")).fails(impart.CursorAhead)
	items := strings.TrimSuffix(strings.Repeat(`{"conv":"c-ab","seq":1},`, 1001), ",")
	w.api("ack", `{"acks":[`+items+`]}`, as("u-ana"), on("d")).fails(impart.TooLarge)
	w.api("ack", `{"acks":[]}`, as("u-ana"), on("d")).says(`{"acks":[]}`)
	w.api("ack", ``, as("u-ana"), on("d")).fails(impart.BadFrame)
}

func TestADeviceIsNamedInTwoHeaders(t *testing.T) {
	w := newWorld(t, nil)
	w.conversation("c-ab", "u-ana", "u-ben")
	w.message("u-ana", "c-ab", "m1", "one")
	for _, op := range []struct{ name, body string }{{"pull", `{}`}, {"ack", `{"conv":"c-ab","seq":1}`}} {
		w.api(op.name, op.body, as("u-ben")).fails(impart.BadFrame).contains(deviceHeader)
		for _, bad := range []string{"", "..", "a\x01", strings.Repeat("d", 129), "\xff"} {
			w.api(op.name, op.body, as("u-ben"), header(deviceHeader, bad)).fails(impart.BadFrame)
		}
		w.api(op.name, op.body, as("u-ben"), on("d-1"), header(deviceHeader, "d-2")).fails(impart.BadFrame)
		w.api(op.name, op.body, as("u-ben"), on("d-1"), header(installHeader, "i-2")).fails(impart.BadFrame)
		w.api(op.name, op.body, as("u-ben"), header(installHeader, "i-2")).fails(impart.BadFrame)
	}
	w.api("ack", `{"conv":"c-ab","seq":1}`, as("u-ben"), on("手机 1")).says(`{"conv":"c-ab","delivered":1}`)
	// HTTP never raises the install epoch: another store of the same device has to connect first.
	for _, op := range []struct{ name, body string }{
		{"ack", `{"conv":"c-ab","seq":1}`}, {"pull", `{}`}, {"read", `{"conv":"c-ab","seq":1}`}, {"sync", `{"conv":"c-ab","after":0}`},
		{"who", `{"conv":"c-ab","seq":1}`}, {"send", `{"conv_id":"c-ab","client_msg_id":"x","text":"x"}`}, {"recall", `{"conv":"c-ab","seq":1,"cmid":"r"}`},
	} {
		w.api(op.name, op.body, as("u-ben"), header(deviceHeader, "手机 1"), header(installHeader, "another")).fails(impart.StaleInstall)
	}
}

// What concerns a whole batch is its error, with all that the error carries.
func TestAnAckFailsAsAWholeOrItemByItem(t *testing.T) {
	var results []impart.Acked
	w := newFake(t, &fake{acks: func(impart.Ack) []impart.Acked { return results }}, nil)
	ask := func(acked ...impart.Acked) answer {
		results = acked
		return w.api("ack", `{"acks":[{"conv":"a","seq":1},{"conv":"b","seq":2}]}`, as("u-ana"), on("d"))
	}
	moved := &impart.Error{Code: impart.EpochChanged, Message: "moved", Epoch: 9}
	ask(impart.Acked{Conv: "a", Err: moved}, impart.Acked{Conv: "b", Err: moved}).fails(impart.EpochChanged).contains(`"epoch":9`)
	away := impart.Errorf(impart.Unavailable, "away")
	ask(impart.Acked{Conv: "a", Err: away}, impart.Acked{Conv: "b", Err: away}).fails(impart.Unavailable)
	ask(impart.Acked{Conv: "a", Err: away}, impart.Acked{Conv: "b", Delivered: 2}).
		says(`{"acks":[{"conv":"a","code":"UNAVAILABLE"},{"conv":"b","delivered":2}]}`)
	no := impart.Errorf(impart.NotMember, "no")
	ask(impart.Acked{Conv: "a", Err: no}, impart.Acked{Conv: "b", Err: no}).
		says(`{"acks":[{"conv":"a","code":"NOT_MEMBER"},{"conv":"b","code":"NOT_MEMBER"}]}`)
	ask(impart.Acked{Conv: "a"}).fails(impart.Unavailable) // an answer that does not fit is not taken for one
}
