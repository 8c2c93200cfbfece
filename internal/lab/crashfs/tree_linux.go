package crashfs

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// tree maps the names of a mount onto those of a directory.
type tree struct {
	disk *disk
	dir  string // the backing directory

	mu    sync.Mutex        // guards what follows; held while names change
	known map[inode]*member // by backing inode
	last  uint64            // inode number given last
}

// inode is a file of the backing file system, for as long as it has a name: later
// its number may be given to another.
type inode struct{ dev, ino uint64 }

// member is what stands behind an inode of the mount. Its number is never given
// again, so that no cache of the kernel outlives its file.
type member struct {
	number uint64
	file   *file // nil for what is no regular file
}

// node is a file, folder or link of the mount.
type node struct {
	fs.Inode
	tree *tree
	file *file // nil for what is no regular file
}

var _ interface {
	fs.NodeLookuper
	fs.NodeGetattrer
	fs.NodeSetattrer
	fs.NodeCreater
	fs.NodeOpener
	fs.NodeFsyncer
	fs.NodeReaddirer
	fs.NodeMkdirer
	fs.NodeRmdirer
	fs.NodeUnlinker
	fs.NodeRenamer
	fs.NodeLinker
	fs.NodeSymlinker
	fs.NodeReadlinker
	fs.NodeStatfser
} = (*node)(nil)

func (n *node) path(names ...string) string {
	return filepath.Join(append([]string{n.tree.dir, n.Path(n.Root())}, names...)...)
}

// child is the node of a name that exists. tree.mu is held.
func (n *node) child(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	var st syscall.Stat_t
	if err := syscall.Lstat(n.path(name), &st); err != nil {
		return nil, fs.ToErrno(err)
	}
	m, err := n.tree.member(n.path(name), &st)
	if err != nil {
		return nil, fs.ToErrno(err)
	}
	child := &node{tree: n.tree, file: m.file}
	child.fill(&st, m.number, &out.Attr)
	return n.NewInode(ctx, child, fs.StableAttr{Mode: st.Mode & syscall.S_IFMT, Ino: m.number}), 0
}

// member is what stands behind a backing inode, made known if it is not.
func (t *tree) member(path string, st *syscall.Stat_t) (*member, error) {
	id := inode{uint64(st.Dev), st.Ino}
	if m := t.known[id]; m != nil {
		return m, nil
	}
	t.last++
	m := &member{number: t.last}
	if st.Mode&syscall.S_IFMT == syscall.S_IFREG {
		back, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		if m.file, err = t.disk.open(filepath.Base(path), back); err != nil {
			return nil, err
		}
	}
	t.known[id] = m
	return m, nil
}

// fill writes what stat tells: the backing file's, but for what is not durable.
func (n *node) fill(st *syscall.Stat_t, number uint64, out *fuse.Attr) {
	out.FromStat(st)
	out.Ino = number
	if n.file == nil {
		return
	}
	size, modified := n.file.stat()
	out.Size, out.Blocks = uint64(size), uint64((size+511)/512)
	out.Mtime, out.Mtimensec = uint64(modified.Unix()), uint32(modified.Nanosecond())
}

// Lookup implements [fs.NodeLookuper].
func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	n.tree.mu.Lock()
	defer n.tree.mu.Unlock()
	return n.child(ctx, name, out)
}

// Mkdir implements [fs.NodeMkdirer].
func (n *node) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	n.tree.mu.Lock()
	defer n.tree.mu.Unlock()
	if err := syscall.Mkdir(n.path(name), mode); err != nil {
		return nil, fs.ToErrno(err)
	}
	if err := n.own(ctx, name); err != nil {
		return nil, fs.ToErrno(err)
	}
	return n.child(ctx, name, out)
}

