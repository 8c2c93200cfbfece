package impart

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

func (s *Server) pid() (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return 0, errors.New("no process runs")
	}
	return s.cmd.Process.Pid, nil
}

// RSS is the resident memory of the process in bytes.
func (s *Server) RSS(t testing.TB) int64 { return s.status(t, "VmRSS:") << 10 }

// PeakRSS is the highest resident memory the process ever had, in bytes.
func (s *Server) PeakRSS(t testing.TB) int64 { return s.status(t, "VmHWM:") << 10 }

func (s *Server) status(t testing.TB, key string) int64 {
	t.Helper()
	pid, err := s.pid()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no %s in /proc/%d/status", key, pid)
	return 0
}

// OpenFiles is the number of file descriptors the process holds.
func (s *Server) OpenFiles(t testing.TB) int {
	t.Helper()
	pid, err := s.pid()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
