package mysql

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
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
	fields := stat(fmt.Sprintf("/proc/%d/stat", pid))
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

// stat are the words that the system has on a process or a thread, from its state
// letter on; none of one that has ended.
func stat(name string) [][]byte {
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	// "12 (a name) T 1 …"; the name may hold anything, brackets too.
	return bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
}

// stopWithin bounds the wait for a process to stop.
const stopWithin = 10 * time.Second

// awaitStopped waits until every thread of a process has stopped.
func awaitStopped(pid int) error {
	for late := time.Now().Add(stopWithin); ; time.Sleep(time.Millisecond) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*/stat", pid))
		if err != nil || len(threads) == 0 {
			return fmt.Errorf("pausing MariaDB: its threads cannot be listed: %w", os.ErrProcessDone)
		}
		going := 0
		for _, name := range threads {
			if fields := stat(name); len(fields) > 0 && fields[0][0] != 'T' {
				going++
			}
		}
		if going == 0 {
			return nil
		}
		if time.Now().After(late) {
			return fmt.Errorf("%d threads of MariaDB have not stopped within %v", going, stopWithin)
		}
	}
}
