//go:build !linux

package bench

import (
	"syscall"
	"time"
)

// ownGroup is known on Linux only: elsewhere a Ctrl-C reaches the server too,
// which then drains while the bench ends.
func ownGroup() *syscall.SysProcAttr { return nil }

// descriptors is 0: not known.
func descriptors() int { return 0 }

// cpuTime is 0: not known.
func cpuTime() time.Duration { return 0 }

// bytesWritten is 0: not known.
func bytesWritten(int) int64 { return 0 }

// busyTime is 0: not known.
func busyTime() time.Duration { return 0 }
