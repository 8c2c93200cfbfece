package api

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/impart-im/impart"
)

func TestConversationsAreCreatedOnce(t *testing.T) {
	w := newWorld(t, nil)
	const path = "/admin/v1/conversations/c-ab"
	w.do("GET", path, "").fails(impart.NotFound)
	w.do("PUT", path, `{"kind":"group","members":["u-ana",{"user":"u-ben","role":"admin"}],"history":"from_join"}`).wants(http.StatusCreated)
	shown := w.do("PUT", path, `{"kind":"group","members":["u-ana"]}`).wants(http.StatusOK)
	shown.says(`{"conv":"c-ab","kind":"group","history":"from_join","head":0,"floor":0,"members":[` +
		`{"user":"u-ana","role":"member","member":true,"periods":[{"from":1}]},{"user":"u-ben","role":"admin","member":true,"periods":[{"from":1}]}]}`)
	w.do("GET", path, "").says("%s", shown.body)

	w.do("PUT", path, `{"kind":"direct","members":["u-ana","u-ben"]}`).fails(impart.Conflict)
	w.do("PUT", path, `{"kind":"group","history":"all"}`).fails(impart.Conflict)
	w.do("PUT", "/admin/v1/conversations/c-d", `{"kind":"direct","members":["u-ana"]}`).fails(impart.Invalid)
	w.do("PUT", "/admin/v1/conversations/c-d", `{"kind":"direct","members":["u-ana","u-ben","u-eve"]}`).fails(impart.Invalid)
	w.do("PUT", "/admin/v1/conversations/c-d", `{"kind":"direct","members":["u-ana","u-ben"]}`).wants(http.StatusCreated)
	w.do("PUT", "/admin/v1/conversations/c-d/members/u-eve", "").fails(impart.Invalid)
	for _, body := range []string{
		`{}`, `{"kind":"channel"}`, `{"kind":"group","history":"none"}`, `{"kind":"group","members":[{"user":"u-x","role":"owner"}]}`,
		`{"kind":"group","members":["system"]}`,
	} {
		w.do("PUT", "/admin/v1/conversations/c-x", body).fails(impart.Invalid)
	}
	for _, body := range []string{
		``, `[]`, `"x"`, `{"kind":7}`, `{"kind":"group","members":"u-ana"}`, `{"kind":"group","members":[7]}`, `{"kind":"group","members":[""]}`,
		`{"kind":"group","members":["\ud800"]}`, `{"kind":"group","members":["a\u0000b"]}`, `{"kind":"group","kind":"direct"}`, "{\"kind\":\"\xff\"}", `{"kind":"group"} x`,
	} {
		w.do("PUT", "/admin/v1/conversations/c-x", body).fails(impart.BadFrame)
	}
	many := `"u-` + strings.Repeat(`a","u-`, maxMembers) + `z"`
	w.do("PUT", "/admin/v1/conversations/c-x", `{"kind":"group","members":[`+many+`]}`).fails(impart.TooLarge)
	w.do("GET", "/admin/v1/conversations/c-x", "").fails(impart.NotFound)
}

func TestMembersComeAndGo(t *testing.T) {
	w := newWorld(t, nil)
	w.do("PUT", "/admin/v1/conversations/c-no/members/u-ben", "").fails(impart.NotFound)
	w.do("DELETE", "/admin/v1/conversations/c-no/members/u-ben", "").fails(impart.NotFound)
	w.conversation("c-ab", "u-ana")
	const ben = "/admin/v1/conversations/c-ab/members/u-ben"
	w.do("PUT", ben, "").wants(http.StatusOK).contains(`{"user":"u-ben","role":"member","member":true,"periods":[{"from":1}]}`)
	again := w.do("PUT", ben, `{}`).wants(http.StatusOK).contains(`"head":1`) // one join, however often it is asked for
	w.do("PUT", ben, `{"role":"admin"}`).wants(http.StatusOK).contains(`{"user":"u-ben","role":"admin"`)
	w.do("PUT", ben, `{"role":"king"}`).fails(impart.Invalid)
	w.do("PUT", ben, `{"role":1}`).fails(impart.BadFrame)
	if again.number("head") != 1 {
		t.Errorf("joined twice: %s", again.body)
	}
	w.do("DELETE", ben, "").wants(http.StatusOK).contains(`"member":false,"periods":[{"from":1,"to":2}]`)
	w.do("DELETE", ben, "").wants(http.StatusOK).contains(`"head":2`)
	w.do("DELETE", "/admin/v1/conversations/c-ab/members/u-nobody", "").wants(http.StatusOK).contains(`"head":2`)
	w.do("PUT", "/admin/v1/conversations/c-ab/members/system", "").fails(impart.Invalid)
}

