package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// syncState says whether a time service keeps the clock.
type syncState int

const (
	clockUnknown syncState = iota
	clockKept
	clockFree
)

// clockSynchronised asks the kernel, which time services report to.
func clockSynchronised() syncState {
	state, err := unix.Adjtimex(&unix.Timex{})
	switch {
	case err != nil:
		return clockUnknown
	case state == unix.TIME_ERROR:
		return clockFree
	default:
		return clockKept
	}
}

// disk is a file system: its kind and the bytes that are free for us.
type disk struct {
	kind string
	free uint64
}

// fileSystems names the kinds that matter here, by their magic numbers (statfs(2)).
var fileSystems = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs",
	unix.F2FS_SUPER_MAGIC: "f2fs", 0x2fc12fc1: "zfs",
	unix.TMPFS_MAGIC: "tmpfs", unix.RAMFS_MAGIC: "ramfs",
	unix.NFS_SUPER_MAGIC: "nfs", 0xff534d42: "cifs", 0xfe534d42: "smb2", unix.V9FS_MAGIC: "9p",
	unix.AFS_SUPER_MAGIC: "afs", 0x00c36400: "ceph",
	0x65735546: "fuse", unix.OVERLAYFS_SUPER_MAGIC: "overlay",
}

func diskOf(folder string) (disk, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return disk{}, fmt.Errorf("statfs %s: %w", folder, err)
	}
	kind, known := fileSystems[int64(s.Type)]
	if !known {
		kind = fmt.Sprintf("another kind (%#x)", s.Type)
	}
	return disk{kind, s.Bavail * uint64(s.Bsize)}, nil
}

// descriptorLimit is the number of files and sockets that the process may open.
// Go itself has raised the soft limit to the hard one when the process started.
func descriptorLimit() (int, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	return int(min(limit.Cur, 1<<30)), nil
}
