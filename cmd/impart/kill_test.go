package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestKillAdviceIsForThisServer: what a newcomer is told to kill is one process,
// named when it starts, and not every impart of the machine.
func TestKillAdviceIsForThisServer(t *testing.T) {
	dir := t.TempDir()
	p, err := startServer(dir, filepath.Join(dir, "server.err"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.end(syscall.SIGKILL, -1) })
	if want := fmt.Sprintf("  kill -9 %d\n", p.cmd.Process.Pid); !strings.Contains(p.log(), want) {
		t.Errorf("%q is not in\n%s", want, p.log())
	}
	for _, name := range []string{"README.md", "README.zh-CN.md", "web/static/index.html"} {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "kill -9 PID") || strings.Contains(string(text), "pkill") {
			t.Errorf("%s does not say kill -9 PID, or names pkill", name)
		}
	}
}
