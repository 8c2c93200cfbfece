package postgres

import (
	"bytes"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	stopSignal     = syscall.SIGSTOP
	continueSignal = syscall.SIGCONT
)

// unprivileged is the user for a server that root starts, nil for anybody else.
func unprivileged() (*owner, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.Atoi(found.Uid)
		if err != nil {
			continue
		}
		gid, err := strconv.Atoi(found.Gid)
		if err != nil {
			continue
		}
		return &owner{uid, gid}, nil
	}
	return nil, fmt.Errorf("PostgreSQL refuses to run as root, and there is neither a user postgres nor nobody")
}

// attributes run a process as a user, in a process group of its own: Ctrl-C in a
// terminal is for us alone. The server ends at once when we are gone.
func attributes(as *owner) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if as != nil {
		attr.Credential = &syscall.Credential{Uid: uint32(as.uid), Gid: uint32(as.gid), Groups: []uint32{uint32(as.gid)}}
	}
	return attr
}

// children are the processes that main has started. PostgreSQL's have none of their own.
func children(main int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		return nil, fmt.Errorf("the processes cannot be listed: %w", os.ErrNotExist)
	}
	var found []int
	for _, name := range stats {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			continue
		}
		if _, parent, ok := status(pid); ok && parent == main {
			found = append(found, pid)
		}
	}
	return found, nil
}

// status is a process's state letter and its parent.
func status(pid int) (letter byte, parent int, ok bool) {
	fields := stat(pid)
	if len(fields) < 2 {
		return 0, 0, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	return fields[0][0], parent, err == nil
}

// stat are the words that the system has on a process, from its state letter on
// (proc(5)); none of one that has ended.
func stat(pid int) [][]byte {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	// "12 (a name) T 1 …"; the name may hold anything, brackets too.
	return bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
}

// cpuTime is what a process has used of the processors; with ended, also what its
// children had that have ended. The system counts in hundredths of a second.
func cpuTime(pid int, ended bool) time.Duration {
	const user, last, lastEnded = 11, 13, 15 // utime, stime, cutime, cstime
	fields, end := stat(pid), last
	if ended {
		end = lastEnded
	}
	if len(fields) < end {
		return 0
	}
	var ticks int64
	for _, word := range fields[user:end] {
		if n, err := strconv.ParseInt(string(word), 10, 64); err == nil {
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

func stateOf(pid int) state {
	switch letter, _, ok := status(pid); {
	case !ok || letter == 'Z' || letter == 'X':
		return gone
	case letter == 'T':
		return stopped
	default:
		return running
	}
}

// removeSegment removes shared memory that a killed server has left.
func removeSegment(id int) {
	if id >= 0 {
		_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) // the next start on the data may have done it
	}
}

// send sends a signal to a process.
func send(pid int, sig syscall.Signal) error { return syscall.Kill(pid, sig) }
