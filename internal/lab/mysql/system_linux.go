package mysql

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
	"time"
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
	for _, name := range []string{"mysql", "nobody"} {
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
	return nil, errors.New("MariaDB does not run as root, and there is neither a user mysql nor nobody")
}

// attributes run a process as a user, in a process group of its own: Ctrl-C in a
// terminal is for us alone.
func attributes(as *owner) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if as != nil {
		attr.Credential = &syscall.Credential{Uid: uint32(as.uid), Gid: uint32(as.gid), Groups: []uint32{uint32(as.gid)}}
	}
	return attr
}

// send sends a signal to a process.
func send(pid int, sig syscall.Signal) error { return syscall.Kill(pid, sig) }

// cpuTime is what a process has used of the processors (proc(5)); the system counts in
// hundredths of a second.
func cpuTime(pid int) time.Duration {
	const user, last = 11, 13 // utime and stime, from the state letter on
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// "12 (a name) T 1 …"; the name may hold anything, brackets too.
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	if len(fields) < last {
		return 0
	}
	var ticks int64
	for _, word := range fields[user:last] {
		if n, err := strconv.ParseInt(string(word), 10, 64); err == nil {
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
