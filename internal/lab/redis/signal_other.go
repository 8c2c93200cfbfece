//go:build !unix

package redis

import "syscall"

// This system has no SIGSTOP; sending these is an error.
const (
	stopSignal     = syscall.Signal(19)
	continueSignal = syscall.Signal(18)
)
