//go:build unix

package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain is also the processes that the tests start: the test binary itself,
// told by its first argument what to be.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 {
		os.Exit(m.Run())
	}
	switch os.Args[1] {
	case "echo":
		echo()
	case "mute":
		fmt.Fprintln(os.Stderr, "I say nothing")
		select {}
	case "fail":
		fmt.Fprintln(os.Stderr, "panic: no such luck")
		os.Exit(3)
	case "lab":
		p, err := Start(context.Background(), Config{Binary: os.Args[0], Args: []string{"echo"}, Dir: os.TempDir(), Log: os.DevNull})
		if err != nil {
			panic(err)
		}
		fmt.Println("ready " + p.URL())
		select {}
	default:
		os.Exit(m.Run())
	}
}

// echo answers each line of a connection: with a fact of the process, or the line.
func echo() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Printf("hello\nready http://%s\n", ln.Addr())
	for {
		conn, err := ln.Accept()
		if err != nil {
			panic(err)
		}
		in := bufio.NewScanner(conn)
		for in.Scan() {
			switch in.Text() {
			case "environment":
				fmt.Fprintf(conn, "%q\n", os.Environ())
			case "files":
				var limit syscall.Rlimit
				_ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
				fmt.Fprintln(conn, limit.Cur)
			default:
				fmt.Fprintln(conn, in.Text())
			}
		}
	}
}

func start(t *testing.T, c Config) *Process {
	t.Helper()
	p, err := launch(t, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func launch(t *testing.T, c Config) (*Process, error) {
	t.Helper()
	c.Binary, c.Dir = os.Args[0], t.TempDir()
	if c.Args == nil {
		c.Args = []string{"echo"}
	}
	return Start(t.Context(), c)
}

// line is a connection to an echo.
type line struct {
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, addr string) line {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return line{conn, bufio.NewReader(conn)}
}

func (l line) ask(t *testing.T, question string, within time.Duration) (string, error) {
	t.Helper()
	if _, err := fmt.Fprintln(l, question); err != nil {
		t.Fatal(err)
	}
	_ = l.SetReadDeadline(time.Now().Add(within))
	answer, err := l.in.ReadString('\n')
	return strings.TrimSpace(answer), err
}

const soon = 10 * time.Second

func TestAProcessIsReadyAndKilled(t *testing.T) {
	t.Setenv("IM_OF_THE_LAB", "secret")
	p := start(t, Config{Env: []string{"A=1"}})
	if got, err := dial(t, p.Addr()).ask(t, "environment", soon); err != nil || got != `["A=1"]` {
		t.Errorf("its environment is %s, %v; want what it was given and nothing of the lab's", got, err)
	}
	if p.URL() != "http://"+p.Addr() || !p.Running() || p.ExitCode() != -1 || !strings.HasPrefix(p.Output(), "hello\nready ") {
		t.Errorf("%s, running %v, exit code %d, output %q", p.URL(), p.Running(), p.ExitCode(), p.Output())
	}
	p.Kill()
	p.Kill()
	if p.Running() || p.ExitCode() != 137 {
		t.Errorf("running %v, exit code %d, want 137", p.Running(), p.ExitCode())
	}
	if err := p.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("a signal to a dead process: %v", err)
	}
}

func TestAProcessThatIsNotReadyIsKilledAndExplained(t *testing.T) {
	for name, c := range map[string]struct {
		config Config
		want   []string
	}{
		"mute":  {Config{Args: []string{"mute"}, ReadyWithin: 300 * time.Millisecond}, []string{"not ready within", "exit code 137", "I say nothing"}},
		"fails": {Config{Args: []string{"fail"}}, []string{"ended before it was ready", "exit code 3", "no such luck"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := launch(t, c.config)
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not say %q", err, want)
				}
			}
		})
	}
	if _, err := Start(t.Context(), Config{}); err == nil {
		t.Error("a process without a binary starts")
	}
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := Start(ctx, Config{Binary: os.Args[0], Args: []string{"mute"}, Dir: t.TempDir()}); !errors.Is(err, cause) {
		t.Errorf("a start that is called off: %v", err)
	}
}

func TestAWreckIsSeenInTheLog(t *testing.T) {
	p := start(t, Config{})
	if err := p.Verdict(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(p.log, []byte("fine\npanic: oh\nmore\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.Verdict(); err == nil || !strings.Contains(err.Error(), "oh") || p.LogTail(1) != "more" {
		t.Errorf("%v, tail %q", err, p.LogTail(1))
	}
}

func TestAPausedProcessIsSilentAndGoesOn(t *testing.T) {
	p := start(t, Config{})
	l := dial(t, p.Addr())
	if got, err := l.ask(t, "a", soon); got != "a" {
		t.Fatalf("%q, %v", got, err)
	}
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	if got, err := l.ask(t, "b", 200*time.Millisecond); err == nil {
		t.Errorf("a paused process says %q", got)
	}
	if err := p.Resume(); err != nil {
		t.Fatal(err)
	}
	if got, err := l.ask(t, "c", soon); got != "b" {
		t.Errorf("after the pause: %q, %v; want the answer it owed", got, err)
	}
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	if code, err := p.Terminate(t.Context()); err != nil || code != 128+int(syscall.SIGTERM) {
		t.Errorf("a paused process is terminated with %d, %v", code, err)
	}
}

func TestAProcessThatDoesNotEndIsKilled(t *testing.T) {
	p := start(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// The default action of SIGTERM may be as quick as the kill.
	if code, err := p.Terminate(ctx); p.Running() || !slices.Contains([]int{137, 143}, code) {
		t.Errorf("exit code %d, %v", code, err)
	}
}

func TestOpenFilesAreLimited(t *testing.T) {
	p := start(t, Config{MaxFiles: 64})
	l := dial(t, p.Addr())
	if got, err := l.ask(t, "files", soon); got != "64" {
		t.Errorf("limit %s from the start, %v", got, err)
	}
	if runtime.GOOS != "linux" {
		return // no other system changes or tells it later
	}
	for _, n := range []uint64{12, 60} {
		if err := p.LimitFiles(n); err != nil {
			t.Fatal(err)
		}
		if got, err := l.ask(t, "files", soon); got != strconv.FormatUint(n, 10) {
			t.Errorf("limit %s, want %d, %v", got, n, err)
		}
	}
	if n, err := p.OpenFiles(); err != nil || n < 3 || n > 60 {
		t.Errorf("%d open files, %v", n, err)
	}
}

// TestNoProcessOutlivesTheLab kills a lab without warning and wants its process
// to die with it.
func TestNoProcessOutlivesTheLab(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // promised for Linux alone
	}
	lab := exec.Command(os.Args[0], "lab")
	stdout, err := lab.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := lab.Start(); err != nil {
		t.Fatal(err)
	}
	ready, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	l := dial(t, strings.TrimPrefix(strings.TrimSpace(ready), "ready http://"))
	if got, err := l.ask(t, "alive", soon); got != "alive" {
		t.Fatalf("%q, %v", got, err)
	}
	_ = lab.Process.Kill()
	_ = lab.Wait() // it was killed
	_ = l.SetReadDeadline(time.Now().Add(soon))
	if _, err := l.in.ReadByte(); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("its process still holds the connection")
	}
}
