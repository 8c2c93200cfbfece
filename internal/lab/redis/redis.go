// Package redis runs private Redis servers for tests and for the lab: one alone,
// one with a replica under three Sentinels, or a Cluster of three with replicas. It
// kills, pauses and wipes them. On Linux no server outlives the process that started
// it, however that ends; no server that happens to run is touched.
//
// Nothing is written to disk: a server that was killed starts empty, which is the
// worst that may happen to one in production.
package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/impart-im/impart/internal/lab/process"
)

// ErrNotFound says that this machine has no Redis server.
var ErrNotFound = errors.New("no Redis server here (redis-server, redis-cli): on Debian and Ubuntu scripts/find-redis.sh installs it, " +
	"without a service that runs; go test -short runs what needs none")

// Options say how a server is made. The zero value is a server without a password.
type Options struct {
	// Settings are lines of redis.conf beyond the usual ones, as {"maxmemory", "8mb"}.
	Settings [][2]string
	// Password is asked of every client; "" is none.
	Password string
	// TLS opens a second port for it, if it is set.
	TLS TLS

	sentinel string // the configuration of a Sentinel; "": a server
}

// TLS names the PEM files of a server's second port. Clients must show a certificate
// of CA.
type TLS struct{ CA, Cert, Key string }

// Server is one Redis process. Its methods may be called by several goroutines.
type Server struct {
	dir      string
	port     int
	tlsPort  int // 0: none
	password string
	sentinel bool

	mu     sync.Mutex // guards what follows
	cmd    *exec.Cmd
	done   chan struct{} // closed when it has ended
	paused bool
	closed bool
}

// Start starts a server and waits until it answers. The caller closes it.
func Start(ctx context.Context, o Options) (*Server, error) {
	s, err := prepare(o)
	if err != nil {
		return nil, err
	}
	if err := s.Start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// prepare makes the folder of a server that is not started.
func prepare(o Options) (*Server, error) {
	for _, name := range []string{"redis-server", "redis-cli"} {
		if _, err := exec.LookPath(name); err != nil {
			return nil, ErrNotFound
		}
	}
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "impart-redis-")
	if err != nil {
		return nil, fmt.Errorf("a folder for Redis: %w", err)
	}
	s := &Server{dir: dir, port: ports[0], password: o.Password, sentinel: o.sentinel != ""}
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nprotected-mode no\n", s.port, dir)
	if s.sentinel {
		text += o.sentinel
	} else {
		// A cluster's bus is at port + 10000 by default, which may be none.
		text += fmt.Sprintf("save \"\"\nappendonly no\ncluster-port %d\nrepl-diskless-sync-delay 0\n", ports[1])
	}
	if o.Password != "" {
		text += "requirepass " + o.Password + "\nmasterauth " + o.Password + "\n"
	}
	if o.TLS != (TLS{}) {
		s.tlsPort = ports[2]
		text += fmt.Sprintf("tls-port %d\ntls-ca-cert-file %s\ntls-cert-file %s\ntls-key-file %s\n", s.tlsPort, o.TLS.CA, o.TLS.Cert, o.TLS.Key)
	}
	for _, line := range o.Settings {
		text += line[0] + " " + line[1] + "\n"
	}
	if err := os.WriteFile(s.config(), []byte(text), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("the configuration of Redis: %w", err), os.RemoveAll(dir))
	}
	return s, nil
}

func (s *Server) config() string { return filepath.Join(s.dir, "redis.conf") }

// Port is its port on 127.0.0.1, the same over restarts.
func (s *Server) Port() int { return s.port }

// Addr is where it listens, as "127.0.0.1:20123".
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL is the server's address as a setting has it, with its password.
func (s *Server) URL() string { return s.URLAt(s.Addr()) }

// peerPort is the port that other servers use, and peerAddr is where that is: by TLS, if
// the server has it.
func (s *Server) peerPort() int {
	if s.tlsPort != 0 {
		return s.tlsPort
	}
	return s.port
}

func (s *Server) peerAddr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.peerPort())) }

// TLSURL is the address of the port with TLS; parameters, as "tls_ca=FILE", say how.
func (s *Server) TLSURL(parameters string) string {
	plain := s.URLAt(s.peerAddr())
	return "rediss" + strings.TrimPrefix(plain, "redis") + "?" + parameters
}

// URLAt is URL through another address, as of a proxy in front of the server.
func (s *Server) URLAt(addr string) string { return address(addr, s.password) }

func address(addr, password string) string {
	if password == "" {
		return "redis://" + addr
	}
	return "redis://:" + password + "@" + addr
}

