package bench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Machine is where a bench ran: without it no figure can be judged.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory int64  `json:"memory_bytes"`
	System string `json:"system"`
	Go     string `json:"go"`
	// Load is the load average of the last minute when the bench began: other work
	// that took part in the figures; -1 where it is not known.
	Load float64 `json:"load_at_start"`
	// Disk is the kind of file system that a private server's store was on.
	Disk string `json:"disk,omitempty"`
	// Fsync is how long a write of 4 KiB and its flush took there.
	Fsync *Latency `json:"fsync,omitempty"`
}

// Describe finds the facts of this machine. What the system does not tell stays empty.
func Describe() Machine {
	m := Machine{
		CPU: field("/proc/cpuinfo", "model name"), Cores: runtime.NumCPU(),
		System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), Load: -1,
	}
	if kernel, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.System += " " + strings.TrimSpace(string(kernel))
	}
	if kb, err := strconv.ParseInt(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB"), 10, 64); err == nil {
		m.Memory = kb << 10
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		if first, _, _ := strings.Cut(string(text), " "); first != "" {
			m.Load, _ = strconv.ParseFloat(first, 64)
		}
	}
	return m
}

// field is the first value of a "name : value" file; "" without one.
func field(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// flushes is how often a flush is timed.
const flushes = 200

// Flush times writes of 4 KiB with a flush, in folder.
func Flush(ctx context.Context, folder string) (_ *Latency, err error) {
	name := filepath.Join(folder, "flush")
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(name)) }()
	block := make([]byte, 4<<10)
	r := newRecorder()
	for range flushes {
		if ctx.Err() != nil {
			break
		}
		start := time.Now()
		if _, err := f.Write(block); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		r.record(time.Since(start))
	}
	return r.latency(), nil
}
