package impart

import (
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// walWriteLock is the byte of SQLite's -shm file that the writer of a database in WAL mode locks
// (https://sqlite.org/walformat.html, section 2.3.2).
const walWriteLock = 120

// HoldWrites takes the database's write lock from outside, as another program on the same file does: until release is
// called the server can read and cannot commit. release may be called again.
func (s *Server) HoldWrites(t testing.TB) (release func()) {
	t.Helper()
	if s.cfg.on != nil {
		return s.cfg.on.hold(t)
	}
	f, err := os.OpenFile(filepath.Join(s.cfg.Dir, "impart.db-shm"), os.O_RDWR, 0)
	if err != nil {
		t.Fatalf("the database is not in WAL mode, or not where it was put: %v", err)
	}
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart, Start: walWriteLock, Len: 1}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLKW, &lock); err != nil {
		t.Fatal(err)
	}
	release = sync.OnceFunc(func() { f.Close() }) // closing lets the lock go
	t.Cleanup(release)
	return release
}
