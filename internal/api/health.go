package api

import (
	"io"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// readiness is what /readyz?verbose answers.
type readiness struct {
	Ready  bool        `json:"ready"`
	Checks []partState `json:"checks" nullable:"false"`
}

// partState is one [Check] as it is shown.
type partState struct {
	Name   string `json:"name" example:"store"`
	State  State  `json:"state" enum:"ok,warn,fail" doc:"warn: works, but not as it should, such as a store that may lose acknowledged messages; fail: not ready"`
	Detail string `json:"detail,omitzero" doc:"what is wrong and what to do about it"`
}

// livez says that the process answers at all.
func (s *server) livez(c *call) error { return c.text(http.StatusOK, "ok\n") }

// readyz says whether requests can be served now; with ?verbose how each part
// is. Warnings are shown without it too.
func (s *server) readyz(c *call) error {
	var checks []Check
	if s.Ready != nil {
		checks = s.Ready(c.r.Context())
	}
	answer := readiness{Ready: true, Checks: []partState{}}
	var faults strings.Builder
	for _, check := range checks {
		if check.State != OK {
			faults.WriteString(string(check.State) + ": " + oneLine(check.Name+": "+check.Detail) + "\n")
		}
		answer.Ready = answer.Ready && check.State != Fail
		answer.Checks = append(answer.Checks, partState(check))
	}
	status, verdict := http.StatusOK, "ready\n"
	if !answer.Ready {
		status, verdict = http.StatusServiceUnavailable, "not ready\n"
	}
	if !c.r.URL.Query().Has("verbose") {
		return c.text(status, verdict+faults.String())
	}
	text, err := json.Marshal(answer, json.Deterministic(true))
	if err != nil {
		return err
	}
	writeJSON(c.w, status, text)
	return nil
}

// oneLine keeps one fault on one line, whatever its text holds.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }), " ")
}

func (c *call) text(status int, text string) error {
	c.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	c.w.Header().Set("Cache-Control", "no-store")
	c.w.WriteHeader(status)
	_, _ = io.WriteString(c.w, text)
	return nil
}

// showMetrics writes the metrics in Prometheus form.
func (s *server) showMetrics(c *call) error {
	promhttp.HandlerFor(s.Gatherer, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}).ServeHTTP(c.w, c.r)
	return nil
}
