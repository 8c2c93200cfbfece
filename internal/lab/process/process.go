// Package process runs server processes for the lab: it starts one and waits for
// its ready line, pauses, signals and kills it, and limits its open files. A
// process never outlives the lab on Linux, however the lab ends; elsewhere a lab
// that is itself killed may leave one. Nothing of the lab's environment reaches it.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Config says what to start. Binary and Dir are needed.
type Config struct {
	Binary string   // path of the program
	Args   []string // its arguments; none means "serve"
	// Env is its whole environment, as "IM_SWEEP_MS=500"; of two lines with one
	// name the later counts.
	Env []string
	Dir string // working directory
	// Log is the file to which standard error is appended; "" is "stderr.log"
	// under Dir.
	Log string
	// MaxFiles limits its open files from the start; 0 keeps the lab's own limit.
	// See also [Process.LimitFiles].
	MaxFiles uint64
	// ReadyWithin bounds the wait for the ready line; 0 means 30 seconds.
	ReadyWithin time.Duration
}

func (c Config) withDefaults() (Config, error) {
	if c.Binary == "" || c.Dir == "" {
		return c, errors.New("a process needs a Binary and a Dir")
	}
	if len(c.Args) == 0 {
		c.Args = []string{"serve"}
	}
	if c.Log == "" {
		c.Log = filepath.Join(c.Dir, "stderr.log")
	}
	if c.ReadyWithin == 0 {
		c.ReadyWithin = 30 * time.Second
	}
	return c, nil
}

// Process is one process that has been ready. Its methods may be called at any
// time and by several goroutines.
type Process struct {
	cmd  *exec.Cmd
	out  *output
	log  string
	addr string
	hop  string        // where gateways find a logic node; "" of others
	done chan struct{} // closed when the process has ended and is waited for

	mu     sync.Mutex // guards what follows
	paused bool
}

// Start starts a process and waits until it prints "ready http://ADDRESS" on
// standard output; of a logic node "grpc://ADDRESS" follows. When that does not come in time, or ctx ends, the process is
// killed and the error ends with its log.
func Start(ctx context.Context, c Config) (*Process, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("the log of a process: %w", err)
	}
	defer log.Close()
	p := &Process{cmd: command(c), out: newOutput(), log: c.Log, done: make(chan struct{})}
	p.cmd.Stderr, p.cmd.Stdout = log, p.out
	// A grandchild that holds standard output open must not hold the lab up.
	p.cmd.WaitDelay = time.Second
	if err := StartBound(p.cmd, p.done); err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.Binary, err)
	}
	if err = p.awaitReady(ctx, c.ReadyWithin); err != nil {
		p.Kill()
		return nil, fmt.Errorf("%s: %w; exit code %d; output %q; its log ends with:\n%s",
			filepath.Base(c.Binary), err, p.ExitCode(), p.Output(), p.LogTail(40))
	}
	return p, nil
}

// command is the process, not started.
func command(c Config) *exec.Cmd {
	cmd := exec.Command(c.Binary, c.Args...)
	if c.MaxFiles > 0 {
		// The shell becomes the program, so the pid is the program's. A limit set on
		// the running process would come after the program has looked at it.
		script := fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, c.MaxFiles)
		cmd = exec.Command("/bin/sh", append([]string{"-c", script, c.Binary}, c.Args...)...)
	}
	cmd.Dir = c.Dir
	cmd.Env = slices.Clone(c.Env)
	if cmd.Env == nil {
		cmd.Env = []string{} // nil would be the lab's own environment
	}
	return cmd
}

func (p *Process) awaitReady(ctx context.Context, within time.Duration) error {
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case found := <-p.out.ready:
		p.addr, p.hop = found[0], found[1]
		return nil
	case <-p.done:
		return errors.New("the process ended before it was ready")
	case <-late.C:
		return fmt.Errorf("not ready within %v", within)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Addr is where it listens, as "127.0.0.1:8080".
func (p *Process) Addr() string { return p.addr }

// Hop is where gateways find a logic node, as "127.0.0.1:9090"; "" of others.
func (p *Process) Hop() string { return p.hop }

// URL is the base of its HTTP endpoints, without a slash at the end.
func (p *Process) URL() string { return "http://" + p.addr }

// PID is its process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether it has not ended; a paused process runs.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// ExitCode is how it ended: its exit code, 128 and the signal's number if a
// signal killed it (137: SIGKILL), -1 while it runs.
func (p *Process) ExitCode() int {
	if p.Running() {
		return -1
	}
	return exitCode(p.cmd.ProcessState)
}

// Output is what it has written to standard output, at most 64 KiB of it.
func (p *Process) Output() string { return p.out.text() }

// Log is all that was appended to its log file, by earlier processes too.
func (p *Process) Log() string {
	raw, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// LogTail is the last lines of [Process.Log].
func (p *Process) LogTail(lines int) string {
	all := strings.Split(strings.TrimRight(p.Log(), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

var wrecks = [][]byte{[]byte("panic:"), []byte("fatal error:"), []byte("WARNING: DATA RACE"), []byte("goroutine 1 [")}

// Verdict is an error when the log shows that a process has panicked or raced.
func (p *Process) Verdict() error {
	raw := []byte(p.Log())
	for _, wreck := range wrecks {
		if i := bytes.Index(raw, wreck); i >= 0 {
			return fmt.Errorf("the log has %q:\n%s", wreck, raw[max(0, i-500):min(len(raw), i+3000)])
		}
	}
	return nil
}

// Signal sends one signal. A process that has ended gives [os.ErrProcessDone].
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Kill ends the process as a crash does (SIGKILL), paused or not, and waits for
// it. A process that has ended is left as it is.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // an error says that it has ended
	<-p.done
}

// Terminate sends SIGTERM and waits for the end; the result is [Process.ExitCode].
// A paused process is resumed first. When ctx ends before the process does, the
// process is killed and ctx's cause comes back.
func (p *Process) Terminate(ctx context.Context) (int, error) {
	err := p.Resume()
	if err == nil {
		err = p.Signal(syscall.SIGTERM)
	}
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.Kill()
		return p.ExitCode(), fmt.Errorf("terminating: %w", err)
	}
	select {
	case <-p.done:
		return p.ExitCode(), nil
	case <-ctx.Done():
		p.Kill()
		return p.ExitCode(), fmt.Errorf("it did not end after SIGTERM and was killed: %w", context.Cause(ctx))
	}
}
