package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
)

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
	at, _ := s.paths.find(r.URL.EscapedPath())
	if at == nil {
		return nil
	}
	item := document.Paths[at.pattern]
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
	if got.status >= 400 && isJSON && !(op.OperationID == "readyz" && got.status == 503) {
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
	for _, fault := range faults(registry, schema, text) {
		t.Errorf("%s: against the document: %v in %s", what, fault, text)
	}
}

// faults are what in text does not fit the schema.
func faults(registry huma.Registry, schema *huma.Schema, text string) []error {
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return []error{err}
	}
	var result huma.ValidateResult
	huma.Validate(registry, schema, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, value, &result)
	return result.Errors
}
