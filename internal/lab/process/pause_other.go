//go:build !unix

package process

import (
	"errors"
	"os"
)

// Pause is an error: this system has no SIGSTOP.
func (p *Process) Pause() error { return errors.ErrUnsupported }

// Resume does nothing, since nothing is paused.
func (p *Process) Resume() error { return nil }

func exitCode(state *os.ProcessState) int { return state.ExitCode() }
