package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/auth"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/lab/hop"
	"github.com/impart-im/impart/internal/logic"
	"github.com/impart-im/impart/internal/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a server with its rules and an in-memory store, in dev login.
type world struct {
	t       *testing.T
	server  *server
	schemas *document
	log     *lockedBuffer
	logic   *logic.Service
}

// lockedBuffer collects log lines.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// newWorld starts one; change may alter its configuration before.
func newWorld(t *testing.T, change func(*Config)) *world {
	t.Helper()
	return worldOf(t, logic.Config{}, change)
}

func worldOf(t *testing.T, rules logic.Config, change func(*Config)) *world {
	t.Helper()
	w := &world{t: t, log: &lockedBuffer{}}
	local, store := bus.NewLocal(), memstore.New(memstore.Options{})
	rules.Store, rules.Bus = store, local
	service, err := logic.New(rules)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := auth.New(t.Context(), auth.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var port hop.Rules = service
	if os.Getenv("IMPART_SHAPE") == "roles" {
		h, err := hop.New(service)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // after what follows, the rules included: a call of theirs then fails, and none is made
			if err := h.Close(); err != nil {
				t.Errorf("closing the hop: %v", err)
			}
		})
		port = h
	}
	config := Config{
		Logic: port, Admin: port, Auth: verifier, AdminOpen: true, Version: "test",
		Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&config)
	}
	w.logic = service
	w.server = New(config).(*server)
	w.schemas = readDocument(w.server)
	t.Cleanup(func() {
		config.Auth.Close()
		if err := service.Close(); err != nil {
			t.Errorf("closing the rules: %v", err)
		}
		if err := local.Close(); err != nil {
			t.Errorf("closing the bus: %v", err)
		}
		if err := store.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	return w
}

// request is one HTTP request of a story.
type request struct {
	method, path, body string
	header             http.Header
	host, from         string
	length             int64 // what Content-Length claims; 0: the truth
}

type option func(*request)

func header(name, value string) option { return func(r *request) { r.header.Add(name, value) } }

func without(name string) option { return func(r *request) { r.header.Del(name) } }

func as(user string) option { return header("Authorization", "Bearer dev:"+user) }

func on(device string) option {
	return func(r *request) { r.header.Set(deviceHeader, device); r.header.Set(installHeader, "i-"+device) }
}

func toHost(host string) option { return func(r *request) { r.host = host } }

func fromAddress(addr string) option { return func(r *request) { r.from = addr } }

// answer is what came back, already compared with the OpenAPI document.
type answer struct {
	t      *testing.T
	what   string
	status int
	header http.Header
	body   string
}

// do sends a request and holds the answer against the document and the headers
// that every answer has.
func (w *world) do(method, path, body string, options ...option) answer {
	w.t.Helper()
	spec := request{method: method, path: path, body: body, header: http.Header{}, host: "127.0.0.1:8080", from: "127.0.0.1:50000"}
	if body != "" {
		spec.header.Set("Content-Type", "application/json")
	}
	for _, change := range options {
		change(&spec)
	}
	r := httptest.NewRequest(method, path, strings.NewReader(spec.body))
	r.Header, r.Host, r.RemoteAddr = spec.header, spec.host, spec.from
	if spec.length != 0 {
		r.ContentLength = spec.length
	}
	rec := httptest.NewRecorder()
	w.server.ServeHTTP(rec, r)
	got := answer{t: w.t, what: method + " " + path, status: rec.Code, header: rec.Header(), body: rec.Body.String()}
	w.checkHeaders(got)
	w.schemas.check(w.t, w.server, r, spec.body, got)
	return got
}

func (w *world) checkHeaders(got answer) {
	w.t.Helper()
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Content-Security-Policy": contentPolicy,
	} {
		if got.header.Get(name) != want {
			w.t.Errorf("%s: %s is %q", got.what, name, got.header.Get(name))
		}
	}
}

// api posts to the send API.
func (w *world) api(op, body string, options ...option) answer {
	w.t.Helper()
	return w.do(http.MethodPost, "/api/msg/"+op, body, options...)
}

// conversation creates a group.
func (w *world) conversation(id string, members ...string) {
	w.t.Helper()
	list, err := json.Marshal(members)
	if err != nil {
		w.t.Fatal(err)
	}
	w.do(http.MethodPut, "/admin/v1/conversations/"+id, `{"kind":"group","members":`+string(list)+`}`).wants(http.StatusCreated)
}

// message sends one and gives its seq.
func (w *world) message(user, conv, cmid, text string) int {
	w.t.Helper()
	body, err := json.Marshal(map[string]string{"conv_id": conv, "client_msg_id": cmid, "text": text})
	if err != nil {
		w.t.Fatal(err)
	}
	return int(w.api("send", string(body), as(user)).wants(http.StatusOK).number("seq"))
}

// wants demands a status.
func (a answer) wants(status int) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: status %d, want %d: %s", a.what, a.status, status, a.body)
	}
	return a
}

// fails demands an error.
func (a answer) fails(code impart.Code) answer {
	a.t.Helper()
	a.wants(statusOf(code))
	if got := a.object()["code"]; got != string(code) {
		a.t.Fatalf("%s: code %v, want %s: %s", a.what, got, code, a.body)
	}
	return a
}

func (a answer) object() map[string]any {
	a.t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(a.body), &object); err != nil {
		a.t.Fatalf("%s: %v: %s", a.what, err, a.body)
	}
	return object
}

func (a answer) number(field string) int64 {
	a.t.Helper()
	number, ok := a.object()[field].(float64)
	if !ok {
		a.t.Fatalf("%s: no number %s: %s", a.what, field, a.body)
	}
	return int64(number)
}

// says demands the whole body.
func (a answer) says(format string, args ...any) {
	a.t.Helper()
	if want := fmt.Sprintf(format, args...); a.body != want {
		a.t.Errorf("%s:\n got %s\nwant %s", a.what, a.body, want)
	}
}

func (a answer) contains(text string) answer {
	a.t.Helper()
	if !strings.Contains(a.body, text) {
		a.t.Errorf("%s: no %q in %s", a.what, text, a.body)
	}
	return a
}
