package api

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/impart-im/impart"
)

// statuses are the protocol's, and the admin API's.
var statuses = map[impart.Code]int{
	impart.BadFrame: 400, impart.CursorAhead: 400, impart.Invalid: 400,
	impart.Unauthenticated: 401,
	impart.NotMember:       403, impart.RecallRefused: 403,
	impart.NotFound:   404,
	impart.CMIDReused: 409, impart.StaleInstall: 409, impart.EpochChanged: 409, impart.OutOfOrder: 409, impart.Conflict: 409,
	impart.TooLarge:    413,
	impart.RateLimited: 429,
	impart.Overloaded:  503, impart.Unavailable: 503,
}

func TestEveryCodeHasItsStatus(t *testing.T) {
	for _, code := range impart.Codes() {
		want, listed := statuses[code]
		if !listed {
			t.Errorf("%s: which status?", code)
		}
		if got := statusOf(code); got != want {
			t.Errorf("%s: status %d, want %d", code, got, want)
		}
	}
	if got := statusOf("SOMETHING_NEW"); got != http.StatusInternalServerError {
		t.Errorf("an unknown code is answered with %d", got)
	}
}

// The rules' refusals reach the client whole, on every operation that can meet them.
func TestEveryRefusalReachesTheClient(t *testing.T) {
	requests := map[string]string{
		"send": `{"conv_id":"c","client_msg_id":"m","text":"x"}`, "recall": `{"conv":"c","seq":1,"cmid":"r"}`, "sync": `{"conv":"c","after":0}`,
		"pull": `{}`, "ack": `{"conv":"c","seq":1}`, "read": `{"conv":"c","seq":1}`, "who": `{"conv":"c","seq":1}`,
	}
	for op, body := range requests {
		rules := &fake{}
		w := newFake(t, rules, nil)
		for _, rt := range messageRoutes() {
			if rt.doc.id != op {
				continue
			}
			for _, codes := range rt.doc.codes {
				for _, code := range codes {
					rules.err = &impart.Error{Code: code, Message: "because", Cause: errors.New("the cause")}
					fields := 3
					if code == impart.EpochChanged {
						rules.err, fields = &impart.Error{Code: code, Message: "because", Cause: errors.New("the cause"), Epoch: 9}, 4
					}
					got := w.api(op, body, as("u-ana"), on("d")).fails(code)
					if object := got.object(); object["message"] != "because" || object["retry"] != code.Retry() || len(object) != fields {
						t.Errorf("%s %s: %s", op, code, got.body)
					}
				}
			}
		}
		if !strings.Contains(w.log.String(), "the cause") {
			t.Errorf("%s: the cause is not in the log", op)
		}
	}
}

func TestWhenToComeBack(t *testing.T) {
	for _, c := range []struct {
		after  time.Duration
		ms     string
		header string
	}{{1500 * time.Millisecond, `"retry_after_ms":1500`, "2"}, {time.Millisecond, `"retry_after_ms":1`, "1"}, {time.Minute, `"retry_after_ms":60000`, "60"}} {
		w := newFake(t, &fake{err: &impart.Error{Code: impart.RateLimited, Message: "slow down", RetryAfter: c.after}}, nil)
		got := w.api("send", `{"conv_id":"c","client_msg_id":"m","text":"x"}`, as("u-ana")).fails(impart.RateLimited).contains(c.ms)
		if got.header.Get("Retry-After") != c.header {
			t.Errorf("%s: Retry-After is %q, want %q", c.after, got.header.Get("Retry-After"), c.header)
		}
	}
}

// A database that is away says nothing of itself to the client.
func TestAnErrorFromBelowIsUnavailableAndTellsNothing(t *testing.T) {
	w := newFake(t, &fake{err: errors.New("dial tcp 10.1.2.3:5432: password hunter2\nrejected")}, nil)
	for op, body := range map[string]string{"send": `{"conv_id":"c","client_msg_id":"m","text":"x"}`, "pull": `{}`, "sync": `{"conv":"c","after":0}`} {
		got := w.api(op, body, as("u-ana"), on("d")).fails(impart.Unavailable).contains(`"retry":true`)
		if strings.Contains(got.body, "10.1.2.3") || strings.Contains(got.body, "hunter2") {
			t.Errorf("the client is told %s", got.body)
		}
	}
}

func TestAPanicIsFiveHundredAndOneLine(t *testing.T) {
	w := newFake(t, &fake{before: func() { panic("a secret\nof the house") }}, nil)
	got := w.api("send", `{"conv_id":"c","client_msg_id":"m","text":"x"}`, as("u-ana")).wants(http.StatusInternalServerError)
	if object := got.object(); object["code"] != string(impart.Unavailable) || object["retry"] != true {
		t.Errorf("the client cannot know whether it took effect, and is told %s", got.body)
	}
	if strings.Contains(got.body, "house") || strings.Contains(got.body, ".go") {
		t.Errorf("the client is shown the inside: %s", got.body)
	}
	lines := 0
	for line := range strings.Lines(w.log.String()) {
		if strings.Contains(line, "panicked") {
			lines++
			if !strings.Contains(line, "fake") || !strings.Contains(line, "POST /api/msg/send") {
				t.Errorf("the line does not lead to the fault: %s", line)
			}
		}
	}
	if lines != 1 {
		t.Errorf("%d lines for one panic:\n%s", lines, w.log)
	}
	w.do(http.MethodGet, "/metrics", "").contains("im_http_panics_total 1").contains(`im_http_requests_total{code="500",route="POST /api/msg/send"} 1`)
}
