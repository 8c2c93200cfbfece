//go:build !linux

package bench

import "syscall"

// ownGroup is known on Linux only: elsewhere a Ctrl-C reaches the server too,
// which then drains while the bench ends.
func ownGroup() *syscall.SysProcAttr { return nil }
