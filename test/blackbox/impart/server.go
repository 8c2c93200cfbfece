package impart

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// readyWithin bounds how long a server may take to print its ready line.
const readyWithin = 30 * time.Second

// Config says how to start the binary. The zero value is `impart serve` on a free loopback port with SQLite in Dir.
type Config struct {
	// Dir is the working directory, and holds the data.
	Dir string
	// Env adds or replaces settings, as "IM_SWEEP_MS=500". Nothing named IM_… is inherited.
	Env []string
	// Args are the arguments; none means "serve".
	Args []string
	// Store is the address of the store; "" is SQLite in Dir.
	Store string
	on    *Deployment // that Store is of
	// NoStore leaves IM_STORE unset, so that the default path under Dir is used.
	NoStore bool
	// Binary is the binary to start, from Build; "" is the one that Main built.
	Binary string
	// MaxFiles is the limit of open file descriptors; 0 keeps the inherited one.
	MaxFiles int

	// Logic are the logic nodes of a gateway (Args: "gateway"), which goes by them alone.
	Logic []*Server
	hop   string // of a logic node that has run
}

// Server is one deployment: a data directory and, most of the time, a process on it.
type Server struct {
	cfg   Config
	peers []*Server // of the shared server alone
	under *Server   // its logic node, where the roles are apart and it is a gateway

	mu   sync.Mutex
	cmd  *exec.Cmd
	addr string
	out  *output
}

// Start launches a server for one test and stops it at the end. The test fails when the log has a panic.
func Start(t testing.TB, env ...string) *Server {
	t.Helper()
	return StartWith(t, Config{Env: env})
}

// StartWith is Start with everything that can be set.
func StartWith(t testing.TB, cfg Config) *Server {
	t.Helper()
	needBinary(t)
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	if onDatabase() && cfg.Store == "" && cfg.setting("IM_STORE") == "" && !cfg.NoStore {
		d, err := unnamed(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.close(); err != nil {
				t.Error(err)
			}
		})
		cfg.Store, cfg.on, cfg.Env = d.Store, d, append(slices.Clone(cfg.Env), d.Env()...)
	}
	s, err := Launch(cfg)
	if err != nil {
		t.Fatalf("starting the server: %v", err)
	}
	t.Cleanup(func() {
		s.Kill()
		if err := s.Verdict(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the server's log ends with:\n%s", tail(s.Log(), 60))
		}
	})
	return s
}

// Launch starts the binary and waits for its ready line.
func Launch(cfg Config) (*Server, error) {
	if cfg.apart() {
		return launchApart(cfg)
	}
	s := &Server{cfg: cfg}
	return s, s.start("127.0.0.1:0")
}

// Command is the binary with a configuration, not started: for runs that end by themselves.
func Command(t testing.TB, cfg Config) *exec.Cmd {
	t.Helper()
	needBinary(t)
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	return command(cfg, "127.0.0.1:0")
}

func command(cfg Config, listen string) *exec.Cmd {
	args := cfg.Args
	if len(args) == 0 {
		args = []string{"serve"}
	}
	path := cmp.Or(cfg.Binary, binary.path)
	cmd := exec.Command(path, args...)
	if cfg.MaxFiles > 0 {
		script := fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, cfg.MaxFiles)
		cmd = exec.Command("/bin/sh", append([]string{"-c", script, path}, args...)...)
	}
	cmd.Dir = cfg.Dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "IM_") && !strings.HasPrefix(kv, "IM_BUG=") // a planted bug is for a whole run of tests
	})
	cmd.Env = append(cmd.Env, "IM_LISTEN="+listen)
	if !cfg.NoStore && len(cfg.Logic) == 0 {
		cmd.Env = append(cmd.Env, "IM_STORE="+cmp.Or(cfg.Store, "sqlite:"+filepath.Join(cfg.Dir, "impart.db")))
	}
	cmd.Env = append(append(cmd.Env, cfg.Env...), cfg.apartEnv()...)
	return cmd
}

func (s *Server) start(listen string) error {
	logFile, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer logFile.Close()
	cmd := command(s.cfg, listen)
	cmd.Stderr = logFile
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	out := &output{ready: make(chan string, 1), done: make(chan struct{})}
	if err := startBound(cmd, out.done); err != nil { // standard output ends with the process
		return err
	}
	go out.read(stdout)
	select {
	case addr, ok := <-out.ready:
		if ok {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.cmd, s.out = cmd, out
			s.addr, s.cfg.hop, _ = strings.Cut(addr, " ")
			return nil
		}
		err = errors.New("the process ended")
	case <-time.After(readyWithin):
		err = fmt.Errorf("nothing for %v", readyWithin)
	}
	_ = cmd.Process.Kill()
	<-out.done
	return fmt.Errorf("no ready line: %w; exit %v; output %q; log:\n%s", err, cmd.Wait(), out.text(), tail(s.Log(), 40))
}