// Symlink implements [fs.NodeSymlinker].
func (n *node) Symlink(ctx context.Context, target, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	n.tree.mu.Lock()
	defer n.tree.mu.Unlock()
	if err := syscall.Symlink(target, n.path(name)); err != nil {
		return nil, fs.ToErrno(err)
	}
	if err := n.own(ctx, name); err != nil {
		return nil, fs.ToErrno(err)
	}
	return n.child(ctx, name, out)
}

// own gives a new name to whoever has asked for it: programs that do not run as
// root use the disk too.
func (n *node) own(ctx context.Context, name string) error {
	caller, ok := fuse.FromContext(ctx)
	if !ok {
		return nil
	}
	return os.Lchown(n.path(name), int(caller.Uid), int(caller.Gid))
}

// Readlink implements [fs.NodeReadlinker].
func (n *node) Readlink(context.Context) ([]byte, syscall.Errno) {
	target, err := os.Readlink(n.path())
	return []byte(target), fs.ToErrno(err)
}

// Link implements [fs.NodeLinker].
func (n *node) Link(ctx context.Context, target fs.InodeEmbedder, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	n.tree.mu.Lock()
	defer n.tree.mu.Unlock()
	if err := syscall.Link(target.(*node).path(), n.path(name)); err != nil {
		return nil, fs.ToErrno(err)
	}
	return n.child(ctx, name, out)
}

// Rmdir implements [fs.NodeRmdirer].
func (n *node) Rmdir(_ context.Context, name string) syscall.Errno {
	n.tree.mu.Lock()
	defer n.tree.mu.Unlock()
	return fs.ToErrno(n.tree.losing(n.path(name), func() error { return syscall.Rmdir(n.path(name)) }))
}

// Unlink implements [fs.NodeUnlinker].
func (n *node) Unlink(_ context.Context, name string) syscall.Errno {
	n.tree.mu.Lock()
	defer n.tree.mu.Unlock()
	return fs.ToErrno(n.tree.losing(n.path(name), func() error { return syscall.Unlink(n.path(name)) }))
}

// Rename implements [fs.NodeRenamer].
func (n *node) Rename(_ context.Context, name string, newParent fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	n.tree.mu.Lock()
	defer n.tree.mu.Unlock()
	from, to := n.path(name), newParent.(*node).path(newName)
	err := n.tree.losing(to, func() error { return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, uint(flags)) })
	if err == nil {
		for _, path := range []string{from, to} { // both are there after an exchange
			n.tree.renamed(path)
		}
	}
	return fs.ToErrno(err)
}

// losing carries out what may take the last name of what is at path, and forgets
// that then.
func (t *tree) losing(path string, do func() error) error {
	var st syscall.Stat_t
	there := syscall.Lstat(path, &st) == nil
	id := inode{uint64(st.Dev), st.Ino}
	m := t.known[id]
	if !there || m == nil {
		return do()
	}
	keep, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(keep) // its number is not given again while it is looked at
	if err := do(); err != nil {
		return err
	}
	isDir := st.Mode&syscall.S_IFMT == syscall.S_IFDIR // its links say little
	if err := syscall.Fstat(keep, &st); err != nil || st.Nlink > 0 && !isDir {
		return err
	}
	delete(t.known, id)
	if m.file != nil {
		t.disk.forget(m.file)
	}
	return nil
}

func (t *tree) renamed(path string) {
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		return
	}
	if m := t.known[inode{uint64(st.Dev), st.Ino}]; m != nil && m.file != nil {
		t.disk.rename(m.file, filepath.Base(path))
	}
}

// Readdir implements [fs.NodeReaddirer].
func (n *node) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	return fs.NewLoopbackDirStream(n.path())
}

// Statfs implements [fs.NodeStatfser].
func (n *node) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	var st syscall.Statfs_t
	if err := syscall.Statfs(n.tree.dir, &st); err != nil {
		return fs.ToErrno(err)
	}
	out.FromStatfsT(&st)
	if left, limited := n.tree.disk.left(); limited {
		out.Bavail = min(out.Bavail, uint64(left)/uint64(out.Bsize))
		out.Bfree = out.Bavail
	}
	return 0
}
