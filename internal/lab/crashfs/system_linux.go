package crashfs

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Available is an error that says why no disk can be mounted here; nil if one can.
func Available() error {
	if !mayMount() {
		return errors.New("mounting a disk that loses power takes root (CAP_SYS_ADMIN): run it as root")
	}
	return usable("/dev/fuse")
}

// usable is an error unless name is the device of FUSE.
func usable(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return fmt.Errorf("no FUSE here: %w", err)
	}
	const fuse = 10<<8 | 229 // its number on every Linux
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || info.Mode()&os.ModeCharDevice == 0 || stat.Rdev != fuse {
		return fmt.Errorf("no FUSE here: %s is something else (%s)", name, info.Mode())
	}
	dev, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("no FUSE here: %w", err)
	}
	return dev.Close()
}

// mayMount looks for CAP_SYS_ADMIN, which root in a container may lack.
func mayMount() bool {
	const sysAdmin = 21
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return os.Geteuid() == 0
	}
	_, rest, _ := strings.Cut(string(status), "\nCapEff:")
	line, _, _ := strings.Cut(rest, "\n")
	effective, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	return err == nil && effective&(1<<sysAdmin) != 0
}

// unmount takes a mount away at once, also while it is used: who uses it sees
// errors. Not being mounted is no error.
func unmount(dir string) error {
	err := syscall.Unmount(dir, syscall.MNT_DETACH)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOENT) {
		return nil
	}
	return err
}

const sourcePrefix = "crashfs-"

// source names a mount in the table of mounts, by its process.
func source(pid int) string { return sourcePrefix + strconv.Itoa(pid) }

// clearStale takes away the mounts whose process is gone: it was killed together
// with its lab.
func clearStale() {
	table, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[2] != "fuse.crashfs" {
			continue
		}
		pid, err := strconv.Atoi(strings.TrimPrefix(fields[0], sourcePrefix))
		if err != nil || syscall.Kill(pid, 0) == nil {
			continue
		}
		_ = unmount(unescape(fields[1]))
	}
}

// unescape undoes the octal escapes of the table of mounts.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}