// output watches standard output: the first ready line, and that nothing else is printed there.
type output struct {
	ready chan string
	done  chan struct{}
	mu    sync.Mutex
	lines []string
}

var readyLine = regexp.MustCompile(`^ready http://(127\.0\.0\.1:\d+)(?: grpc://(127\.0\.0\.1:\d+))?$`)

func (o *output) read(r io.Reader) {
	defer close(o.done)
	defer close(o.ready)
	in := bufio.NewScanner(r)
	sent := false
	for in.Scan() {
		if m := readyLine.FindStringSubmatch(in.Text()); m != nil && !sent {
			sent = true
			o.ready <- strings.TrimSpace(m[1] + " " + m[2])
		}
		o.mu.Lock()
		if len(o.lines) < 1000 {
			o.lines = append(o.lines, in.Text())
		}
		o.mu.Unlock()
	}
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.lines, "\n")
}

func (s *Server) logPath() string { return filepath.Join(s.cfg.Dir, "stderr.log") }

// Addr is "127.0.0.1:port" of the process that ran last; Restart keeps it.
func (s *Server) Addr() string { s.mu.Lock(); defer s.mu.Unlock(); return s.addr }

// URL is the base of the HTTP endpoints, without a slash at its end.
func (s *Server) URL() string { return "http://" + s.Addr() }

// Log is all the processes of this server have written to standard error.
func (s *Server) Log() string {
	raw, err := os.ReadFile(s.logPath())
	if err != nil {
		return err.Error()
	}
	if s.under != nil {
		return string(raw) + s.under.Log()
	}
	return string(raw)
}

// Output is what the running process has written to standard output.
func (s *Server) Output() string { s.mu.Lock(); defer s.mu.Unlock(); return s.out.text() }

// Signal sends one signal to the process.
func (s *Server) Signal(sig syscall.Signal) error {
	if s.under != nil {
		if err := s.under.Signal(sig); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return errors.New("no process runs")
	}
	return s.cmd.Process.Signal(sig)
}

// Kill ends the process as a crash does (SIGKILL) and waits for it. Without a process it does nothing.
func (s *Server) Kill() {
	if s.under != nil {
		s.under.Kill()
	}
	s.mu.Lock()
	cmd, out := s.cmd, s.out
	s.cmd = nil
	s.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Signal(syscall.SIGCONT)
	_ = cmd.Process.Kill()
	<-out.done
	_ = cmd.Wait() // "signal: killed" is what was asked for
}

// Ended reports whether the process that was started last is gone, whoever ended it.
func (s *Server) Ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.out.done:
		return true
	default:
		return s.cmd == nil
	}
}

// Terminate sends SIGTERM and waits; it gives the exit code and how long the drain took. A process that is still there
// after `limit` is killed and reported as exit code -1.
func (s *Server) Terminate(limit time.Duration) (code int, took time.Duration) {
	return s.EndBy(syscall.SIGTERM, limit)
}

// EndBy is Terminate with another signal.
func (s *Server) EndBy(sig syscall.Signal, limit time.Duration) (code int, took time.Duration) {
	s.mu.Lock()
	cmd, out := s.cmd, s.out
	s.cmd = nil
	s.mu.Unlock()
	began := time.Now()
	_ = cmd.Process.Signal(sig)
	overdue := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
	defer overdue.Stop()
	<-out.done
	_ = cmd.Wait() // the code is read from the state
	code, took = cmd.ProcessState.ExitCode(), time.Since(began)
	if s.under != nil {
		under, _ := s.under.EndBy(sig, limit)
		code = max(code, under)
	}
	return code, took
}

// Restart starts a new process on the same data and the same address, with further settings if any.
func (s *Server) Restart(env ...string) error {
	s.cfg.Env = append(slices.Clone(s.cfg.Env), env...)
	if s.under != nil {
		if err := s.under.Restart(env...); err != nil {
			return err
		}
	}
	return s.start(s.Addr())
}

// MustRestart is Restart that ends the test when it fails.
func (s *Server) MustRestart(t testing.TB, env ...string) {
	t.Helper()
	if err := s.Restart(env...); err != nil {
		t.Fatalf("restart: %v", err)
	}
}

var wrecks = [][]byte{[]byte("panic:"), []byte("fatal error:"), []byte("WARNING: DATA RACE"), []byte("goroutine 1 [")}

// Verdict is an error when the log shows that a process has panicked or raced.
func (s *Server) Verdict() error {
	raw := []byte(s.Log())
	for _, w := range wrecks {
		if i := bytes.Index(raw, w); i >= 0 {
			return fmt.Errorf("the server's log has %q:\n%s", w, raw[max(0, i-500):min(len(raw), i+3000)])
		}
	}
	return nil
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
