package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/impart-im/impart/internal/lab/mysql"
	"github.com/impart-im/impart/internal/lab/postgres"
)

// leakFree fails a run whose tests leave goroutines behind.
type leakFree struct{ m interface{ Run() int } }

func (l leakFree) Run() int {
	code := l.m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

func TestMain(m *testing.M) {
	testscript.Main(leakFree{postgres.Tests(mysql.Tests(m))}, map[string]func(){"impart": main})
}

// endAtOnce is the environment of every process that a story starts. One that runs
// under the race detector would sleep for a second before it ends, to see what is left
// of its goroutines do, and the stories start some two hundred. Nobody who ends here
// leaves a goroutine behind that could still race.
const endAtOnce = "GORACE=atexit_sleep_ms=0"

// serverProcess is `impart serve` as a process of its own: this test binary
// under the name of the real one.
type serverProcess struct {
	cmd    *exec.Cmd
	url    string
	hop    string        // host:port for gateways, of a logic node
	out    *bufio.Reader // standard output after the ready line
	stderr string        // path of its standard error
}

// How long a server may take to start, and to end after a signal (cli.md of the
// protocol's contract: 10 s).
const (
	readyTime = 30 * time.Second
	endTime   = 10 * time.Second
)

// startServer runs `impart serve ARGS…` in dir with the variables given and
// waits for its ready line. Without --listen it takes a free port.
func startServer(dir, stderr string, variables []string, args ...string) (*serverProcess, error) {
	return startRole("serve", dir, stderr, variables, args...)
}

// startRole is startServer for a role.
func startRole(role, dir, stderr string, variables []string, args ...string) (*serverProcess, error) {
	p, err := beginRole(role, dir, stderr, variables, args...)
	if err != nil {
		return nil, err
	}
	late := time.AfterFunc(readyTime, p.kill)
	defer late.Stop()
	line, err := p.out.ReadString('\n')
	url, found := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "ready ")
	if err != nil || !found {
		p.kill()
		return nil, fmt.Errorf("no ready line but %q (%w, %w); it says:\n%s", line, err, p.cmd.Wait(), p.log())
	}
	p.url, p.hop, _ = strings.Cut(url, " grpc://")
	return p, nil
}

// beginRole starts a server, and waits for nothing.
func beginRole(role, dir, stderr string, variables []string, args ...string) (*serverProcess, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if !strings.Contains(strings.Join(args, " "), "--listen") {
		args = append(args, "--listen", "127.0.0.1:0")
	}
	log, err := os.Create(stderr)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(exe, append([]string{role}, args...)...)
	cmd.Args[0] = "impart"
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append([]string{"HOME=" + dir, endAtOnce}, variables...), log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &serverProcess{cmd: cmd, out: bufio.NewReader(out), stderr: stderr}, nil
}

func (p *serverProcess) kill() { _ = p.cmd.Process.Kill() }

// log is what it has written to standard error so far.
func (p *serverProcess) log() string {
	text, err := os.ReadFile(p.stderr)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// end sends a signal and waits for the end.
func (p *serverProcess) end(signal syscall.Signal, code int) error {
	if err := p.cmd.Process.Signal(signal); err != nil {
		return err
	}
	return p.wait(code)
}

// wait waits for the end. It is an error if the exit code is not code (-1:
// killed), if more than the ready line was on standard output, or if it took
// longer than [endTime].
func (p *serverProcess) wait(code int) error {
	began := time.Now()
	late := time.AfterFunc(2*endTime, p.kill)
	defer late.Stop()
	more, err := io.ReadAll(p.out)
	if waited := p.cmd.Wait(); waited != nil {
		var exit *exec.ExitError
		if !errors.As(waited, &exit) {
			err = errors.Join(err, waited)
		}
	}
	if took := time.Since(began); took > endTime {
		err = errors.Join(err, fmt.Errorf("it took %v to end", took))
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		err = errors.Join(err, fmt.Errorf("exit code %d, want %d; it says:\n%s", got, code, p.log()))
	}
	if len(more) > 0 {
		err = errors.Join(err, fmt.Errorf("more than the ready line on standard output: %q", more))
	}
	return err
}
