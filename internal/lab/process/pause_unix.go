//go:build unix

package process

import (
	"os"
	"syscall"
)

// Pause stops the process (SIGSTOP): its sockets stay open and nobody answers.
// On Linux it returns when all of its threads have stopped. It ends with
// [Process.Resume]; a process that has ended gives [os.ErrProcessDone].
func (p *Process) Pause() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	p.paused = true
	return awaitStopped(p.PID())
}

// Resume lets a paused process go on (SIGCONT); one that runs is left alone.
func (p *Process) Resume() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.paused {
		return nil
	}
	p.paused = false
	return p.Signal(syscall.SIGCONT)
}

func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
