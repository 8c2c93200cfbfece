package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/impart-im/impart/internal/lab"
)

// hostile is what a server or client might have written to take a page or a
// terminal over.
const hostile = `<script>alert(1)</script>"><img src=x onerror=alert(1)>` + "\x1b[2J\u202e"

// evidence makes the folder of a run in which everything is hostile.
func evidence(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run-1")
	checks := []string{
		`{"id":"a","invariant":"D1","what":HOSTILE,"expect":HOSTILE,"observed":HOSTILE,"verdict":"FAIL","ms":1500,"why":HOSTILE,"bit":[{"what":HOSTILE,"times":1}],
			"twins":[{"sabotage":"off","what":HOSTILE,"caught":true,"observed":HOSTILE,"violated":[HOSTILE],"ms":1,"why":""}]}`,
		`{"id":"b","invariant":"D2","what":"w","expect":"e","observed":"1 row","verdict":"PASS","ms":1,"why":"","bit":[],"twins":[]}`,
		`{"id":"c","invariant":"D2","what":"w","expect":"e","observed":"","verdict":"NOT_RUN","ms":1,"why":"no FUSE here","bit":[],"twins":[]}`,
	}
	text := `{"run":HOSTILE,"version":"v1","store":"sqlite","checks":[` + strings.Join(checks, ",") + `]}`
	write(t, filepath.Join(dir, "result.json"), text)
	write(t, filepath.Join(lab.Folder(dir, "a", ""), "timeline.jsonl"),
		`{"ms":1,"who":"server","what":"started"}`+"\n"+`{"ms":9,"who":HOSTILE,"what":HOSTILE,"text":HOSTILE}`+"\n")
	write(t, filepath.Join(lab.Folder(dir, "a", "off"), "server-1.log"), "x")
	return dir
}

func write(t *testing.T, name, text string) {
	t.Helper()
	quoted := `"` + strings.NewReplacer(`"`, `\"`, "\x1b", `\u001b`).Replace(hostile) + `"`
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(strings.ReplaceAll(text, "HOSTILE", quoted)), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestThePageLetsNothingIn(t *testing.T) {
	dir := evidence(t)
	name, err := Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	for _, markup := range []string{"<script", "<img", "onerror=alert(1)>", "http://", "https://", "src="} {
		if strings.Contains(strings.ReplaceAll(page, "src=x onerror", ""), markup) {
			t.Errorf("the page has %q", markup)
		}
	}
	for _, want := range []string{"&lt;script&gt;", "default-src &#39;none&#39;", "NOT_RUN", "no FUSE here", `href="a/off/server-1.log"`, "<circle", "1 PASS"} {
		if !strings.Contains(page, want) && !strings.Contains(page, strings.ReplaceAll(want, "&#39;", "'")) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestTheTableLetsNothingIn(t *testing.T) {
	r, err := lab.ReadResult(evidence(t))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := Table(&out, r); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\u202e") {
		t.Errorf("it moves the cursor: %q", out.String())
	}
	for _, want := range []string{"1 PASS, 1 FAIL, 1 NOT_RUN", "no FUSE here", "1/1"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, out.String())
		}
	}
}

func TestNoRunIsSaidSo(t *testing.T) {
	if _, err := Write(t.TempDir()); err == nil || !strings.Contains(err.Error(), "impart lab run") {
		t.Errorf("%v", err)
	}
}