func TestTheOperatorSendsAsAnybody(t *testing.T) {
	w := newWorld(t, nil)
	w.conversation("c-ab", "u-ana", "u-ben")
	const path = "/admin/v1/conversations/c-ab/messages"
	sent := w.do("POST", path, `{"sender":"system","cmid":"s1","body":"maintenance at noon","type":"notice","ext":{"at": 12}}`).wants(http.StatusOK)
	if sent.number("seq") != 1 || sent.object()["conv"] != "c-ab" {
		t.Errorf("sent: %s", sent.body)
	}
	w.do("POST", path, `{"sender":"system","cmid":"s1","body":"maintenance at noon","type":"notice","ext":{"at": 12}}`).contains(`"dup":true`)
	w.do("POST", path, `{"sender":"system","cmid":"s1","body":"another"}`).fails(impart.CMIDReused)
	w.do("POST", path, `{"sender":"u-ana","cmid":"a1","body":"hi"}`).wants(http.StatusOK).contains(`"seq":2`)
	w.do("POST", path, `{"sender":"u-ana","cmid":"a2","body":"x","prev":"a9"}`).fails(impart.OutOfOrder)
	w.do("POST", path, `{"sender":"u-eve","cmid":"e1","body":"hi"}`).fails(impart.NotMember)
	w.do("POST", path, `{"sender":"u-ana","cmid":"a3","body":"x","epoch":99}`).fails(impart.EpochChanged).contains(`"epoch":1`)
	// The conversation is the path's, whatever the body says.
	w.do("POST", path, `{"conv":"c-other","rid":"r","t":"ack","sender":"u-ana","cmid":"a4","body":"x"}`).wants(http.StatusOK).contains(`"conv":"c-ab","seq":3`)
	for _, sender := range []string{"system", "u-ana"} {
		w.do("POST", "/admin/v1/conversations/c-no/messages", `{"sender":"`+sender+`","cmid":"n1","body":"hi"}`).fails(impart.NotFound)
	}
	for _, body := range []string{
		`{"cmid":"s","body":"x"}`, `{"sender":"","cmid":"s","body":"x"}`, `{"sender":"system","body":"x"}`, `{"sender":"system","cmid":"s"}`, `{"sender":7,"cmid":"s","body":"x"}`,
		`{"sender":"system","cmid":"s","body":"\u0000"}`, `{"sender":"system","cmid":"s","body":"\udfff"}`, `{"sender":"system","cmid":"s","body":"x","ext":[]}`, ``, `{"sender":"system","cmid":"s","body":"a","body":"b"}`,
	} {
		w.do("POST", path, body).fails(impart.BadFrame)
	}
	w.do("POST", path, `{"sender":"system","cmid":"s","body":"`+strings.Repeat("x", 65537)+`"}`).fails(impart.TooLarge)
	w.api("sync", `{"conv":"c-ab","after":0,"limit":1}`, as("u-ben")).contains(`"sender":"system"`).contains(`"ext":{"at": 12}`)
}

