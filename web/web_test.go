package web_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/impart-im/impart/web"
)

func get(t *testing.T, method, target string, header http.Header) (*http.Response, string) {
	t.Helper()
	request := httptest.NewRequest(method, target, http.NoBody)
	for name, values := range header {
		request.Header[name] = values
	}
	recorder := httptest.NewRecorder()
	web.Handler().ServeHTTP(recorder, request)
	response := recorder.Result()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

func TestFilesCarryTheirTypeAndTheStrictPolicy(t *testing.T) {
	for target, kind := range map[string]string{
		"/":           "text/html; charset=utf-8",
		"/index.html": "text/html; charset=utf-8",
		"/style.css":  "text/css; charset=utf-8",
		"/js/main.js": "text/javascript; charset=utf-8",
		"/logo.svg":   "image/svg+xml",
	} {
		response, body := get(t, http.MethodGet, target, nil)
		if response.StatusCode != http.StatusOK || body == "" {
			t.Errorf("%s: status %d, %d bytes", target, response.StatusCode, len(body))
		}
		if got := response.Header.Get("Content-Type"); got != kind {
			t.Errorf("%s: Content-Type %q, want %q", target, got, kind)
		}
		wantsPolicy(t, target, response)
	}
}

func wantsPolicy(t *testing.T, target string, response *http.Response) {
	t.Helper()
	policy := response.Header.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'self'", "connect-src 'self' ws: wss:", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, part) {
			t.Errorf("%s: the policy %q lacks %q", target, policy, part)
		}
	}
	if strings.Contains(policy, "unsafe") {
		t.Errorf("%s: the policy %q allows something unsafe", target, policy)
	}
	if got := response.Header.Get("X-Content-Type-Options"); got != "nosniff" {
		t.Errorf("%s: X-Content-Type-Options %q", target, got)
	}
}

func TestAFileIsRevalidatedByItsETag(t *testing.T) {
	first, _ := get(t, http.MethodGet, "/js/main.js", nil)
	etag := first.Header.Get("ETag")
	if etag == "" || strings.HasPrefix(etag, "W/") || first.Header.Get("Cache-Control") != "no-cache" {
		t.Fatalf("ETag %q, Cache-Control %q", etag, first.Header.Get("Cache-Control"))
	}
	again, body := get(t, http.MethodGet, "/js/main.js", http.Header{"If-None-Match": {etag}})
	if again.StatusCode != http.StatusNotModified || body != "" {
		t.Errorf("with the same ETag: status %d and %d bytes, want 304 and none", again.StatusCode, len(body))
	}
	other, body := get(t, http.MethodGet, "/js/main.js", http.Header{"If-None-Match": {`"older"`}})
	if other.StatusCode != http.StatusOK || body == "" {
		t.Errorf("with another ETag: status %d and %d bytes, want the file", other.StatusCode, len(body))
	}
}

func TestAnUnknownPathGetsThe404Page(t *testing.T) {
	for _, target := range []string{"/nothing", "/js", "/js/", "/static/index.html", "/js/../../web.go", "/favicon.ico"} {
		response, body := get(t, http.MethodGet, target, nil)
		if response.StatusCode != http.StatusNotFound || !strings.Contains(body, "<h1>404</h1>") {
			t.Errorf("%s: status %d and %q", target, response.StatusCode, body)
		}
		if got := response.Header.Get("Cache-Control"); got != "no-store" {
			t.Errorf("%s: Cache-Control %q, want no-store", target, got)
		}
		wantsPolicy(t, target, response)
	}
}

func TestOnlyReadingIsAllowed(t *testing.T) {
	response, _ := get(t, http.MethodPost, "/", nil)
	if response.StatusCode != http.StatusMethodNotAllowed || response.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: status %d, Allow %q", response.StatusCode, response.Header.Get("Allow"))
	}
	response, body := get(t, http.MethodHead, "/", nil)
	if response.StatusCode != http.StatusOK || body != "" || response.Header.Get("ETag") == "" {
		t.Errorf("HEAD: status %d, %d bytes, ETag %q", response.StatusCode, len(body), response.Header.Get("ETag"))
	}
}

// sources reads the committed files by the path they are served under.
func sources(t *testing.T) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	err := filepath.WalkDir("static", func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		texts["/"+filepath.ToSlash(strings.TrimPrefix(name, "static"+string(filepath.Separator)))] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(texts) < 10 {
		t.Fatalf("only %d files found", len(texts))
	}
	return texts
}

var (
	imported   = regexp.MustCompile(`(?m)^import .* from '([^']+)';$`)
	referenced = regexp.MustCompile(`(?:src|href)="(/[^"#]*|)(?:#([^"]*))?"`)
)

func TestEveryFileThatIsNamedIsThere(t *testing.T) {
	texts := sources(t)
	links := 0
	for name, text := range texts {
		for _, match := range imported.FindAllStringSubmatch(text, -1) {
			links++
			if target := path.Join(path.Dir(name), match[1]); texts[target] == "" {
				t.Errorf("%s imports %s, which is not there", name, target)
			}
		}
		for _, match := range referenced.FindAllStringSubmatch(text, -1) {
			links++
			target := match[1]
			switch target {
			case "":
				target = name // a part of the same file
			case "/":
				target = "/index.html"
			}
			if texts[target] == "" {
				t.Errorf("%s refers to %s, which is not there", name, target)
			}
			if match[2] != "" && !strings.Contains(texts[target], `id="`+match[2]+`"`) {
				t.Errorf("%s refers to %s#%s, which has no such id", name, target, match[2])
			}
		}
	}
	if links < 30 {
		t.Errorf("only %d references were found: the patterns no longer fit the files", links)
	}
}

// forbidden are the ways in which a text could become markup or code, or in
// which the page would need something the policy does not allow.
var forbidden = map[string]*regexp.Regexp{
	".js":   regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|setHTML|https?://`),
	".html": regexp.MustCompile(`(?i)<style|\sstyle=|\son[a-z]+=|<script(?:\s[^>]*)?>[^<]|https?://`),
	".css":  regexp.MustCompile(`(?i)@import|url\(`),
}

func TestNothingInlineNothingForeignAndNoTextAsMarkup(t *testing.T) {
	for name, text := range sources(t) {
		if pattern := forbidden[path.Ext(name)]; pattern != nil {
			if found := pattern.FindString(text); found != "" {
				t.Errorf("%s contains %q", name, found)
			}
		}
	}
}
