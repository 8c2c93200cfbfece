package postgres

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// errNotRunning is the answer to a fault for a server that is down.
var errNotRunning = errors.New("PostgreSQL does not run")

// Kill ends all processes of the server at once (SIGKILL), paused or not, and waits
// for them: what a crash of the database leaves behind. The page cache survives it,
// so it says nothing about a power cut.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return errNotRunning
	}
	return s.kill()
}

// kill is Kill, under mu; it does nothing when the server does not run.
func (s *Server) kill() error {
	if !s.running() {
		return nil
	}
	s.segment = s.sharedMemory()
	main := s.cmd.Process.Pid
	// The main process is stopped first: it neither starts others nor ends them in order.
	_ = send(main, stopSignal)
	rest, err := children(main)
	for _, pid := range append(rest, main) {
		_ = send(pid, syscall.SIGKILL) // one that is gone is what is wanted
	}
	<-s.done
	s.paused = nil
	s.guard.note(nil)
	return errors.Join(err, awaitState(rest, gone))
}

// Pause stops every process of the server (SIGSTOP): its sockets stay open and
// nobody answers, as on a machine that is frozen. It ends with [Server.Resume]. New
// connections are taken by the kernel, and hang.
func (s *Server) Pause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return errNotRunning
	}
	if s.paused != nil {
		return nil
	}
	main := s.cmd.Process.Pid
	if err := send(main, stopSignal); err != nil {
		return fmt.Errorf("pausing PostgreSQL: %w", err)
	}
	s.paused = []int{main}
	rest, err := children(main)
	for _, pid := range rest {
		if send(pid, stopSignal) == nil {
			s.paused = append(s.paused, pid)
		}
	}
	s.guard.note(s.paused)
	if err == nil {
		err = awaitState(s.paused, stopped)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("pausing PostgreSQL: %w", err), s.resume())
	}
	return nil
}

// Resume lets a paused server go on (SIGCONT); one that runs is left alone.
func (s *Server) Resume() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resume()
}

func (s *Server) resume() error {
	var errs []error
	for _, pid := range s.paused {
		if err := send(pid, continueSignal); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, fmt.Errorf("resuming PostgreSQL: %w", err))
		}
	}
	s.paused = nil
	s.guard.note(nil)
	return errors.Join(errs...)
}

// stateWithin bounds the wait for signals to take effect.
const stateWithin = 10 * time.Second

// awaitState waits until every process is in a state, or gone.
func awaitState(pids []int, want state) error {
	for late := time.Now().Add(stateWithin); ; time.Sleep(time.Millisecond) {
		pending := 0
		for _, pid := range pids {
			if is := stateOf(pid); is != want && is != gone {
				pending++
			}
		}
		if pending == 0 {
			return nil
		}
		if time.Now().After(late) {
			return fmt.Errorf("%d processes have not followed a signal within %v", pending, stateWithin)
		}
	}
}

// state is what a process does.
type state int

const (
	running state = iota
	stopped
	gone
)

// sharedMemory is the System V segment of the running server, by which it keeps a
// second one off its data; a kill leaves it behind, for the next start to remove.
// -1: not known.
func (s *Server) sharedMemory() int {
	raw, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	lines := strings.Split(string(raw), "\n")
	const line = 6 // "key id"
	if err != nil || len(lines) <= line {
		return -1
	}
	fields := strings.Fields(lines[line])
	if len(fields) != 2 {
		return -1
	}
	id, err := strconv.Atoi(fields[1])
	if err != nil {
		return -1
	}
	return id
}
