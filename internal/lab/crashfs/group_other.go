//go:build !unix

package crashfs

import "syscall"

func apart() *syscall.SysProcAttr { return nil }
