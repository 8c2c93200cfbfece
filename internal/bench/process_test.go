package bench

import (
	"strings"
	"testing"
)

func shell(t *testing.T, script string) (*Process, error) {
	t.Helper()
	return StartProcess(t.Context(), "/bin/sh", []string{"-c", script}, nil, t.TempDir())
}

func TestProcessThatDoesNotStartSaysWhy(t *testing.T) {
	for script, want := range map[string]string{
		"echo no luck >&2; exit 3":  "no luck",
		"echo hello; exec sleep 60": `said "hello`,
	} {
		if _, err := shell(t, script); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", script, err)
		}
	}
}

func TestProcessEnds(t *testing.T) {
	p, err := shell(t, "trap 'exit 0' TERM; echo ready http://127.0.0.1:1; while :; do sleep 0.01; done")
	if err != nil {
		t.Fatal(err)
	}
	if p.URL != "http://127.0.0.1:1" || p.Took <= 0 || p.PID() == 0 {
		t.Errorf("%+v", p)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	if err := p.Stop(); err != nil {
		t.Error("a second stop:", err)
	}
}

func TestProcessThatEndsBadlySaysWhy(t *testing.T) {
	p, err := shell(t, "trap 'echo broken >&2; exit 4' TERM; echo ready http://127.0.0.1:1; while :; do sleep 0.01; done")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Error(err)
	}
}
