package api

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/impart-im/impart"
)

// doc is what the OpenAPI document says of a route.
type doc struct {
	id, tag, summary string
	body             any // a value of the body's type; nil: the request takes none
	bodyOptional     bool
	reply            any  // a value of the answer's type; nil: text
	text             bool // the answer may be plain text
	created          bool // answers 201 too
	unready          bool // answers 503 in the same shape
	device           need
	query            []param
	codes            [][]impart.Code
}

// need says whether a route takes the device's headers.
type need int

const (
	unused need = iota
	optional
	required
)

type param struct{ name, text string }

// The two texts of the document.
const (
	jsonDocument = iota
	yamlDocument
)

// openAPI serves the document, which is made once, when it is first asked for.
func (s *server) openAPI(which int) func(*server, *call) error {
	make := sync.OnceValues(func() ([]byte, error) {
		document := newDocument(s.routes(), s.Version, s.MaxBody)
		if which == yamlDocument {
			return document.YAML()
		}
		return json.Marshal(document)
	})
	return func(_ *server, c *call) error {
		text, err := make()
		if err != nil {
			return err
		}
		if which == yamlDocument {
			c.w.Header().Set("Content-Type", "application/yaml")
		} else {
			c.w.Header().Set("Content-Type", "application/json")
		}
		c.w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		_, _ = c.w.Write(text)
		return nil
	}
}

// newDocument describes routes as OpenAPI 3.1.
func newDocument(routes []*route, version string, maxBody int) *huma.OpenAPI {
	registry := huma.NewMapRegistry("#/components/schemas/", schemaName)
	document := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Impart", Version: version,
			Description: fmt.Sprintf("Instant-message delivery over HTTP. A message's text may have up to %d bytes and a request up to %d. "+
				"Unknown fields are ignored by both sides. Ids in paths are percent-encoded, `/` as `%%2F`.", maxBody, maxRequest),
		},
		Components: &huma.Components{
			Schemas: registry,
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"user":  {Type: "http", Scheme: "bearer", Description: "a user's token; never in the address"},
				"admin": {Type: "http", Scheme: "bearer", Description: "the operator's token (IM_ADMIN_TOKEN); none is needed in dev login on loopback"},
			},
		},
		Tags: []*huma.Tag{
			{Name: "messages", Description: "what a device can do without a connection"},
			{Name: "admin", Description: "for the operator"},
			{Name: "health", Description: "for machines that watch"},
		},
	}
	for _, rt := range routes {
		document.AddOperation(operation(registry, rt))
	}
	for _, schema := range registry.Map() {
		setUnknown(schema, true) // unknown fields are ignored by both sides
	}
	return document
}

// setUnknown says whether objects of a schema may have fields that it does not name.
func setUnknown(schema *huma.Schema, allowed bool) {
	if schema.Type == huma.TypeObject && len(schema.Properties) > 0 {
		schema.AdditionalProperties = allowed
	}
	for _, choice := range schema.OneOf {
		setUnknown(choice, allowed)
	}
}

// schemaName names the schemas in one style, whether their Go types are
// exported or not.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	switch name {
	case "Failure":
		return "Error"
	default:
		return strings.TrimSuffix(name, "Shape")
	}
}

func operation(registry huma.Registry, rt *route) *huma.Operation {
	d := rt.doc
	op := &huma.Operation{
		Method: rt.method, Path: rt.path, OperationID: d.id, Summary: d.summary, Tags: []string{d.tag},
		Parameters: parameters(rt), Responses: map[string]*huma.Response{},
	}
	switch rt.access {
	case bearer:
		op.Security = []map[string][]string{{"user": {}}}
	case admin:
		op.Security = []map[string][]string{{"admin": {}}, {}}
	case public:
		op.Security = []map[string][]string{}
	}
	if d.body != nil {
		op.RequestBody = &huma.RequestBody{Required: !d.bodyOptional, Content: jsonContent(registry, d.body)}
	}
	content := map[string]*huma.MediaType{}
	if d.reply != nil {
		content = jsonContent(registry, d.reply)
	}
	if d.text {
		content[textType(rt.path)] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
	}
	op.Responses["200"] = &huma.Response{Description: "done", Content: content}
	if d.created {
		op.Responses["201"] = &huma.Response{Description: "created", Content: content}
	}
	if d.unready {
		op.Responses["503"] = &huma.Response{Description: "not ready", Content: content}
	}
	for status, codes := range byStatus(d.codes) {
		op.Responses[strconv.Itoa(status)] = &huma.Response{Description: strings.Join(codes, ", "), Content: jsonContent(registry, failure{})}
	}
	op.Responses["default"] = &huma.Response{Description: "any other refusal", Content: jsonContent(registry, failure{})}
	return op
}

// textType is the media type of an answer that is not JSON.
func textType(path string) string {
	if strings.HasSuffix(path, ".yaml") {
		return "application/yaml"
	}
	return "text/plain"
}

func jsonContent(registry huma.Registry, value any) map[string]*huma.MediaType {
	t := reflect.TypeOf(value)
	return map[string]*huma.MediaType{"application/json": {Schema: registry.Schema(t, true, t.Name())}}
}

// byStatus groups error codes by the status they are answered with.
func byStatus(groups [][]impart.Code) map[int][]string {
	found := map[int][]string{}
	for _, code := range slices.Concat(groups...) {
		status := statusOf(code)
		found[status] = append(found[status], string(code))
	}
	return found
}

// parameters lists what a route takes from its path, query and headers.
func parameters(rt *route) []*huma.Param {
	var list []*huma.Param
	text := &huma.Schema{Type: huma.TypeString}
	for _, segment := range strings.Split(rt.path, "/") {
		name, isParam := strings.CutPrefix(segment, "{")
		if !isParam {
			continue
		}
		name = strings.TrimSuffix(name, "}")
		schema := text
		if name == "seq" {
			one := 1.0
			schema = &huma.Schema{Type: huma.TypeInteger, Format: "int64", Minimum: &one}
		}
		list = append(list, &huma.Param{Name: name, In: "path", Required: true, Schema: schema})
	}
	for _, query := range rt.doc.query {
		list = append(list, &huma.Param{Name: query.name, In: "query", Description: query.text, Schema: text})
	}
	if rt.doc.device != unused {
		list = append(list,
			&huma.Param{Name: deviceHeader, In: "header", Required: rt.doc.device == required, Schema: text, Description: "the device's id, as it is"},
			&huma.Param{Name: installHeader, In: "header", Schema: text, Description: "the install it has; HTTP never starts a new one"})
	}
	return list
}
