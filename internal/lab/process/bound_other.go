//go:build !linux

package process

import "os/exec"

// StartBound starts cmd; done is closed when it has been waited for.
func StartBound(cmd *exec.Cmd, done chan<- struct{}) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = cmd.Wait() // how it ended is in ProcessState
		close(done)
	}()
	return nil
}
