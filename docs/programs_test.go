package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestProgramsCompile builds every whole Go program of the documents against the
// repository, as a reader who copies it would.
func TestProgramsCompile(t *testing.T) {
	programs := 0
	for _, p := range readPages(t, tree) {
		blocks, _ := p.split()
		for _, b := range blocks {
			if b.kind == "go" && strings.HasPrefix(b.text, "package main\n") {
				programs++
				if fault := programFault(t, b.text); fault != "" {
					t.Errorf("%s: %s", p.name, fault)
				}
			}
		}
	}
	if programs == 0 {
		t.Error("no program was found")
	}
}

// programFault is what the compiler says of a program, "" if nothing.
func programFault(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", os.DevNull, file)
	build.Dir = ".."
	out, err := build.CombinedOutput()
	if err == nil {
		return ""
	}
	return string(out) + err.Error()
}

func TestAProgramThatDoesNotCompileIsFound(t *testing.T) {
	if programFault(t, "package main\n\nfunc main() { unknown() }\n") == "" {
		t.Error("a broken program passes")
	}
}
