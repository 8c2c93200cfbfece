//go:build !linux

package mysql

import (
	"errors"
	"syscall"
	"time"
)

// Only Linux stops another's process as the lab needs it: elsewhere a server starts
// and stops.
const (
	stopSignal     = syscall.Signal(0)
	continueSignal = syscall.Signal(0)
)

func unprivileged() (*owner, error) { return nil, nil }

func attributes(*owner) *syscall.SysProcAttr { return nil }

func send(int, syscall.Signal) error { return errors.ErrUnsupported }

func cpuTime(int) time.Duration { return 0 }

func awaitStopped(int) error { return errors.ErrUnsupported }
