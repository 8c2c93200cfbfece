//go:build !linux

package impart

import "os/exec"

// startBound starts cmd. Only Linux can tie its life to that of the tests.
func startBound(cmd *exec.Cmd, _ <-chan struct{}) error { return cmd.Start() }
