package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
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
	if segment := s.sharedMemory(); segment >= 0 {
		s.segment = segment
	}
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

// Copy makes a cold copy of the running server's data, for which it stops it for a
// moment. restore puts the copy in place of the data, as often as it is called: what
// was committed since the copy is gone, as with any backup. The copy goes with the
// server's folder.
func (s *Server) Copy(ctx context.Context) (restore func(context.Context) error, err error) {
	copied := filepath.Join(s.dir, fmt.Sprintf("copy-%d", time.Now().UnixNano()))
	if err := s.exchange(ctx, func() error { return s.copyTree(ctx, s.data(), copied) }); err != nil {
		return nil, fmt.Errorf("copying PostgreSQL's data: %w", err)
	}
	return func(ctx context.Context) error {
		err := s.exchange(ctx, func() error {
			if err := os.RemoveAll(s.data()); err != nil {
				return err
			}
			return s.copyTree(ctx, copied, s.data())
		})
		if err != nil {
			return fmt.Errorf("putting PostgreSQL's data back: %w", err)
		}
		return nil
	}, nil
}

// exchange does something with the data while the server is down.
func (s *Server) exchange(ctx context.Context, do func() error) error {
	if err := s.Stop(ctx, Fast); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return s.Start(ctx)
}

// copyTree copies a folder with what belongs to whom.
func (s *Server) copyTree(ctx context.Context, from, to string) error {
	out, err := exec.CommandContext(ctx, "cp", "-a", from, to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, tail(string(out), 3))
	}
	return nil
}
