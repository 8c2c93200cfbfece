package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/impart"
)

// binary has fault points.
var binary string

func TestMain(m *testing.M) {
	impart.SideBySide(3)
	os.Exit(run(m))
}

func run(m *testing.M) int {
	flag.Parse()
	if testing.Short() {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "impart-lab-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "impart-fault")
	if err := impart.Build(binary, "fault"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// result is what the test reads of a result.json.
type result struct {
	Run    string
	Store  string
	Checks []struct {
		ID, Verdict, Why, Observed string
		Bit                        []struct{ Times int }
		Twins                      []struct {
			Sabotage string
			Caught   bool
		}
	}
}

// lab is a run of the lab with its own folder for temporary files.
func lab(t *testing.T, args ...string) (cmd *exec.Cmd, out, temporary string) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the real binary: run without -short")
	}
	out, temporary = t.TempDir(), t.TempDir()
	for _, dir := range []string{temporary, filepath.Dir(temporary)} {
		if err := os.Chmod(dir, 0o711); err != nil { // PostgreSQL does not run as root, and has to get in
			t.Fatal(err)
		}
	}
	cmd = exec.Command(binary, append([]string{"lab", "run", "--out", out}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
	return cmd, out, temporary
}

// TestQuickSet: every check of it passes, and each twin is caught.
func TestQuickSet(t *testing.T) { passes(t, 10, "sqlite", "--short") }

// TestQuickSetOnPostgreSQL: so do those of the first design text, all eight.
func TestQuickSetOnPostgreSQL(t *testing.T) { passes(t, 8, "postgres", "--store", "postgres", "06-*") }

// TestQuickSetApart: and some of gateways and logic nodes apart, on MariaDB with a Redis.
func TestQuickSetApart(t *testing.T) {
	passes(t, 4, "mysql", "--store", "mysql", "--redis", "06-crash-api.after_send_commit", "06-lost-push-swept", "002-same-cmid-same-answer", "logic-kill-in-doubt")
}

// passes runs checks on a store, at least so many, and wants a verdict of PASS from
// each.
func passes(t *testing.T, least int, store string, args ...string) {
	t.Parallel()
	cmd, out, temporary := lab(t, append(args, "--strict", "--json")...)
	var says, progress bytes.Buffer
	cmd.Stdout, cmd.Stderr = &says, &progress
	if err := cmd.Run(); err != nil {
		t.Errorf("%v\n%s", err, progress.String())
	}
	var r result
	if err := json.Unmarshal(says.Bytes(), &r); err != nil {
		t.Fatalf("%v\n%s", err, says.String())
	}
	if len(r.Checks) < least || r.Store != store {
		t.Errorf("%d checks on %s, want %d on %s", len(r.Checks), r.Store, least, store)
	}
	for _, c := range r.Checks {
		if c.Verdict != "PASS" || len(c.Bit) == 0 || len(c.Twins) == 0 {
			t.Errorf("%s: %s %s", c.ID, c.Verdict, c.Why)
		}
		for _, twin := range c.Twins {
			if !twin.Caught {
				t.Errorf("%s: the twin %s was not caught", c.ID, twin.Sabotage)
			}
		}
		t.Logf("%s: %s", c.ID, c.Observed)
	}
	for _, name := range []string{"result.json", "timeline.html", "06-lost-push-swept/honest/server-1.log", "06-lost-push-swept/no-sweep/timeline.jsonl"} {
		if info, err := os.Stat(filepath.Join(out, r.Run, name)); err != nil || info.Size() == 0 {
			t.Errorf("the evidence lacks %s: %v", name, err)
		}
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestInterrupted: Ctrl-C ends the lab soon, with the evidence so far, and with
// nothing left behind.
func TestInterrupted(t *testing.T) {
	cmd, out, temporary := lab(t, "app-story", "kill-under-load")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var logs []string
	for began := time.Now(); len(logs) == 0; time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > 30*time.Second {
			t.Fatal("no server was started")
		}
		logs, _ = filepath.Glob(filepath.Join(out, "*", "app-story", "honest", "app-*.log"))
	}
	began := time.Now()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("it ended with %v, want exit code 1", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v to end", took)
	}
	results, _ := filepath.Glob(filepath.Join(out, "*", "result.json"))
	if len(results) != 1 {
		t.Fatalf("%d results", len(results))
	}
	raw, err := os.ReadFile(results[0])
	if err != nil {
		t.Fatal(err)
	}
	var r result
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Checks {
		if c.Verdict != "NOT_RUN" || c.Why == "" {
			t.Errorf("%s: %s %q", c.ID, c.Verdict, c.Why)
		}
	}
	left, err := os.ReadDir(temporary)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	for _, pid := range pids(t, filepath.Dir(logs[0])) {
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("process %d of the lab is left", pid)
		}
	}
}

// pids are those of the processes that a run has started, by its timeline.
func pids(t *testing.T, dir string) (all []int) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "timeline.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		var m struct{ What, Text string }
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		var pid int
		if n, _ := fmt.Sscanf(m.Text, "pid %d", &pid); m.What == "started" && n == 1 {
			all = append(all, pid)
		}
	}
	if len(all) == 0 {
		t.Error("the timeline has no process")
	}
	return all
}