func TestWhoHasAnEvent(t *testing.T) {
	w := newWorld(t, nil)
	w.conversation("c-ab", "u-ana", "u-ben")
	w.message("u-ana", "c-ab", "m1", "a secret text")
	w.api("ack", `{"conv":"c-ab","seq":1,"n":5}`, as("u-ben"), on("d-ben")).wants(http.StatusOK)
	w.api("read", `{"conv":"c-ab","seq":1}`, as("u-ben")).wants(http.StatusOK)
	report := w.do("GET", "/admin/v1/conversations/c-ab/events/1/delivery", "").wants(http.StatusOK).
		contains(`"cmid":"m1"`).contains(`"user":"u-ben","read":true`).contains(`"device":"d-ben"`).contains(`"delivered":1`)
	if strings.Contains(report.body, "secret") {
		t.Errorf("the report shows the body: %s", report.body)
	}
	w.do("GET", "/admin/v1/conversations/c-ab/events/2/delivery", "").fails(impart.NotFound)
	w.do("GET", "/admin/v1/conversations/c-no/events/1/delivery", "").fails(impart.NotFound)
	for _, seq := range []string{"0", "-1", "x", "1.0", "1e3", "9007199254740992", "99999999999999999999", "+1", "%201"} {
		w.do("GET", "/admin/v1/conversations/c-ab/events/"+seq+"/delivery", "").fails(impart.BadFrame)
	}
	w.do("GET", "/admin/v1/devices/d-ben", "").wants(http.StatusOK).contains(`"user":"u-ben","device":"d-ben","install_epoch":1`).contains(`"conv":"c-ab"`)
	w.do("GET", "/admin/v1/devices/d-ben?user=u-ben", "").wants(http.StatusOK)
	w.do("GET", "/admin/v1/devices/d-ben?user=u-ana", "").fails(impart.NotFound)
	w.do("GET", "/admin/v1/devices/d-none", "").fails(impart.NotFound)
	w.do("GET", "/admin/v1/devices/d-ben?user=", "").fails(impart.BadFrame)
}

func TestADisabledOrRevokedUserIsOutAtOnce(t *testing.T) {
	w := newWorld(t, nil)
	w.conversation("c-ab", "u-ana", "u-ben")
	w.message("u-ana", "c-ab", "m", "hi")
	w.do("GET", "/admin/v1/users/u-nobody", "").fails(impart.NotFound)
	w.do("POST", "/admin/v1/users/u-early/revoke", "").wants(http.StatusOK).contains(`"revoked":`) // tokens may be older than the user is here
	w.do("PUT", "/admin/v1/users/u-new", "").says(`{"user":"u-new","disabled":false}`)
	w.do("PUT", "/admin/v1/users/u-new", `{"disabled":"yes"}`).fails(impart.BadFrame)
	w.do("PUT", "/admin/v1/users/system", "").fails(impart.Invalid)

	for _, sample := range samples()[:7] {
		w.do("PUT", "/admin/v1/users/u-ana", `{"disabled":true}`).says(`{"user":"u-ana","disabled":true}`)
		w.do(sample.method, sample.path, sample.body, as("u-ana"), on("d-ana")).fails(impart.Unauthenticated)
		w.do(sample.method, sample.path, sample.body, as("u-ana"), on("d-new")).fails(impart.Unauthenticated)
		w.do("PUT", "/admin/v1/users/u-ana", `{}`).says(`{"user":"u-ana","disabled":true}`)
		w.do("PUT", "/admin/v1/users/u-ana", `{"disabled":false}`).says(`{"user":"u-ana","disabled":false}`)
		w.do(sample.method, sample.path, sample.body, as("u-ana"), on("d-ana")).wants(http.StatusOK)
	}
	w.do("POST", "/admin/v1/users/u-ana/revoke", "").wants(http.StatusOK).contains(`"revoked":`)
	w.do("GET", "/admin/v1/users/u-ana", "").wants(http.StatusOK).contains(`"revoked":`)
	w.api("send", aSend, as("u-ana")).fails(impart.Unauthenticated)
}

