package process

import (
	"os/exec"
	"runtime"
	"syscall"
)

// startBound starts cmd in a process group of its own, so that Ctrl-C in a
// terminal reaches the lab alone, and lets the kernel kill it when the lab dies.
// The kernel ties that to the thread that started the process: one thread is held
// until the process has been waited for, which closes done.
func startBound(cmd *exec.Cmd, done chan<- struct{}) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait() // how it ended is in ProcessState
		close(done)
	}()
	return <-started
}
