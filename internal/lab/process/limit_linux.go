package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// LimitFiles sets the limit of open files of the running process. What is open
// stays open, also past the limit; new descriptors are refused (EMFILE). The hard
// limit is kept, so that a later call can raise it again.
func (p *Process) LimitFiles(n uint64) error {
	var limit unix.Rlimit
	if err := unix.Prlimit(p.PID(), unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		return fmt.Errorf("reading the limit of open files: %w", err)
	}
	limit.Cur = min(n, limit.Max)
	if err := unix.Prlimit(p.PID(), unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		return fmt.Errorf("limiting open files to %d: %w", n, err)
	}
	return nil
}

// OpenFiles is how many descriptors the process has open.
func (p *Process) OpenFiles() (int, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID()))
	return len(entries), err
}

// stopWithin bounds the wait for threads to stop.
const stopWithin = 5 * time.Second

// awaitStopped waits until every thread of pid has stopped: SIGSTOP is delivered
// some time after it is sent.
func awaitStopped(pid int) error {
	for late := time.Now().Add(stopWithin); ; time.Sleep(time.Millisecond) {
		running, err := runningThreads(pid)
		if err != nil || running == 0 {
			return err
		}
		if time.Now().After(late) {
			return fmt.Errorf("%d threads of process %d still run %v after SIGSTOP", running, pid, stopWithin)
		}
	}
}

func runningThreads(pid int) (int, error) {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(stats) == 0 {
		return 0, os.ErrProcessDone
	}
	running := 0
	for _, name := range stats {
		raw, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		// "12 (a name) T …"; the name may hold anything, brackets too.
		_, rest, _ := strings.Cut(string(raw[strings.LastIndexByte(string(raw), ')')+1:]), " ")
		if !strings.HasPrefix(rest, "T") && !strings.HasPrefix(rest, "Z") {
			running++
		}
	}
	return running, nil
}
