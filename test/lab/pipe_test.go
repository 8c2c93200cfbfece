package lab

import (
	"bufio"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestNobodyReads: when whoever reads the output has gone, the lab ends as at
// Ctrl-C and leaves nothing behind.
func TestNobodyReads(t *testing.T) {
	cmd, out, temporary := lab(t, "06-lost-reply-retry", "06-lost-push-swept", "kill-under-load")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	if _, err := bufio.NewReader(read).ReadString('\n'); err != nil { // the first check is done
		t.Error(err)
	}
	read.Close()
	began := time.Now()
	if err := cmd.Wait(); err == nil {
		t.Error("it ends as if all had run")
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v to end", took)
	}
	if results, _ := filepath.Glob(filepath.Join(out, "*", "result.json")); len(results) != 1 {
		t.Errorf("%d results", len(results))
	}
	left, err := os.ReadDir(temporary)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
