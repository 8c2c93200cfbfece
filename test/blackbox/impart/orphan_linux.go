package impart

import (
	"os/exec"
	"runtime"
	"syscall"
)

// startBound starts cmd so that the kernel kills it when the tests die, however they die: a test run that is itself
// killed leaves no server behind. The kernel ties that to the thread which started the process, so one thread is held
// until over is closed, which is when the process has ended.
func startBound(cmd *exec.Cmd, over <-chan struct{}) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			<-over
		}
	}()
	return <-started
}
