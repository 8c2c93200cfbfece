package process

import (
	"os/exec"
	"runtime"
	"syscall"
)

// StartBound starts cmd in a process group of its own, so that Ctrl-C in a
// terminal reaches the lab alone, and lets the kernel kill it when the lab dies.
// The other attributes of cmd stay, as the user that it runs as.
// The kernel ties that to the thread that started the process: one thread is held
// until the process has been waited for, which closes done.
func StartBound(cmd *exec.Cmd, done chan<- struct{}) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
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
