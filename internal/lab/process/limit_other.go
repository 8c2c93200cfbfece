//go:build !linux

package process

import "errors"

// LimitFiles is an error: only Linux changes the limits of another process.
func (p *Process) LimitFiles(uint64) error { return errors.ErrUnsupported }

// OpenFiles is an error: only Linux tells.
func (p *Process) OpenFiles() (int, error) { return 0, errors.ErrUnsupported }

// awaitStopped does not wait: the stop follows the signal soon.
func awaitStopped(int) error { return nil }
