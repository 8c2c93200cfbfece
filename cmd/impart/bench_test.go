package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/impart-im/impart/internal/bench"
)

// TestBenchInterrupted: Ctrl-C ends the measuring, and what was measured until
// then is checked and reported. Nothing is left behind.
func TestBenchInterrupted(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	text, told, code := interruptBench(t, folder, syscall.SIGINT)
	if code != exitFailed || !strings.Contains(told, "interrupted: this was not the whole run") {
		t.Errorf("it ends with %d and says:\n%s", code, told)
	}
	for _, want := range []string{"Interrupted: what follows was measured until then.", "2 senders", "ok  no message lost", "Interrupted: this was not the whole run, and it ends with 1.\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	nothingLeft(t, folder)
}

// TestBenchInterruptedTwice: it ends at once, and nothing is left behind either.
func TestBenchInterruptedTwice(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	text, told, code := interruptBench(t, folder, syscall.SIGINT, syscall.SIGTERM)
	if code != exitFailed || text != "" || !strings.Contains(told, "interrupted twice: ended without a report; its server and its folder are gone") {
		t.Errorf("it ends with %d, reports %q and says:\n%s", code, text, told)
	}
	nothingLeft(t, folder)
}

// TestBenchOnPostgres: the servers and the yardstick are on a private PostgreSQL,
// which the report names and counts, and nothing of it is left behind.
func TestBenchOnPostgres(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: needs PostgreSQL")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	cmd := exec.CommandContext(t.Context(), exe, "bench", "send", "--store", "postgres", "--dir", folder, "--senders", "4", "--conversations", "2",
		"--turns", "5", "--duration", "200ms", "--rounds", "1", "--compare", "naive,roles")
	cmd.Args[0] = "impart"
	cmd.Env = []string{endAtOnce, "HOME=" + t.TempDir(), "TMPDIR=" + os.TempDir(), "PATH=" + os.Getenv("PATH")}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"with its defaults and PostgreSQL 1", "CPU of the database", "× one transaction per message", "ok  no message lost", "% of the single process, gateway and logic apart", "ok  no message twice, gateway and logic apart"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	nothingLeft(t, folder)
}

// TestBenchStormNotesTooFewStorms: two storms are chance, and three are not.
func TestBenchStormNotesTooFewStorms(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for every, few := range map[string]bool{"450ms": true, "200ms": false} {
		cmd := exec.CommandContext(t.Context(), exe, "bench", "storm", "--clients", "3", "--messages", "2", "--live", "2", "--rate", "50", "--duration", "1s", "--every", every)
		cmd.Args[0] = "impart"
		cmd.Env = []string{endAtOnce, "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir()}
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if got := strings.Contains(string(out), "note: only 2 storms: "); got != few {
			t.Errorf("a storm every %s: noted as too few: %v\n%s", every, got, out)
		}
		if n := strings.Count(string(out), "CPU of anything else on this machine"); runtime.GOOS == "linux" && n != 2 {
			t.Errorf("%d runs say how busy the machine was, and 2 are compared:\n%s", n, out)
		}
	}
}

func nothingLeft(t *testing.T, folder string) {
	t.Helper()
	left, err := os.ReadDir(folder)
	if err != nil || len(left) > 0 {
		t.Errorf("%v is left behind (%v)", left, err)
	}
}

// interruptBench runs a bench until it measures, and then gives it signals. It
// returns both streams and the exit code.
func interruptBench(t *testing.T, folder string, signals ...syscall.Signal) (text, said string, code int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "bench", "send", "--turns", "50", "--senders", "2", "--conversations", "2", "--duration", "1h", "--dir", folder)
	cmd.Args[0] = "impart"
	cmd.Env = []string{endAtOnce, "HOME=" + folder}
	var out bytes.Buffer
	cmd.Stdout = &out
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	lines := bufio.NewScanner(errs)
	var told []string
	for lines.Scan() {
		told = append(told, lines.Text())
		if strings.HasPrefix(lines.Text(), "2 senders: ") {
			for _, sig := range signals {
				if err := cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
			}
			break
		}
	}
	for lines.Scan() {
		told = append(told, lines.Text())
	}
	_ = cmd.Wait() // how it ended is in the state
	return out.String(), strings.Join(told, "\n"), cmd.ProcessState.ExitCode()
}

func TestCommandLineHidesTheToken(t *testing.T) {
	got := commandLine([]string{"bench", "send", "--token", "secret", "--url", "http://h", "--token=secret"})
	if want := "impart bench send --token … --url http://h --token=…"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestProgressText(t *testing.T) {
	var out bytes.Buffer
	l := &benchLines{w: &out}
	for second := range 12 {
		l.tell(progressAt("a", second))
	}
	l.tell(progressAt("b", 1))
	const want = "a: 0s of 1m0s, 0 sends, 10/s, p99 2ms\na: 5s of 1m0s, 50 sends, 10/s, p99 2ms\na: 10s of 1m0s, 100 sends, 10/s, p99 2ms\nb: 1s of 1m0s, 10 sends, 10/s, p99 2ms\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func progressAt(window string, second int) bench.Progress {
	return bench.Progress{Window: window, Spent: time.Duration(second) * time.Second, Of: time.Minute, Done: int64(10 * second), Rate: 10, Unit: "sends", P99: 2 * time.Millisecond}
}
