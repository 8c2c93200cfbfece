//go:build !linux

package postgres

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// Only Linux tells and stops another's processes as the lab needs it: elsewhere a
// server starts and stops, and a kill is one of its main process.
const (
	stopSignal     = syscall.Signal(0)
	continueSignal = syscall.Signal(0)
)

func unprivileged() (*owner, error) { return nil, nil }

func attributes(*owner) *syscall.SysProcAttr { return nil }

func children(int) ([]int, error) { return nil, errors.ErrUnsupported }

func stateOf(int) state { return gone }

func cpuTime(int, bool) time.Duration { return 0 }

func removeSegment(int) {}

func send(pid int, sig syscall.Signal) error {
	p, err := os.FindProcess(pid)
	if err != nil || sig == 0 {
		return errors.Join(err, errors.ErrUnsupported)
	}
	return p.Signal(sig)
}
