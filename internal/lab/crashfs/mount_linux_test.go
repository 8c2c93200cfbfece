package crashfs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// programs see the disk through these.

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	return string(must[[]byte](t)(os.ReadFile(path)))
}

func wants(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s, want %s", what, short(got), short(want))
	}
}

func counts(t *testing.T, disk *FS) Counts {
	t.Helper()
	return must[Counts](t)(disk.Counts())
}

func TestADeviceThatIsNoFUSE(t *testing.T) {
	for _, name := range []string{"/dev/null", t.TempDir(), "/dev/none"} {
		if err := usable(name); err == nil || !strings.Contains(err.Error(), "no FUSE here") || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAvailableSaysWhy(t *testing.T) {
	if err := Available(); err != nil {
		if _, mountErr := Mount(Config{Backing: t.TempDir(), Mount: t.TempDir(), Command: []string{os.Args[0], "disk"}}); mountErr == nil || mountErr.Error() != err.Error() {
			t.Errorf("Available says %v, Mount says %v", err, mountErr)
		}
	}
}

func TestFilesThroughTheMount(t *testing.T) {
	disk := mounted(t)
	in := func(names ...string) string { return filepath.Join(append([]string{disk.Dir()}, names...)...) }
	do(t, os.Mkdir(in("sub"), 0o700))
	f := must[*os.File](t)(os.OpenFile(in("sub", "a"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o640))
	defer f.Close()
	for _, text := range []string{"one ", "two ", "three"} {
		must[int](t)(f.WriteString(text))
	}
	wants(t, "appended", content(t, in("sub", "a")), "one two three")
	info := must[fs.FileInfo](t)(os.Stat(in("sub", "a")))
	if info.Size() != 13 || info.Mode() != 0o640 || time.Since(info.ModTime()).Abs() > time.Minute {
		t.Errorf("stat says %v, %v, %v", info.Size(), info.Mode(), info.ModTime())
	}
	wants(t, "not flushed", content(t, filepath.Join(disk.Backing(), "sub", "a")), "")
	do(t, f.Truncate(7))
	wants(t, "truncated", content(t, in("sub", "a")), "one two")
	do(t, f.Sync())
	wants(t, "flushed", content(t, filepath.Join(disk.Backing(), "sub", "a")), "one two")

	do(t, os.WriteFile(in("b"), []byte("over"), 0o600))
	do(t, os.Rename(in("sub", "a"), in("b")))
	wants(t, "renamed over another", content(t, in("b")), "one two")
	must[int](t)(f.WriteString("!"))
	wants(t, "written after the rename", content(t, in("b")), "one two!")
	do(t, os.Link(in("b"), in("c")))
	do(t, os.Remove(in("b")))
	wants(t, "the other name", content(t, in("c")), "one two!")
	do(t, os.Remove(in("c")))
	must[int64](t)(f.Seek(0, 0))
	buf := make([]byte, 100)
	n := must[int](t)(f.Read(buf))
	wants(t, "without a name", string(buf[:n]), "one two!")
	do(t, os.WriteFile(in("c"), []byte("another"), 0o600))
	wants(t, "a new file of that name", content(t, in("c")), "another")

	do(t, os.Symlink("c", in("link")))
	wants(t, "a link", content(t, in("link")), "another")
	do(t, os.WriteFile(in("c"), []byte("short"), 0o600)) // O_TRUNC
	wants(t, "written anew", content(t, in("c")), "short")
	var names []string
	for _, entry := range must[[]os.DirEntry](t)(os.ReadDir(disk.Dir())) {
		names = append(names, entry.Name())
	}
	wants(t, "names", strings.Join(names, " "), "c link sub")
	do(t, os.Remove(in("sub")))
	do(t, os.Mkdir(in("sub"), 0o700))
	if _, err := os.Stat(in("nothing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := os.Mkdir(in("c"), 0o700); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a folder of a file's name: %v", err)
	}
}

// TestBigFilesThroughTheMount compares random writes with a slice of bytes, over
// the caches of the kernel.
func TestBigFilesThroughTheMount(t *testing.T) {
	disk := mounted(t)
	path := filepath.Join(disk.Dir(), "big")
	f := must[*os.File](t)(os.Create(path))
	defer f.Close()
	draw, want := rand.New(rand.NewPCG(1, 0)), []byte{}
	for i := range 200 {
		off, text := draw.IntN(1<<20), slices.Repeat([]byte{byte(i + 1)}, 1+draw.IntN(100_000))
		must[int](t)(f.WriteAt(text, int64(off)))
		want = append(want, make([]byte, max(0, off+len(text)-len(want)))...)
		copy(want[off:], text)
		if i%17 == 0 {
			do(t, f.Sync())
		}
		if i%23 == 0 {
			want = want[:draw.IntN(len(want))]
			do(t, f.Truncate(int64(len(want))))
		}
	}
	if content(t, path) != string(want) {
		t.Error("it reads otherwise than it was written")
	}
	do(t, disk.Close())
	if content(t, filepath.Join(disk.Backing(), "big")) != string(want) {
		t.Error("it was not flushed by the orderly end")
	}
}

func TestAPowerCutUnderAMount(t *testing.T) {
	disk := mounted(t)
	path := filepath.Join(disk.Dir(), "a")
	f := must[*os.File](t)(os.Create(path))
	defer f.Close()
	must[int](t)(f.WriteString("flushed"))
	do(t, f.Sync())
	must[int](t)(f.WriteString(", lost"))
	removed := filepath.Join(disk.Dir(), "removed")
	do(t, os.WriteFile(removed, []byte("not flushed, and no loss"), 0o600))
	do(t, os.Remove(removed))
	cut := must[Cut](t)(disk.PowerCut(Clean, 1))
	if cut.PagesDropped != 1 || cut.SizesDropped != 1 || cut.PagesKept != 0 || cut.Dropped["a"] != 1 {
		t.Errorf("the cut did %+v", cut)
	}
	if _, err := f.WriteString("x"); err == nil {
		t.Error("a disk without power takes writes")
	}
	if err := disk.SetFaults(Faults{}); !errors.Is(err, errOff) {
		t.Errorf("a disk without power takes faults: %v", err)
	}
	do(t, disk.Remount())
	wants(t, "after the cut", content(t, path), "flushed")
	do(t, os.WriteFile(path, []byte("on it goes"), 0o600))
	wants(t, "later", content(t, path), "on it goes")
	if got := counts(t, disk); got.Cuts != 1 || got.Syncs != 1 || got.Writes != 4 {
		t.Errorf("in all %+v", got)
	}
}

// TestACutAtItsMoment arms a cut for each step of a write and a flush in turn.
func TestACutAtItsMoment(t *testing.T) {
	for nth, want := range []string{"", "", "", "one", "one", "one, two", "one, two"} {
		if nth == 0 {
			continue
		}
		disk := mounted(t)
		path := filepath.Join(disk.Dir(), "a")
		do(t, disk.ArmCut(Clean, 1, nth))
		f := must[*os.File](t)(os.Create(path))
		defer f.Close()
		for _, step := range []func() error{
			func() error { _, err := f.WriteString("one"); return err },
			f.Sync,
			f.Sync, // with nothing to flush, which does not count
			func() error { _, err := f.WriteString(", two"); return err },
			f.Sync,
			func() error { return f.Truncate(3) },
			f.Sync,
		} {
			if step() != nil {
				break
			}
		}
		must[Cut](t)(disk.AwaitCut(t.Context()))
		do(t, disk.Remount())
		wants(t, fmt.Sprint("cut at ", nth), content(t, path), want)
	}
	disk := mounted(t)
	if err := disk.ArmCut("sudden", 1, 1); err == nil {
		t.Error("an unknown cut is armed")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := disk.AwaitCut(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a cut that does not come: %v", err)
	}
}

// TestAWriteThroughIsDurable opens with O_DSYNC and O_SYNC, which need no fsync.
func TestAWriteThroughIsDurable(t *testing.T) {
	disk := mounted(t)
	for name, flag := range map[string]int{"dsync": syscall.O_DSYNC, "sync": syscall.O_SYNC} {
		f := must[*os.File](t)(os.OpenFile(filepath.Join(disk.Dir(), name), os.O_WRONLY|os.O_CREATE|flag, 0o600))
		defer f.Close()
		must[int](t)(f.WriteString(name))
		wants(t, name, content(t, filepath.Join(disk.Backing(), name)), name)
	}
	f := must[*os.File](t)(os.Create(filepath.Join(disk.Dir(), "data")))
	defer f.Close()
	must[int](t)(f.WriteString("data"))
	do(t, syscall.Fdatasync(int(f.Fd())))
	wants(t, "fdatasync", content(t, filepath.Join(disk.Backing(), "data")), "data")
}

func TestFaultsThroughTheMount(t *testing.T) {
	disk := mounted(t)
	f := must[*os.File](t)(os.Create(filepath.Join(disk.Dir(), "a")))
	defer f.Close()
	must[int](t)(f.WriteString("a"))
	for _, c := range []struct {
		faults Faults
		do     func() error
		want   error
	}{
		{Faults{SyncLies: true}, f.Sync, nil},
		{Faults{SyncFails: true}, f.Sync, syscall.EIO},
		{Faults{WriteFails: true}, func() error { _, err := f.WriteString("b"); return err }, syscall.EIO},
		{Faults{WriteFails: true}, func() error { return f.Truncate(0) }, syscall.EIO},
		{Faults{Full: true}, func() error { _, err := f.WriteString("c"); return err }, syscall.ENOSPC},
		{Faults{Space: 3}, func() error { _, err := f.WriteString("defg"); return err }, syscall.ENOSPC},
	} {
		do(t, disk.SetFaults(c.faults))
		if err := c.do(); !errors.Is(err, c.want) {
			t.Errorf("%+v gives %v, want %v", c.faults, err, c.want)
		}
	}
	var st syscall.Statfs_t
	do(t, syscall.Statfs(disk.Dir(), &st))
	if st.Bavail != 0 {
		t.Errorf("%d blocks are free", st.Bavail)
	}
	do(t, disk.SetFaults(Faults{SyncDelay: 300 * time.Millisecond}))
	must[int](t)(f.WriteString("h"))
	began := time.Now()
	do(t, f.Sync())
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("a slow flush takes %v", took)
	}
	got := counts(t, disk)
	if got.SyncsLied != 1 || got.SyncsFailed != 1 || got.WritesFailed != 2 || got.NoSpace != 2 || got.SyncsDelayed != 1 || got.Syncs != 1 {
		t.Errorf("%+v", got)
	}
	do(t, disk.SetFaults(Faults{WriteFails: true, Match: "new-*"}))
	must[int](t)(f.WriteString("i"))
	do(t, os.Rename(filepath.Join(disk.Dir(), "a"), filepath.Join(disk.Dir(), "new-a")))
	if _, err := f.WriteString("j"); !errors.Is(err, syscall.EIO) {
		t.Errorf("under its new name: %v", err)
	}
	if err := disk.SetFaults(Faults{Space: -1}); err == nil {
		t.Error("wrong faults are taken")
	}
}

// TestADiskEndsWithItsLab kills a lab, and wants its mount to be gone soon.
func TestADiskEndsWithItsLab(t *testing.T) {
	if err := Available(); err != nil {
		t.Skipf("NOT_RUN: %v", err)
	}
	mount := t.TempDir()
	lab := exec.Command(os.Args[0], "lab", t.TempDir(), mount)
	out := must[io.ReadCloser](t)(lab.StdoutPipe())
	do(t, lab.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "mounted\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if !strings.Contains(content(t, "/proc/self/mounts"), mount) {
		t.Fatal("there is no mount")
	}
	_ = lab.Process.Kill()
	_ = lab.Wait() // it was killed
	look, late := time.NewTicker(5*time.Millisecond), time.After(10*time.Second)
	defer look.Stop()
	for strings.Contains(content(t, "/proc/self/mounts"), mount) {
		select {
		case <-look.C:
		case <-late:
			_ = unmount(mount)
			t.Fatal("the mount is still there")
		}
	}
}

// TestStaleMountsAreCleared kills the process of a disk, which leaves its mount.
func TestStaleMountsAreCleared(t *testing.T) {
	disk := mounted(t)
	_ = disk.daemon.cmd.Process.Kill()
	_, _ = disk.daemon.cmd.Process.Wait()
	if table := content(t, "/proc/self/mounts"); !strings.Contains(table, disk.Dir()) {
		t.Fatal("there is nothing to clear")
	}
	clearStale()
	if table := content(t, "/proc/self/mounts"); strings.Contains(table, disk.Dir()) {
		t.Error("the mount is still there")
	}
	if _, err := disk.Counts(); err == nil {
		t.Error("a disk whose process is dead counts")
	}
	if err := disk.Remount(); err != nil {
		t.Fatal(err)
	}
	do(t, os.WriteFile(filepath.Join(disk.Dir(), "a"), nil, 0o600))
}
