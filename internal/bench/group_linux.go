package bench

import "syscall"

// ownGroup keeps signals of the terminal from the process, and ends it when the
// bench is killed.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