// Start starts a server that was killed, empty and on the same port, and waits until
// it answers. One that runs is left alone.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("the server is closed")
	}
	if s.running() {
		return nil
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "redis.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("the log of Redis: %w", err)
	}
	defer log.Close()
	args := []string{s.config()}
	if s.sentinel {
		args = append(args, "--sentinel")
	}
	s.cmd, s.done, s.paused = exec.Command("redis-server", args...), make(chan struct{}), false
	s.cmd.Dir, s.cmd.Env = s.dir, []string{}
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := process.StartBound(s.cmd, s.done); err != nil {
		return fmt.Errorf("starting Redis: %w", err)
	}
	if err := s.awaitReady(ctx); err != nil {
		s.kill()
		return fmt.Errorf("a Redis server in %s: %w; its log:\n%s", s.dir, err, s.Log())
	}
	return nil
}

// readyWithin bounds a start.
const readyWithin = 30 * time.Second

func (s *Server) awaitReady(ctx context.Context) error {
	return await(ctx, readyWithin, "it does not answer", func(ctx context.Context) (bool, error) {
		select {
		case <-s.done:
			return false, errors.New("it ended before it was ready")
		default:
		}
		conn, err := net.DialTimeout("tcp", s.Addr(), time.Second)
		if err != nil {
			return false, nil
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(conn, "PING\r\n")
		var answer [7]byte
		n, _ := io.ReadFull(conn, answer[:])
		got := string(answer[:n])
		return strings.HasPrefix(got, "+PONG") || strings.HasPrefix(got, "-NOAUTH"), nil
	})
}

// await asks until is says yes or fails, or time is up.
func await(ctx context.Context, within time.Duration, otherwise string, is func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("%s within %v", otherwise, within))
	defer cancel()
	every := time.NewTicker(20 * time.Millisecond)
	defer every.Stop()
	for {
		if ok, err := is(ctx); ok || err != nil {
			return err
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// running reports whether the process is there, under mu.
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

// Log is what the server has written so far.
func (s *Server) Log() string {
	raw, err := os.ReadFile(filepath.Join(s.dir, "redis.log"))
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// Kill ends the server as a crash does (SIGKILL), paused or not.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
}

func (s *Server) kill() {
	if s.running() {
		_ = s.cmd.Process.Kill() // an error says that it has ended
		<-s.done
	}
}

// Pause stops the server (SIGSTOP): its sockets stay open and nobody answers.
func (s *Server) Pause() error { return s.signal(true) }

// Resume lets a paused server go on.
func (s *Server) Resume() error { return s.signal(false) }

func (s *Server) signal(pause bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() || s.paused == pause {
		return nil
	}
	s.paused = pause
	if pause {
		return s.cmd.Process.Signal(stopSignal)
	}
	return s.cmd.Process.Signal(continueSignal)
}

// Wipe removes all that the server holds (FLUSHALL).
func (s *Server) Wipe(ctx context.Context) error {
	_, err := s.Do(ctx, "FLUSHALL")
	return err
}

// Do runs a command through redis-cli, as an operator would, and gives what it prints.
// In a cluster it follows redirections.
func (s *Server) Do(ctx context.Context, args ...string) (string, error) {
	all := append([]string{"-c", "-h", "127.0.0.1", "-p", strconv.Itoa(s.port)}, args...)
	cmd := exec.CommandContext(ctx, "redis-cli", all...)
	cmd.Env = []string{"REDISCLI_AUTH=" + s.password}
	if s.password == "" {
		cmd.Env = []string{}
	}
	out, err := cmd.Output()
	text := strings.TrimRight(string(out), "\n")
	if err == nil && (strings.HasPrefix(text, "ERR ") || strings.HasPrefix(text, "(error)") || strings.HasPrefix(text, "NOAUTH")) {
		err = errors.New(text)
	}
	if err != nil {
		return text, fmt.Errorf("redis-cli %s: %w", strings.Join(args, " "), err)
	}
	return text, nil
}

// Close ends the server and removes its folder. It may be called again.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.kill()
	return os.RemoveAll(s.dir)
}

// freePorts are ports that nobody listens on, below those that the system gives out
// by itself.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range 1000 {
		port := 20_000 + rand.IntN(12_000)
		ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil || slices.Contains(ports, port) {
			if err == nil {
				_ = ln.Close()
			}
			continue
		}
		if err := ln.Close(); err != nil {
			return nil, err
		}
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, errors.New("no free port for Redis")
}
