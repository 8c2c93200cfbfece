//go:build unix

package crashfs

import "syscall"

// apart puts a process into a group of its own: Ctrl-C in a terminal is for the
// lab, which then closes its disks.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
