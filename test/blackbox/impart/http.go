package impart

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// client never follows a redirect: what the server said is what is tested. Each request has its own connection, so that a
// restarted server is not asked over a dead one.
var client = &http.Client{
	Timeout:       30 * time.Second,
	Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// Response is an HTTP answer read whole.
type Response struct {
	Status int
	Header http.Header
	Raw    []byte
	// JSON is the body as an object; nil when it is something else.
	JSON rawclient.Object
}

func (r Response) String() string { return fmt.Sprintf("%d %.600s", r.Status, r.Raw) }

// Request makes one HTTP request. body is nil, a string sent as it is, or a value sent as JSON.
func (s *Server) Request(t testing.TB, method, path string, header http.Header, body any) Response {
	t.Helper()
	r, err := s.TryRequest(method, path, header, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

// TryRequest is Request for places where a failure is an outcome.
func (s *Server) TryRequest(method, path string, header http.Header, body any) (Response, error) {
	var payload io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		payload = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			return Response{}, err
		}
		payload = bytes.NewReader(raw)
	}
	req, err := http.NewRequest(method, s.URL()+path, payload)
	if err != nil {
		return Response{}, err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	if body != nil && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := client.Do(req)
	if err != nil {
		return Response{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return Response{}, err
	}
	r := Response{Status: resp.StatusCode, Header: resp.Header, Raw: raw}
	if o, err := rawclient.ParseObject(raw); err == nil {
		r.JSON = o
	}
	return r, nil
}

// Admin makes a request under /admin/v1/ and demands success.
func (s *Server) Admin(t testing.TB, method, path string, body any) Response {
	t.Helper()
	r := s.Request(t, method, "/admin/v1/"+path, nil, body)
	if r.Status/100 != 2 {
		t.Fatalf("%s /admin/v1/%s %v: %s", method, path, body, r)
	}
	return r
}

// Metric gives the sum of a metric's samples whose line contains `label` ("" for all), and whether there was one. Of a
// gateway and its logic node it is the sum of both.
func (s *Server) Metric(t testing.TB, name, label string) (float64, bool) {
	t.Helper()
	sum, found := 0.0, false
	text := ""
	for _, p := range s.Processes() {
		text += string(p.Request(t, "GET", "/metrics", nil, nil).Raw)
	}
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), name)
		if !ok || rest == "" || (rest[0] != ' ' && rest[0] != '{') || !strings.Contains(rest, label) {
			continue
		}
		var v float64
		if _, err := fmt.Sscan(rest[strings.LastIndexByte(rest, ' ')+1:], &v); err == nil {
			sum, found = sum+v, true
		}
	}
	return sum, found
}
