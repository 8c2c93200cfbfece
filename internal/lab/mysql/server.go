// Package mysql runs private MariaDB servers for tests and for the lab: each in a
// folder of its own, on a free port of 127.0.0.1. It stops, crashes and freezes
// them. A server never outlives the process that started it, however that ends, and
// no server that happens to run is touched.
//
// A server keeps its word (innodb_flush_log_at_trx_commit, sync_binlog,
// innodb_doublewrite) unless Settings say otherwise.
package mysql

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/impart-im/impart/internal/lab/process"
)

// Role is the user of [Server.DSN]: it has all rights in the databases that are
// made for it, and may do nothing else.
const Role = "impart"

// admin is the superuser of every server.
const admin = "lab"

// Options say how a server is made. The zero value is a server for small tests.
type Options struct {
	// Dir is where the server lives. It must be empty or not there yet, and stays
	// when the server is closed. "" is a folder under [os.TempDir] that goes with
	// the server.
	Dir string
	// Settings are the server's settings beyond the usual ones, as "sync_binlog": "0".
	Settings map[string]string
	// Log is the file to which the server's log is appended; "" is one in its folder.
	Log string
	// ReadyWithin bounds each start, recovery after a crash included; 0 means 60 seconds.
	ReadyWithin time.Duration

	cluster *cluster // of which it is a member
}

// Server is one MariaDB server. Its methods may be called by several goroutines.
type Server struct {
	programs Programs
	dir      string
	own      bool // the folder goes with the server
	log      string
	runAs    *owner // nil: as ourselves
	port     int
	secrets  secrets
	within   time.Duration
	guard    *guard
	cluster  *cluster // nil: it is alone

	mu       sync.Mutex // guards what follows
	settings map[string]string
	cmd      *exec.Cmd     // of the last start
	done     chan struct{} // closed when it has ended
	paused   bool
	closed   bool
}

// secrets are the passwords of a server's users.
type secrets struct{ admin, role string }

// Start makes a server and waits until it answers. The caller closes it.
func Start(ctx context.Context, o Options) (*Server, error) {
	s, err := newServer(o)
	if err != nil {
		return nil, err
	}
	if err = s.initialize(ctx); err == nil {
		err = s.Start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// newServer prepares the folder and the port of a server without data.
func newServer(o Options) (*Server, error) {
	programs, err := FindPrograms()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &Server{
		programs: programs, dir: o.Dir, own: o.Dir == "", log: o.Log, port: port, within: o.ReadyWithin,
		settings: map[string]string{}, secrets: secrets{admin: random(), role: random()}, cluster: o.cluster,
	}
	maps.Copy(s.settings, o.Settings)
	if s.within == 0 {
		s.within = time.Minute
	}
	if s.runAs, err = unprivileged(); err != nil {
		return nil, err
	}
	if err := s.makeFolder(); err != nil {
		return nil, err
	}
	if s.guard, err = newGuard(s.dir, s.own); err != nil {
		if s.own {
			err = errors.Join(err, os.RemoveAll(s.dir))
		}
		return nil, err
	}
	return s, nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Dir is the server's folder.
func (s *Server) Dir() string { return s.dir }

// Port is its port on 127.0.0.1, the same over restarts.
func (s *Server) Port() int { return s.port }

// Addr is where it listens, as "127.0.0.1:20123".
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// DSN is the address of a database for the product: as [Role], which has no
// special rights, over TCP.
func (s *Server) DSN(db string) string { return s.DSNAt(s.Addr(), db) }

// DSNAt is DSN through another address, as of a proxy in front of the server, or
// through several, apart by commas.
func (s *Server) DSNAt(addr, db string) string {
	u := url.URL{Scheme: "mysql", User: url.UserPassword(Role, s.secrets.role), Host: addr, Path: "/" + db}
	return u.String()
}

// Log is what the server has logged since it was made.
func (s *Server) Log() string {
	raw, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func (s *Server) logFile() string {
	if s.log != "" {
		return s.log
	}
	return filepath.Join(s.dir, "server.log")
}

// Start starts a server that was stopped or killed, on the same data and port, and
// waits until it answers. One that runs is left alone.
func (s *Server) Start(ctx context.Context) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	if err := s.awaitReady(ctx); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.kill()
		return fmt.Errorf("MariaDB in %s: %w; its log ends with:\n%s", s.dir, err, tail(s.Log(), 20))
	}
	return nil
}

// begin starts the server's process and does not wait for it. An error is also one
// of finding out what a member of a cluster has to start with.
func (s *Server) begin(ctx context.Context, more ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("the server is closed")
	}
	if s.running() {
		return nil
	}
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("the log of MariaDB: %w", err)
	}
	defer log.Close()
	if s.cluster != nil {
		place, err := s.recoveredPlace(ctx)
		if err != nil {
			return err
		}
		more = append(more, place...)
	}
	s.cmd, s.done = s.command(append([]string{"--defaults-file=" + s.settingsFile()}, more...)...), make(chan struct{})
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := process.StartBound(s.cmd, s.done); err != nil {
		return fmt.Errorf("starting MariaDB: %w", err)
	}
	s.paused = false
	return nil
}

