package gateway

import (
	"net"
	"syscall"
	"unsafe"
)

// waitable is a connection whose bytes can be waited for without a buffer to
// read them into; nil if it is not one, as with TLS, which may hold bytes that
// its socket no longer has.
func waitable(nc net.Conn) syscall.RawConn {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// awaitBytes blocks until there is something to read: bytes, the end, or an
// error or a deadline, which the next read finds.
func awaitBytes(socket syscall.RawConn) {
	_ = socket.Read(func(fd uintptr) bool {
		// The system call is made by hand: the ready-made ones need more stack than
		// an idle connection is to have.
		var one byte
		for {
			_, _, errno := syscall.Syscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&one)), 1,
				syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
			if errno != syscall.EINTR {
				return errno != syscall.EAGAIN
			}
		}
	})
}
