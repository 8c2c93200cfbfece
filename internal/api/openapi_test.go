package api

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
)

func TestTheDocumentListsEveryRouteAndNoOther(t *testing.T) {
	w := newWorld(t, nil)
	served := w.do("GET", "/openapi.json", "").wants(http.StatusOK).object()
	if served["openapi"] != "3.1.0" {
		t.Errorf("version %v", served["openapi"])
	}
	if info, _ := served["info"].(map[string]any); info["version"] != "test" || info["title"] != "Impart" {
		t.Errorf("info %v", served["info"])
	}
	var listed, routes []string
	for path, item := range served["paths"].(map[string]any) {
		for method := range item.(map[string]any) {
			listed = append(listed, strings.ToUpper(method)+" "+path)
		}
	}
	for _, rt := range w.server.routes() {
		routes = append(routes, rt.name())
	}
	slices.Sort(listed)
	slices.Sort(routes)
	if !slices.Equal(listed, routes) {
		t.Errorf("listed %q\nroutes %q", listed, routes)
	}
	yaml := w.do("GET", "/openapi.yaml", "").wants(http.StatusOK)
	for path := range served["paths"].(map[string]any) {
		yaml.contains(path)
	}
	for name, want := range map[string]string{"/openapi.json": "application/json", "/openapi.yaml": "application/yaml"} {
		if got := w.do("GET", name, "").header.Get("Content-Type"); got != want {
			t.Errorf("%s is served as %q", name, got)
		}
	}
}

func TestEveryReferenceInTheDocumentLeadsSomewhere(t *testing.T) {
	w := newWorld(t, nil)
	served := w.do("GET", "/openapi.json", "").object()
	schemas := served["components"].(map[string]any)["schemas"].(map[string]any)
	found := 0
	var walk func(value any)
	walk = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			if ref, ok := value["$ref"].(string); ok {
				found++
				if schemas[strings.TrimPrefix(ref, "#/components/schemas/")] == nil {
					t.Errorf("%s is not there", ref)
				}
			}
			for _, inner := range value {
				walk(inner)
			}
		case []any:
			for _, inner := range value {
				walk(inner)
			}
		}
	}
	walk(served)
	if found < 40 {
		t.Errorf("only %d references in %d schemas", found, len(schemas))
	}
}

// A route says in the document what opens it, and what it needs.
func TestTheDocumentSaysWhatOpensARoute(t *testing.T) {
	w := newWorld(t, nil)
	for _, rt := range w.server.routes() {
		op := operationIn(w.schemas.OpenAPI, w.server, newRequest(rt))
		text, err := json.Marshal(op)
		if err != nil {
			t.Fatal(err)
		}
		wants := map[access]string{public: `"security":[]`, bearer: `"security":[{"user":[]}]`, admin: `"security":[{"admin":[]},{}]`}[rt.access]
		if !strings.Contains(string(text), wants) {
			t.Errorf("%s: no %s in %s", rt.name(), wants, text)
		}
		needs := slices.ContainsFunc(op.Parameters, func(p *huma.Param) bool { return p.Name == deviceHeader && p.In == "header" && p.Required })
		if needs != (rt.doc.device == required) {
			t.Errorf("%s: needs a device: %v, and the document says %v", rt.name(), rt.doc.device == required, needs)
		}
		if strings.Contains(rt.path, "{") && !strings.Contains(string(text), `"in":"path"`) {
			t.Errorf("%s does not list its path's names: %s", rt.name(), text)
		}
	}
}

func newRequest(rt *route) *http.Request {
	r, err := http.NewRequest(rt.method, strings.NewReplacer("{", "", "}", "").Replace(rt.path), nil)
	if err != nil {
		panic(err)
	}
	return r
}

// The stories hold every answer against the document; this shows that the
// comparison can fail.
func TestAnAnswerThatDoesNotFitIsNoticed(t *testing.T) {
	w := newWorld(t, nil)
	schemas := w.schemas.registry
	for _, c := range []struct {
		shape any
		text  string
		fits  bool
	}{
		{sendReply{}, `{"msg_id":"m","seq":1,"dup":false,"epoch":1}`, true},
		{sendReply{}, `{"msg_id":"m","seq":0,"dup":false,"epoch":1}`, false},
		{sendReply{}, `{"msg_id":"m","seq":"1","dup":false,"epoch":1}`, false},
		{sendReply{}, `{"msg_id":"m","seq":1,"dup":false}`, false},
		{sendReply{}, `{"msg_id":"m","seq":1,"dup":false,"epoch":1,"more":1}`, false},
		{failure{}, `{"code":"X","message":"","retry":false}`, true},
		{failure{}, `{"code":"X","message":""}`, false},
		{failure{}, `{"code":"X","message":"","retry":false,"stack":"x"}`, false},
		{Conversation{}, `{"conv":"c","kind":"group","history":"all","head":0,"floor":0,"members":[]}`, true},
		{Conversation{}, `{"conv":"c","kind":"group","history":"all","head":0,"floor":0,"members":null}`, false},
		{Conversation{}, `{"conv":"c","kind":"channel","history":"all","head":0,"floor":0,"members":[]}`, false},
		{Conversation{}, `{"conv":"c","kind":"group","history":"all","head":0,"floor":0,"members":[{"user":"u"}]}`, false},
		{ConversationSpec{}, `{"kind":"group","members":["u-ana",{"user":"u-ben","role":"admin"}]}`, true},
		{ConversationSpec{}, `{"kind":"group","members":[7]}`, false},
		{sendRequest{}, `{"conv_id":7,"client_msg_id":"m","text":"x"}`, true},
		{sendRequest{}, `{"conv_id":"7","client_msg_id":"m","text":"x","ext":{"a":[1]}}`, true},
		{sendRequest{}, `{"conv_id":true,"client_msg_id":"m","text":"x"}`, false},
		{sendRequest{}, `{"conv_id":7,"client_msg_id":"m","text":"x","ext":[]}`, false},
	} {
		schema := schemas.Schema(reflect.TypeOf(c.shape), true, "")
		if got := faults(schemas, schema, c.text); (len(got) == 0) != c.fits {
			t.Errorf("%T %s: faults %v", c.shape, c.text, got)
		}
	}
}
