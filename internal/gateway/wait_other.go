//go:build !linux

package gateway

import (
	"net"
	"syscall"
)

// waitable is never: on this system a connection waits in its read.
func waitable(net.Conn) syscall.RawConn { return nil }

func awaitBytes(syscall.RawConn) {}