// running reports whether the server's process is there, under mu.
func (s *Server) running() bool {
	if s.done == nil {
		return false
	}
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// Running reports whether the server's process is there; a paused one is.
func (s *Server) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running()
}

// CPU is what the server's process has used of the processors since its last start; 0
// where that is not known.
func (s *Server) CPU() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return 0
	}
	return cpuTime(s.cmd.Process.Pid)
}

// readyEvery is how often a starting server is asked.
const readyEvery = 20 * time.Millisecond

func (s *Server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.within, fmt.Errorf("no answer within %v", s.within))
	defer cancel()
	s.mu.Lock()
	done := s.done
	s.mu.Unlock()
	every := time.NewTicker(readyEvery)
	defer every.Stop()
	for {
		err := s.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-every.C:
		case <-done:
			return errors.New("it ended before it was ready")
		case <-ctx.Done():
			return fmt.Errorf("%w; last: %w", context.Cause(ctx), err)
		}
	}
}

// ready is nil once the server answers, and as a member of a cluster takes part in it.
func (s *Server) ready(ctx context.Context) error {
	if s.cluster == nil {
		return s.Exec(ctx, "", "SELECT 1")
	}
	state, err := Ask[string](ctx, s, "", "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'WSREP_READY'")
	if err == nil && state != "ON" {
		err = fmt.Errorf("wsrep_ready is %s", state)
	}
	return err
}

// Stop stops the server in good order and waits for its end. A paused one goes on
// first. When ctx ends before the server does, it is killed and ctx's cause comes
// back.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return nil
	}
	err := s.resume()
	if err == nil {
		err = s.cmd.Process.Signal(syscall.SIGTERM)
	}
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.kill()
		return fmt.Errorf("stopping MariaDB: %w", err)
	}
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		s.kill()
		return fmt.Errorf("MariaDB did not stop and was killed: %w", context.Cause(ctx))
	}
}

// errNotRunning is the answer to a fault for a server that is down.
var errNotRunning = errors.New("MariaDB does not run")

// Kill ends the server at once (SIGKILL), paused or not, and waits for its end: what
// a crash of the database leaves behind. The page cache survives it, so it says
// nothing about a power cut.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return errNotRunning
	}
	s.kill()
	return nil
}

// kill is Kill, under mu; it does nothing when the server does not run.
func (s *Server) kill() {
	if s.running() {
		_ = s.cmd.Process.Kill() // one that is gone is what is wanted
		<-s.done
		s.paused = false
	}
}

// Pause stops the server's process (SIGSTOP): its sockets stay open and nobody
// answers, as on a machine that is frozen. It ends with [Server.Resume].
func (s *Server) Pause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return errNotRunning
	}
	if err := send(s.cmd.Process.Pid, stopSignal); err != nil {
		return fmt.Errorf("pausing MariaDB: %w", err)
	}
	s.paused = true
	return awaitStopped(s.cmd.Process.Pid)
}

// Resume lets a paused server go on (SIGCONT); one that runs is left alone.
func (s *Server) Resume() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resume()
}

func (s *Server) resume() error {
	if !s.paused || !s.running() {
		return nil
	}
	s.paused = false
	if err := send(s.cmd.Process.Pid, continueSignal); err != nil {
		return fmt.Errorf("resuming MariaDB: %w", err)
	}
	return nil
}

// Restart stops the server in good order and starts it again.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Stop(ctx); err != nil {
		return err
	}
	return s.Start(ctx)
}

// closeWithin bounds the end of a server that is closed.
const closeWithin = 20 * time.Second

// Close ends the server, and removes its folder unless Options named it. It may be
// called again.
func (s *Server) Close() error {
	var err error
	if !s.own {
		ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
		defer cancel()
		err = s.Stop(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.kill() // nobody reads the data again
	s.closed = true
	if s.own {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	s.guard.dismiss()
	return err
}

func random() string {
	var raw [12]byte
	_, _ = rand.Read(raw[:]) // never fails
	return hex.EncodeToString(raw[:])
}
