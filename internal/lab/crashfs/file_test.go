package crashfs

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// bench is a disk without a mount.
type bench struct {
	*disk
	t   *testing.T
	dir string
}

func newBench(t *testing.T) bench { return bench{newDisk(), t, t.TempDir()} }

// file opens a file with this durable content.
func (b bench) file(name, content string) *file {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		b.t.Fatal(err)
	}
	back, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	f, err := b.open(name, back)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { back.Close() })
	return f
}

func (b bench) write(f *file, text string, off int64) {
	b.t.Helper()
	if n, err := f.write([]byte(text), off); n != len(text) || err != nil {
		b.t.Fatalf("wrote %d bytes of %d: %v", n, len(text), err)
	}
}

func (b bench) do(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b bench) cuts(mode Mode, seed uint64) Cut {
	b.t.Helper()
	did, err := b.cut(mode, seed)
	b.do(err)
	return did
}

// reads wants this content in memory.
func (b bench) reads(f *file, want string) {
	b.t.Helper()
	got := make([]byte, f.size+10)
	n, err := f.read(got, 0)
	if string(got[:n]) != want || err != nil {
		b.t.Errorf("%s reads %s, %v; want %s", f.name, short(string(got[:n])), err, short(want))
	}
}

// durableIs wants this content in the backing file.
func (b bench) durableIs(f *file, want string) {
	b.t.Helper()
	got, err := os.ReadFile(filepath.Join(b.dir, f.name))
	if string(got) != want || err != nil {
		b.t.Errorf("%s durably has %s, %v; want %s", f.name, short(string(got)), err, short(want))
	}
}

func short(text string) string {
	if len(text) > 60 {
		return text[:60] + "…"
	}
	return strings.ReplaceAll(text, "\x00", "·")
}

func zeros(n int) string { return strings.Repeat("\x00", n) }

func TestOnlyAFlushMakesDurable(t *testing.T) {
	b := newBench(t)
	f := b.file("a", "old")
	b.write(f, "new and longer", 0)
	b.reads(f, "new and longer")
	b.durableIs(f, "old")
	b.do(b.sync(f))
	b.durableIs(f, "new and longer")
	b.do(f.truncate(3))
	b.reads(f, "new")
	b.durableIs(f, "new and longer")
	b.do(b.sync(f))
	b.durableIs(f, "new")
	b.do(b.sync(f)) // nothing left
	if got := b.count(); got.Syncs != 2 || got.Writes != 1 || got.PagesSynced != 1 {
		t.Errorf("%+v", got)
	}
}

func TestWhatIsCutOffStaysOff(t *testing.T) {
	b := newBench(t)
	f := b.file("a", "0123456789")
	b.do(f.truncate(4))
	b.do(f.truncate(8))
	b.reads(f, "0123"+zeros(4))
	b.write(f, "X", 6)
	b.reads(f, "0123"+zeros(2)+"X"+zeros(1))
	b.do(b.sync(f))
	b.durableIs(f, "0123"+zeros(2)+"X"+zeros(1))
}

func TestSparseFiles(t *testing.T) {
	b := newBench(t)
	f := b.file("a", "")
	b.write(f, "far", 3*pageSize+5)
	want := zeros(3*pageSize+5) + "far"
	b.reads(f, want)
	b.do(b.sync(f))
	b.durableIs(f, want)
	if n, err := f.read(make([]byte, 5), 4*pageSize); n != 0 || err != nil {
		t.Errorf("behind the end: %d, %v", n, err)
	}
}

