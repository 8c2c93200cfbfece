// Package postgres runs private PostgreSQL servers for tests and for the lab: each
// in a folder of its own, on a free port of 127.0.0.1 and a socket in the folder.
// It stops, crashes, freezes and promotes them. A server never outlives the process
// that started it, however that ends, and no server that happens to run is touched.
//
// A server keeps its word as PostgreSQL's defaults do (fsync, full_page_writes,
// synchronous_commit) unless Settings say otherwise.
package postgres

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
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

// Role is the role of [Server.DSN]: it can log in and owns its databases, and may
// do nothing else.
const Role = "impart"

// admin is the superuser of every server.
const admin = "postgres"

// Options say how a server is made. The zero value is a server for small tests.
type Options struct {
	// Dir is where the server lives. It must be empty or not there yet, and stays
	// when the server is closed. "" is a folder under [os.TempDir] that goes with
	// the server.
	Dir string
	// Settings are lines of postgresql.conf beyond the usual ones, as
	// "synchronous_commit": "off".
	Settings map[string]string
	// Bin is the folder of PostgreSQL's programs; "" is what [FindBinaries] finds.
	Bin string
	// Synced writes a new cluster through to the disk, for a disk that loses what was
	// not: that takes a second more.
	Synced bool
	// Log is the file to which the server's log is appended; "" is one in its folder.
	Log string
	// ReadyWithin bounds each start, recovery after a crash included; 0 means 60 seconds.
	ReadyWithin time.Duration
}

// Mode is how a server stops.
type Mode syscall.Signal

// The modes of pg_ctl stop.
const (
	Smart     = Mode(syscall.SIGTERM) // waits until every client has left
	Fast      = Mode(syscall.SIGINT)  // ends every session and writes a checkpoint
	Immediate = Mode(syscall.SIGQUIT) // ends without one: the next start recovers
)

// Server is one PostgreSQL server. Its methods may be called by several goroutines.
type Server struct {
	bin, dir string
	own      bool // the folder goes with the server
	log      string
	runAs    *owner // nil: as ourselves
	port     int
	secrets  secrets
	within   time.Duration
	guard    *guard

	mu       sync.Mutex // guards what follows
	settings map[string]string
	cmd      *exec.Cmd     // of the last start
	done     chan struct{} // closed when it has ended
	paused   []int         // the processes that are stopped
	segment  int           // shared memory that a kill left behind; -1: none
	closed   bool
}

// secrets are the passwords of a server's roles. A standby has its primary's.
type secrets struct{ admin, role string }

// Start makes a server and waits until it answers. The caller closes it.
func Start(ctx context.Context, o Options) (*Server, error) {
	s, err := newServer(o)
	if err != nil {
		return nil, err
	}
	s.secrets = secrets{admin: random(), role: random()}
	if err = s.initialize(ctx, o.Synced); err == nil {
		err = s.Start(ctx)
	}
	if err == nil {
		err = s.Exec(ctx, admin, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", Role, s.secrets.role))
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// newServer prepares the folder and the port of a server without data.
func newServer(o Options) (*Server, error) {
	bin := o.Bin
	if bin == "" {
		found, err := FindBinaries()
		if err != nil {
			return nil, err
		}
		bin = found
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, dir: o.Dir, own: o.Dir == "", log: o.Log, port: port, within: o.ReadyWithin, settings: map[string]string{}, segment: -1}
	for name, value := range o.Settings {
		s.settings[name] = value
	}
	if s.within == 0 {
		s.within = time.Minute
	}
	if s.runAs, err = unprivileged(); err != nil {
		return nil, err
	}
	if err := s.makeFolder(); err != nil {
		return nil, err
	}
	if s.guard, err = newGuard(s.data(), s.dir, s.own); err != nil {
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

// DSNAt is DSN through another address, as of a proxy in front of the server.
func (s *Server) DSNAt(addr, db string) string { return dsn(Role, s.secrets.role, addr, db) }

// AdminDSN is the address of a database as superuser.
func (s *Server) AdminDSN(db string) string { return dsn(admin, s.secrets.admin, s.Addr(), db) }

func dsn(role, password, addr, db string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(role, password), Host: addr, Path: "/" + db, RawQuery: "sslmode=disable"}
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
		return fmt.Errorf("the log of PostgreSQL: %w", err)
	}
	defer log.Close()
	s.forgetLock()
	s.cmd, s.done = s.command("postgres", "-D", s.data()), make(chan struct{})
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := process.StartBound(s.cmd, s.done); err != nil {
		return fmt.Errorf("starting PostgreSQL: %w", err)
	}
	if err := s.awaitReady(ctx); err != nil {
		s.kill()
		return fmt.Errorf("PostgreSQL in %s: %w; its log ends with:\n%s", s.dir, err, tail(s.Log(), 20))
	}
	// It is known from now on, also when the disk is gone by the time of a kill.
	if segment := s.sharedMemory(); segment != s.segment {
		removeSegment(s.segment)
		s.segment = segment
	}
	return nil
}

// forgetLock removes a lock file that a power cut has emptied: such a one stops
// every start. Nobody else has the folder.
func (s *Server) forgetLock() {
	name := filepath.Join(s.data(), "postmaster.pid")
	if info, err := os.Stat(name); err == nil && info.Size() == 0 {
		_ = os.Remove(name) // if it stays, the start says so
	}
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

// CPU is what the server's processes have used of the processors since its last
// start; 0 where that is not known. To be read while it runs.
func (s *Server) CPU() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return 0
	}
	main := s.cmd.Process.Pid
	used := cpuTime(main, true)
	rest, err := children(main)
	if err != nil {
		return 0
	}
	for _, pid := range rest {
		used += cpuTime(pid, false)
	}
	return used
}

// readyEvery is how often a starting server is asked.
const readyEvery = 20 * time.Millisecond

func (s *Server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.within, fmt.Errorf("no answer within %v", s.within))
	defer cancel()
	every := time.NewTicker(readyEvery)
	defer every.Stop()
	for {
		err := s.Exec(ctx, admin, "SELECT 1")
		if err == nil {
			return nil
		}
		select {
		case <-every.C:
		case <-s.done:
			return errors.New("it ended before it was ready")
		case <-ctx.Done():
			return fmt.Errorf("%w; last: %w", context.Cause(ctx), err)
		}
	}
}

// Stop stops the server and waits for its end. A paused one goes on first. When
// ctx ends before the server does, it is killed and ctx's cause comes back.
func (s *Server) Stop(ctx context.Context, mode Mode) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return nil
	}
	err := s.resume()
	if err == nil {
		err = s.cmd.Process.Signal(syscall.Signal(mode))
	}
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.kill()
		return fmt.Errorf("stopping PostgreSQL: %w", err)
	}
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		s.kill()
		return fmt.Errorf("PostgreSQL did not stop and was killed: %w", context.Cause(ctx))
	}
}

// Restart stops the server as mode says and starts it again.
func (s *Server) Restart(ctx context.Context, mode Mode) error {
	if err := s.Stop(ctx, mode); err != nil {
		return err
	}
	return s.Start(ctx)
}

// closeWithin bounds the end of a server that is closed.
const closeWithin = 20 * time.Second

// Close ends the server, and removes its folder unless Options named it. It may be
// called again.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	mode := Fast
	if s.own {
		mode = Immediate // nobody reads the data again
	}
	err := s.Stop(ctx, mode)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	removeSegment(s.segment)
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