func TestRaisingTheEpoch(t *testing.T) {
	w := newWorld(t, nil)
	w.conversation("c-ab", "u-ana", "u-ben")
	w.message("u-ana", "c-ab", "m", "hi")
	raised := w.do("POST", "/admin/v1/epoch", "").wants(http.StatusOK).number("epoch")
	if raised < 1_700_000_000_000 {
		t.Errorf("epoch %d is not Unix milliseconds", raised)
	}
	if got := w.do("GET", "/admin/v1/epoch", "").wants(http.StatusOK).contains(`"state":"accepted"`); got.number("epoch") != raised {
		t.Errorf("told %s, the epoch is %d", got.body, raised)
	}
	for _, sample := range []struct{ op, body string }{
		{"sync", `{"conv":"c-ab","after":0,"epoch":1}`}, {"ack", `{"conv":"c-ab","seq":1,"epoch":1}`}, {"ack", `{"epoch":1,"acks":[{"conv":"c-ab","seq":1}]}`},
		{"read", `{"conv":"c-ab","seq":1,"epoch":1}`}, {"send", `{"conv_id":"c-ab","client_msg_id":"n","text":"x","epoch":1}`}, {"recall", `{"conv":"c-ab","seq":1,"cmid":"r","epoch":1}`},
	} {
		if got := w.api(sample.op, sample.body, as("u-ana"), on("d")).fails(impart.EpochChanged); got.number("epoch") != raised {
			t.Errorf("%s: told %s, the epoch is %d", sample.op, got.body, raised)
		}
	}
}

// Ids are any text: what stands in a path is percent-encoded, and nothing of it
// is taken for a part of the path.
func TestAnyIDCanStandInAPath(t *testing.T) {
	w := newWorld(t, nil)
	for _, id := range []string{
		"a/b", "a b", " lead", "trail ", "100%", "%2F", "a%2Fb", "?x=1", "#frag", "a;b", "a&b=c", "a+b", "~", "...", "a..b", "/", "//", "../etc/passwd", "会话-一",
		"🙂", "e\u0301", "é", "\u202e", `"quoted"`, `back\slash`, "<script>", "members", "C-AB", "c-ab", "c-ab ", "{id}", "*", "a:b", "messages/", strings.Repeat("x", 128), strings.Repeat("中", 42),
	} {
		path := "/admin/v1/conversations/" + url.PathEscape(id)
		got := w.do("PUT", path, `{"kind":"group","members":["u-ana"]}`).wants(http.StatusCreated)
		if got.object()["conv"] != id {
			t.Errorf("%q became %v", id, got.object()["conv"])
		}
		got = w.do("PUT", path+"/members/"+url.PathEscape(id), "").wants(http.StatusOK)
		members, _ := got.object()["members"].([]any)
		found := false
		for _, member := range members {
			found = found || member.(map[string]any)["user"] == id
		}
		if !found {
			t.Errorf("%q is not a member: %s", id, got.body)
		}
		if got := w.do("GET", path, "").wants(http.StatusOK); got.object()["conv"] != id {
			t.Errorf("%q is found as %v", id, got.object()["conv"])
		}
		w.do("GET", path+"/events/1/delivery", "").wants(http.StatusOK)
	}
	// Every character may be encoded, whether it has to or not.
	if got := w.do("GET", "/admin/v1/conversations/%63%2d%61%62", "").wants(http.StatusOK); got.object()["conv"] != "c-ab" {
		t.Errorf("an encoded id names %v", got.object()["conv"])
	}
	for _, id := range []string{"%2e", "%2e%2e", "%00", "a%0Ab", "%7f", "%c2%85", "%ff", "%ed%a0%80", strings.Repeat("x", 129)} {
		for _, path := range []string{"/admin/v1/conversations/" + id, "/admin/v1/users/" + id, "/admin/v1/devices/" + id, "/admin/v1/conversations/c-ab/members/" + id} {
			method, body := "GET", ""
			if strings.Contains(path, "members") {
				method = "DELETE"
			}
			w.do(method, path, body).fails(impart.BadFrame)
		}
	}
}