// TestAFileIsWhatAProgramMakesOfIt compares random operations with a slice of bytes,
// in memory and, after flushes, in the backing file.
func TestAFileIsWhatAProgramMakesOfIt(t *testing.T) {
	for seed := range uint64(50) {
		b := newBench(t)
		draw := rand.New(rand.NewPCG(seed, 0))
		f, want := b.file("a", "start"), []byte("start")
		for range 60 {
			switch draw.IntN(5) {
			case 0:
				b.do(b.sync(f))
				b.durableIs(f, string(want))
			case 1:
				size := draw.IntN(3 * pageSize)
				b.do(f.truncate(int64(size)))
				want = append(want, zeros(max(0, size-len(want)))...)[:size]
			default:
				off, text := draw.IntN(3*pageSize), bytes.Repeat([]byte{byte(draw.IntN(255) + 1)}, 1+draw.IntN(2*pageSize))
				b.write(f, string(text), int64(off))
				want = append(want, zeros(max(0, off+len(text)-len(want)))...)
				copy(want[off:], text)
			}
			b.reads(f, string(want))
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func TestForgottenFiles(t *testing.T) {
	b := newBench(t)
	f := b.file("a", "old")
	f.hold()
	b.write(f, "new", 0)
	b.forget(f)
	b.reads(f, "new")
	b.cuts(Clean, 1)
	if got := b.count(); got.PagesDropped != 0 {
		t.Errorf("%+v: a file without a name is lost", got)
	}
	f.release()
	if _, err := f.back.Stat(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("its backing file is still open: %v", err)
	}
}

func TestFlushesThatLie(t *testing.T) {
	b := newBench(t)
	f := b.file("a", "")
	b.do(b.setFaults(Faults{SyncLies: true}))
	b.do(b.sync(f)) // it is no lie that nothing was lost
	b.write(f, "a", 0)
	b.do(b.sync(f))
	b.durableIs(f, "")
	b.do(b.setFaults(Faults{}))
	b.do(b.sync(f))
	b.durableIs(f, "a")
	if got := b.count(); got.SyncsLied != 1 || got.Syncs != 1 {
		t.Errorf("%+v", got)
	}
}

// TestFlushesThatFail wants what Linux does: what could not be written is not
// tried again, though it can be read.
func TestFlushesThatFail(t *testing.T) {
	b := newBench(t)
	f, other := b.file("a-wal", strings.Repeat("o", 2*pageSize)), b.file("b", "")
	b.do(b.setFaults(Faults{SyncFails: true, Match: "*-wal", From: 1, Count: 1}))
	b.write(f, "first", 0)
	b.write(other, "other", 0)
	b.do(b.sync(f))
	b.do(b.sync(other))
	b.write(f, "lost", 0)
	if err := b.sync(f); !errors.Is(err, syscall.EIO) {
		t.Errorf("the second flush gives %v", err)
	}
	b.write(f, "kept", pageSize)
	b.do(b.sync(f))
	whole := strings.Repeat("o", 2*pageSize)
	b.reads(f, "lostt"+whole[5:pageSize]+"kept"+whole[pageSize+4:])
	b.durableIs(f, "first"+whole[5:pageSize]+"kept"+whole[pageSize+4:])
	if got := b.count(); got.SyncsFailed != 1 || got.Syncs != 3 {
		t.Errorf("%+v", got)
	}
}

func TestFlushesOfManyPagesThatFail(t *testing.T) {
	b := newBench(t)
	b.do(b.setFaults(Faults{SyncFails: true, Pages: 2}))
	f := b.file("log", "")
	b.write(f, "a", 0)
	b.do(b.sync(f))
	b.write(f, "b", 1)
	b.write(f, "c", pageSize)
	if err := b.sync(f); !errors.Is(err, syscall.EIO) {
		t.Errorf("a flush of two pages: %v", err)
	}
	b.durableIs(f, "a")
	if n := b.count().SyncsFailed; n != 1 {
		t.Errorf("%d flushes have failed", n)
	}
}

func TestSlowFlushes(t *testing.T) {
	b := newBench(t)
	f := b.file("a", "")
	synctest.Test(t, func(t *testing.T) {
		b.do(b.setFaults(Faults{SyncDelay: 3 * time.Second}))
		began, done := time.Now(), make(chan time.Duration)
		b.write(f, "a", 0)
		go func() { b.do(b.sync(f)); done <- time.Since(began) }()
		synctest.Wait()
		b.write(f, "ab", 0) // nobody else waits
		if took := <-done; took != 3*time.Second {
			t.Errorf("it took %v", took)
		}
	})
	b.durableIs(f, "ab")
	if got := b.count(); got.SyncsDelayed != 1 {
		t.Errorf("%+v", got)
	}
}

func TestWritesThatFail(t *testing.T) {
	b := newBench(t)
	f := b.file("a", "abc")
	b.do(b.setFaults(Faults{WriteFails: true, From: 1, Count: 2}))
	b.write(f, "1", 0)
	if _, err := f.write([]byte("2"), 0); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	if err := f.truncate(0); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	b.write(f, "3", 2)
	b.reads(f, "1b3")
	if got := b.count(); got.WritesFailed != 2 || got.Writes != 2 {
		t.Errorf("%+v", got)
	}
}

func TestAFullDisk(t *testing.T) {
	b := newBench(t)
	f := b.file("a", "abc")
	full := func(text string, off int64) {
		t.Helper()
		if _, err := f.write([]byte(text), off); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("a write on a full disk gives %v", err)
		}
	}
	b.do(b.setFaults(Faults{Space: 5}))
	b.write(f, "defg", 3)
	full("hi", 7)
	b.write(f, "h", 7)
	full("i", 8)
	b.write(f, "ABC", 0) // over what is there
	b.do(f.truncate(4))
	b.write(f, "EFGH", 4)
	if left, limited := b.left(); left != 0 || !limited {
		t.Errorf("%d bytes left, %v", left, limited)
	}
	b.do(b.setFaults(Faults{Full: true}))
	full("i", 8)
	b.do(b.setFaults(Faults{}))
	b.write(f, "i", 8)
	b.reads(f, "ABCdEFGHi")
	if got := b.count(); got.NoSpace != 3 {
		t.Errorf("%+v", got)
	}
}

func TestWrongFaultsAreRefused(t *testing.T) {
	for _, f := range []Faults{{Match: "["}, {Space: -1}, {SyncDelay: -1}, {From: -1}, {Count: -1}, {Pages: -1}, {SyncLies: true, SyncFails: true}} {
		if newDisk().setFaults(f) == nil {
			t.Errorf("%+v is taken", f)
		}
	}
}

func TestACleanCutDropsEverything(t *testing.T) {
	b := newBench(t)
	f, g := b.file("a", "old"), b.file("b", "durable")
	b.write(f, "flushed", 0)
	b.do(b.sync(f))
	b.write(f, strings.Repeat("n", 2*pageSize), 0)
	b.do(g.truncate(1))
	did := b.cuts(Clean, 1)
	if len(did.Dropped) != 1 || did.Dropped["a"] != 2 || did.PagesDropped != 2 || did.SizesDropped != 2 {
		t.Errorf("%+v", did)
	}
	b.durableIs(f, "flushed")
	b.durableIs(g, "durable")
	if got := b.count(); got.PagesDropped != 2 || got.PagesKept != 0 || got.SizesDropped != 2 || got.Cuts != 1 {
		t.Errorf("%+v", got)
	}
	_, read := f.read(make([]byte, 1), 0)
	_, wrote := f.write([]byte("x"), 0)
	for _, err := range []error{read, wrote, f.truncate(0), b.sync(f)} {
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("without power: %v", err)
		}
	}
}

// TestATornCutKeepsSomePages wants, over many seeds, every page kept and dropped
// at some time, independently, and each seed to draw the same again.
func TestATornCutKeepsSomePages(t *testing.T) {
	run := func(seed uint64) string {
		b := newBench(t)
		f := b.file("a", strings.Repeat("o", 3*pageSize))
		b.write(f, strings.Repeat("n", 4*pageSize), 0)
		b.cuts(Torn, seed)
		got, err := os.ReadFile(filepath.Join(b.dir, "a"))
		b.do(err)
		pages := ""
		for page := range slices.Chunk(got, pageSize) {
			if trimmed := bytes.Trim(page, string(page[:1])); len(trimmed) > 0 {
				t.Fatalf("seed %d: a page is torn itself", seed)
			}
			pages += short(string(page[:1]))
		}
		counts := b.count()
		if kept := strings.Count(pages, "n"); counts.PagesKept != kept || counts.PagesDropped != 4-kept {
			t.Errorf("seed %d leaves %s and counts %+v", seed, pages, counts)
		}
		return pages
	}
	seen := map[string]int{}
	for seed := range uint64(400) {
		seen[run(seed)]++
	}
	if len(seen) != 8+16 { // three pages and the old size; four and the new one
		t.Errorf("saw %v", seen)
	}
	if one, again := run(7), run(7); one != again {
		t.Errorf("one seed, two results: %s and %s", one, again)
	}
}

// TestAPrefixCutKeepsTheOrder wants the first of all changes, over files.
func TestAPrefixCutKeepsTheOrder(t *testing.T) {
	states := [][2]string{{"", "old"}, {"1", "old"}, {"1", "o2d"}, {"13", "o2d"}, {"13", "o"}, {"134", "o"}}
	seen := map[int]bool{}
	for seed := range uint64(200) {
		b := newBench(t)
		f, g := b.file("a", ""), b.file("b", "old")
		b.write(f, "1", 0)
		b.write(g, "2", 1)
		b.write(f, "3", 1)
		b.do(g.truncate(1))
		b.write(f, "4", 2)
		b.cuts(Prefix, seed)
		left := [2]string{}
		for i, name := range []string{"a", "b"} {
			raw, err := os.ReadFile(filepath.Join(b.dir, name))
			b.do(err)
			left[i] = string(raw)
		}
		state := slices.Index(states, left)
		if state < 0 {
			t.Fatalf("seed %d leaves %q, which no prefix gives", seed, left)
		}
		seen[state] = true
	}
	if len(seen) != len(states) {
		t.Errorf("only the prefixes %v were drawn", seen)
	}
}

func TestAnUnknownCutIsRefused(t *testing.T) {
	if _, err := newDisk().cut("sudden", 1); err == nil {
		t.Error("it is taken")
	}
}

func TestFaultsInWords(t *testing.T) {
	for want, f := range map[string]Faults{
		"a good disk":                            {},
		"flushes lie":                            {SyncLies: true},
		"each flush takes 3s":                    {SyncDelay: 3 * time.Second},
		"flushes fail, for *-wal alone, 3 times": {SyncFails: true, Match: "*-wal", Count: 3},
		"flushes of 2 pages or more fail":        {SyncFails: true, Pages: 2},
		"it is full":                             {Full: true},
	} {
		if f.String() != want {
			t.Errorf("%q, want %q", f, want)
		}
	}
}
