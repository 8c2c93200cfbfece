package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// How long a server of our own may take to start, and to end.
const (
	readyTime = 2 * time.Minute
	endTime   = 15 * time.Second
)

// Process is a server that the bench has started: it has a process group of its
// own, so that Ctrl-C at a terminal stops the bench first and the server after it.
type Process struct {
	URL    string
	Hop    string        // host:port for gateways, of a logic node
	Took   time.Duration // from the start of the process to its ready line
	Folder string
	cmd    *exec.Cmd
	log    string
	out    *bufio.Reader
	ended  chan struct{}
	once   sync.Once
}

// StartProcess runs exe with args, in folder, with the environment given, and
// waits for its ready line. Its log goes to server.log in folder.
func StartProcess(ctx context.Context, exe string, args, env []string, folder string) (*Process, error) {
	p := &Process{Folder: folder, log: filepath.Join(folder, "server.log"), ended: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(exe, args...)
	p.cmd.Args[0] = "impart"
	p.cmd.Env, p.cmd.Stderr, p.cmd.SysProcAttr = env, log, ownGroup()
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a server of our own: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() })
	p.out = bufio.NewReader(out)
	line, err := p.out.ReadString('\n')
	p.Took = time.Since(start)
	url, ready := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if !stop() || err != nil || !ready {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		return nil, fmt.Errorf("the server of our own did not start: it said %q (%w)\n%s", line, errors.Join(err, ctx.Err()), p.tail())
	}
	p.URL, p.Hop, _ = strings.Cut(url, " grpc://")
	go func() {
		_ = p.cmd.Wait() // how it ended is in the state
		close(p.ended)
	}()
	return p, nil
}

// PID is its process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Written is how many bytes it has caused to be written to the disk; 0: not known.
func (p *Process) Written() int64 { return bytesWritten(p.PID()) }

// Stop ends it with SIGTERM, and by force if that takes too long.
func (p *Process) Stop() error {
	var err error
	p.once.Do(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.ended:
		case <-time.After(endTime):
			_ = p.cmd.Process.Kill()
			<-p.ended
			err = fmt.Errorf("the server did not end within %v of SIGTERM", endTime)
		}
		if code := p.cmd.ProcessState.ExitCode(); err == nil && code != 0 {
			err = fmt.Errorf("the server ended with code %d:\n%s", code, p.tail())
		}
	})
	return err
}

// Kill ends it as a crash would.
func (p *Process) Kill() {
	p.once.Do(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
}

// Abandon ends it at once, also while Stop waits for it.
func (p *Process) Abandon() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// tail is the end of its log.
func (p *Process) tail() string {
	const most = 2000
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	if len(text) > most {
		text = text[len(text)-most:]
	}
	return string(text)
}
