package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"go.uber.org/goleak"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/auth"
	"github.com/impart-im/impart/internal/bus"
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
	config := Config{
		Logic: service, Admin: service, Auth: verifier, AdminOpen: true, Version: "test",
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

// document is the OpenAPI document, made strict for answers: what it does not
// name is a fault.
type document struct {
	*huma.OpenAPI
	registry huma.Registry
	lenient  *huma.OpenAPI // as it is served, for requests
}

func readDocument(s *server) *document {
	made := newDocument(s.routes(), s.Version, s.MaxBody)
	for _, schema := range made.Components.Schemas.Map() {
		setUnknown(schema, false)
	}
	return &document{OpenAPI: made, registry: made.Components.Schemas, lenient: newDocument(s.routes(), s.Version, s.MaxBody)}
}

// operation is what the document says of a request; nil for nothing.
func (d *document) operation(s *server, r *http.Request) *huma.Operation {
	return operationIn(d.OpenAPI, s, r)
}

func operationIn(document *huma.OpenAPI, s *server, r *http.Request) *huma.Operation {
	_, pattern := s.mux.Handler(r)
	item := document.Paths[pattern]
	if item == nil {
		return nil
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return item.Get
	case http.MethodPost:
		return item.Post
	case http.MethodPut:
		return item.Put
	case http.MethodDelete:
		return item.Delete
	}
	return nil
}

// httpStatuses are what HTTP itself refuses with; each operation has them under
// "default".
var httpStatuses = []int{http.StatusForbidden, http.StatusUnsupportedMediaType, http.StatusInternalServerError}

// check compares an answer, and a request that was accepted, with the document.
func (d *document) check(t *testing.T, s *server, r *http.Request, body string, got answer) {
	t.Helper()
	op := d.operation(s, r)
	isJSON := got.header.Get("Content-Type") == "application/json"
	if op == nil {
		if isJSON {
			d.validate(t, got.what, d.registry, d.registry.SchemaFromRef("#/components/schemas/Error"), got.body)
		}
		return
	}
	response := op.Responses[strconv.Itoa(got.status)]
	if got.status >= 400 && isJSON && op.OperationID != "readyz" {
		code, _ := got.object()["code"].(string)
		listed := response != nil && slices.Contains(strings.Split(response.Description, ", "), code)
		if !listed && !slices.Contains(httpStatuses, got.status) {
			t.Errorf("%s: the document does not list %d %s", got.what, got.status, code)
		}
		if response == nil {
			response = op.Responses["default"]
		}
	}
	if response == nil {
		t.Errorf("%s: the document does not list status %d", got.what, got.status)
		return
	}
	mediaType, _, _ := strings.Cut(got.header.Get("Content-Type"), ";")
	media := response.Content[mediaType]
	if media == nil {
		t.Errorf("%s: the document does not list content type %q for %d", got.what, mediaType, got.status)
		return
	}
	if isJSON && r.Method != http.MethodHead {
		d.validate(t, got.what, d.registry, media.Schema, got.body)
	}
	if asked := operationIn(d.lenient, s, r).RequestBody; got.status < 300 && body != "" && asked != nil {
		d.validate(t, got.what+" (request)", d.lenient.Components.Schemas, asked.Content["application/json"].Schema, body)
	}
}

func (d *document) validate(t *testing.T, what string, registry huma.Registry, schema *huma.Schema, text string) {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Errorf("%s: no JSON: %v: %s", what, err, text)
		return
	}
	var result huma.ValidateResult
	huma.Validate(registry, schema, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, value, &result)
	for _, fault := range result.Errors {
		t.Errorf("%s: against the document: %v in %s", what, fault, text)
	}
}

// fake answers what a test tells it to, and panics for the rest.
type fake struct {
	impart.Logic
	impart.Admin
	err    error
	sends  []impart.Send
	acks   func(impart.Ack) []impart.Acked
	before func()
}

func (f *fake) run() error {
	if f.before != nil {
		f.before()
	}
	return f.err
}

func (f *fake) Authorize(context.Context, impart.Identity) error { return nil }

func (f *fake) Visit(_ context.Context, id impart.Identity, device impart.DeviceID, _ string) (impart.Session, error) {
	return impart.Session{User: id.User, Device: device, Install: 1}, nil
}

func (f *fake) Send(_ context.Context, sends []impart.Send) []impart.Sent {
	f.sends = append(f.sends, sends...)
	sent := impart.Sent{Conv: sends[0].Conv, Seq: 7, MID: "m-7", Epoch: 1, At: 1, Err: f.run()}
	if sent.Err != nil {
		sent = impart.Sent{Err: sent.Err}
	}
	return []impart.Sent{sent}
}

func (f *fake) Recall(context.Context, impart.Recall) (impart.Sent, error) {
	return impart.Sent{}, f.run()
}

func (f *fake) Sync(context.Context, impart.Sync) (impart.Page, error) { return impart.Page{}, f.run() }

func (f *fake) Pull(context.Context, impart.Pull) (impart.Pulled, error) {
	return impart.Pulled{}, f.run()
}

func (f *fake) Ack(_ context.Context, ack impart.Ack) []impart.Acked {
	if f.acks != nil {
		return f.acks(ack)
	}
	acked := make([]impart.Acked, len(ack.Items))
	for i, item := range ack.Items {
		acked[i] = impart.Acked{Conv: item.Conv, Delivered: item.Seq, Err: f.run()}
	}
	return acked
}

func (f *fake) Read(context.Context, impart.Read) (impart.Seq, error) { return 0, f.run() }

func (f *fake) Who(context.Context, impart.Who) (impart.Report, error) {
	return impart.Report{}, f.run()
}

func (f *fake) RaiseEpoch(context.Context) (impart.Epoch, error) { return 0, f.run() }

// newFake is a world whose rules are a fake.
func newFake(t *testing.T, f *fake, change func(*Config)) *world {
	t.Helper()
	return newWorld(t, func(config *Config) {
		config.Logic, config.Admin = f, f
		if change != nil {
			change(config)
		}
	})
}
