package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
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

// busyTime is what all processes have used of all processors since the start of
// the machine (proc(5)), in ticks of 10 ms; 0: not known.
func busyTime() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	words := strings.Fields(line)
	if len(words) < 9 || words[0] != "cpu" {
		return 0
	}
	var ticks int64
	for i, word := range words[1:9] {
		if n, err := strconv.ParseInt(word, 10, 64); err == nil && i != 3 && i != 4 { // idle and waiting for the disk
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
