package crashfs

import (
	"context"
	"os"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// handle is an open file. What O_TRUNC, O_APPEND and O_DSYNC ask for the kernel
// makes of truncations, offsets and flushes.
type handle struct{ file *file }

var _ interface {
	fs.FileReader
	fs.FileWriter
	fs.FileReleaser
} = (*handle)(nil)

// openFlags let the kernel keep the pages of a file over an open: every change
// comes through it. They also are what a shared mapping lives in, such as SQLite's
// -shm file; direct I/O would refuse it on kernels before 6.6.
const openFlags = fuse.FOPEN_KEEP_CACHE

// Open implements [fs.NodeOpener].
func (n *node) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if n.file == nil {
		return nil, 0, syscall.ENXIO
	}
	n.file.hold()
	return &handle{n.file}, openFlags, 0
}

// Create implements [fs.NodeCreater].
func (n *node) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	n.tree.mu.Lock()
	defer n.tree.mu.Unlock()
	fd, err := unix.Open(n.path(name), unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|int(flags)&unix.O_EXCL, mode)
	if err != nil {
		return nil, nil, 0, fs.ToErrno(err)
	}
	_ = unix.Close(fd) // it was opened to be there
	if err := n.own(ctx, name); err != nil {
		return nil, nil, 0, fs.ToErrno(err)
	}
	child, errno := n.child(ctx, name, out)
	if errno != 0 {
		return nil, nil, 0, errno
	}
	made, ok := child.Operations().(*node)
	if !ok || made.file == nil {
		return nil, nil, 0, syscall.EINVAL
	}
	handle, open, errno := made.Open(ctx, flags)
	return child, handle, open, errno
}

// Getattr implements [fs.NodeGetattrer].
func (n *node) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	var st syscall.Stat_t
	var err error
	if n.file != nil { // its name may be gone
		err = syscall.Fstat(int(n.file.back.Fd()), &st)
	} else {
		err = syscall.Lstat(n.path(), &st)
	}
	if err != nil {
		return fs.ToErrno(err)
	}
	n.fill(&st, n.StableAttr().Ino, &out.Attr)
	return 0
}

// Setattr implements [fs.NodeSetattrer].
func (n *node) Setattr(ctx context.Context, h fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if size, ok := in.GetSize(); ok {
		if n.file == nil {
			return syscall.EINVAL
		}
		if err := n.file.truncate(int64(size)); err != nil {
			return fs.ToErrno(err)
		}
	}
	if mode, ok := in.GetMode(); ok {
		if err := syscall.Chmod(n.path(), mode); err != nil {
			return fs.ToErrno(err)
		}
	}
	uid, uok := in.GetUID()
	gid, gok := in.GetGID()
	if uok || gok {
		owner, group := -1, -1
		if uok {
			owner = int(uid)
		}
		if gok {
			group = int(gid)
		}
		if err := os.Lchown(n.path(), owner, group); err != nil {
			return fs.ToErrno(err)
		}
	}
	if modified, ok := in.GetMTime(); ok && n.file != nil {
		n.file.touch(modified)
	}
	return n.Getattr(ctx, h, out)
}

// Fsync implements [fs.NodeFsyncer]. Names are durable at once.
func (n *node) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	if n.file == nil {
		return 0
	}
	return fs.ToErrno(n.tree.disk.sync(n.file))
}

// Read implements [fs.FileReader].
func (h *handle) Read(_ context.Context, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n, err := h.file.read(dest, off)
	return fuse.ReadResultData(dest[:n]), fs.ToErrno(err)
}

// Write implements [fs.FileWriter].
func (h *handle) Write(_ context.Context, data []byte, off int64) (uint32, syscall.Errno) {
	n, err := h.file.write(data, off)
	return uint32(n), fs.ToErrno(err)
}

// Release implements [fs.FileReleaser]. Closing a file flushes nothing.
func (h *handle) Release(context.Context) syscall.Errno {
	h.file.release()
	return 0
}
