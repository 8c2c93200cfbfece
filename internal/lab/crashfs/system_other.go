//go:build !linux

package crashfs

import (
	"errors"
	"io"
	"runtime"
)

// Available is an error that says why no disk can be mounted here.
func Available() error {
	return errors.New("a disk that loses power needs Linux; this is " + runtime.GOOS)
}

// Daemon is the process of a disk; here it ends at once.
func Daemon(_ []string, _ io.Reader, _ io.Writer) int { return 1 }

func unmount(string) error { return nil }

func clearStale() {}
