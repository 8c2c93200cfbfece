package bench

import (
	"fmt"
	"strconv"
	"syscall"
	"time"
)

// ownGroup keeps signals of the terminal from the process, and ends it when the
// bench is killed.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// descriptors is how many files and sockets this process may open; Go itself has
// raised the soft limit to the hard one. 0: not known.
func descriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(limit.Cur, 1<<30))
}

// cpuTime is what this process has used of the processors.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// bytesWritten is what a process has caused to be written to the disk; 0: not known.
func bytesWritten(pid int) int64 {
	n, err := strconv.ParseInt(field(fmt.Sprintf("/proc/%d/io", pid), "write_bytes"), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
