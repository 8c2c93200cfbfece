package crashfs

import (
	"errors"
	"io"
	"os"
	"slices"
	"syscall"
	"time"
)

// file is one file: a backing file that holds what is durable, and what was
// changed since. disk.mu guards it.
type file struct {
	disk     *disk
	back     *os.File
	name     string // without folders
	modified time.Time
	handles  int // how often it is open

	size    int64 // as programs see it
	durable int64 // of the backing file
	// floor bounds what of the backing file still counts: the smallest size there
	// was since the last flush. Invariant: 0 <= floor <= durable.
	floor int64
	pages map[int64]*page // by number: what reads differently than the backing file
	log   []change        // what is not durable, in order
}

// page is the content of a page in memory.
type page struct {
	bytes [pageSize]byte
	dirty bool // a flush is to write it; false after a flush that failed
}

// change is one step of what is not durable: bytes of one page, or a new size.
type change struct {
	file  *file
	when  int // by disk.clock, over all files
	at    int64
	bytes []byte // nil: at is the new size
}

// read fills b from off as far as the file goes.
func (f *file) read(b []byte, off int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.off {
		return 0, syscall.EIO
	}
	b = b[:max(0, min(int64(len(b)), f.size-off))]
	for done := 0; done < len(b); {
		at := off + int64(done)
		n := min(len(b)-done, int(pageSize-at%pageSize))
		part := b[done : done+n]
		if p := f.pages[at/pageSize]; p != nil {
			copy(part, p.bytes[at%pageSize:])
		} else if err := f.readDurable(part, at); err != nil {
			return done, err
		}
		done += n
	}
	return len(b), nil
}

// readDurable fills b from the backing file, and with zeros where none of it counts.
func (f *file) readDurable(b []byte, off int64) error {
	clear(b)
	b = b[:max(0, min(int64(len(b)), f.floor-off))]
	if len(b) == 0 {
		return nil
	}
	if _, err := f.back.ReadAt(b, off); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// write takes bytes into memory.
func (f *file) write(b []byte, off int64) (int, error) {
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.powered() {
		return 0, syscall.EIO
	}
	if d.strikes(d.faults.WriteFails, f) {
		d.counts.WritesFailed++
		return 0, syscall.EIO
	}
	end := off + int64(len(b))
	if err := d.grow(f, end-f.size); err != nil {
		return 0, err
	}
	for done := 0; done < len(b); {
		at := off + int64(done)
		n := min(len(b)-done, int(pageSize-at%pageSize))
		p, err := f.page(at / pageSize)
		if err != nil {
			return done, err
		}
		part := b[done : done+n]
		copy(p.bytes[at%pageSize:], part)
		p.dirty = true
		f.note(change{at: at, bytes: slices.Clone(part)})
		done += n
	}
	f.size = max(f.size, end)
	d.counts.Writes++
	return len(b), nil
}

// page is the page in memory; it is filled from the backing file at first.
func (f *file) page(n int64) (*page, error) {
	p := f.pages[n]
	if p == nil {
		p = new(page)
		if err := f.readDurable(p.bytes[:], n*pageSize); err != nil {
			return nil, err
		}
		f.pages[n] = p
	}
	return p, nil
}

// note adds a change to what is not durable.
func (f *file) note(c change) {
	f.disk.clock++
	c.file, c.when = f, f.disk.clock
	f.log = append(f.log, c)
	f.modified = time.Now()
}

// truncate sets the size; what is cut off is gone, what is added reads as zeros.
func (f *file) truncate(size int64) error {
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if size == f.size && !d.off {
		return nil
	}
	if !d.powered() {
		return syscall.EIO
	}
	if d.strikes(d.faults.WriteFails, f) {
		d.counts.WritesFailed++
		return syscall.EIO
	}
	if err := d.grow(f, size-f.size); err != nil {
		return err
	}
	d.giveBack(f.size - size)
	for n, p := range f.pages {
		if start := n * pageSize; start >= size {
			delete(f.pages, n)
		} else if start+pageSize > size {
			clear(p.bytes[size-start:])
		}
	}
	f.size, f.floor = size, min(f.floor, size)
	f.note(change{at: size})
	return nil
}

// persist makes everything durable that a flush is to write, and gives how many
// pages that were.
func (f *file) persist() (pages int, err error) {
	if len(f.log) == 0 {
		return 0, nil
	}
	if f.floor < f.durable {
		if err := f.back.Truncate(f.floor); err != nil {
			return 0, err
		}
		f.durable = f.floor
	}
	for n, p := range f.pages {
		if !p.dirty {
			continue
		}
		if err := f.put(n, p); err != nil {
			return 0, err
		}
		pages++
	}
	if err := f.back.Truncate(f.size); err != nil {
		return 0, err
	}
	for n, p := range f.pages {
		if p.dirty {
			delete(f.pages, n)
		}
	}
	f.durable, f.floor, f.log = f.size, f.size, nil
	return pages, nil
}

// put writes a page to the backing file, as far as the file goes.
func (f *file) put(n int64, p *page) error {
	start := n * pageSize
	_, err := f.back.WriteAt(p.bytes[:min(pageSize, f.size-start)], start)
	return err
}

// loseTrack is what a failed flush leaves: pages that can be read and that no
// later flush writes.
func (f *file) loseTrack() {
	for _, p := range f.pages {
		p.dirty = false
	}
	f.log = slices.DeleteFunc(f.log, func(c change) bool { return c.bytes != nil })
}

// release ends one of its handles.
func (f *file) release() {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.handles--
	f.closeIdle()
}

// hold counts one more handle.
func (f *file) hold() {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.handles++
}

// closeIdle closes the backing file once nobody can reach it any more.
func (f *file) closeIdle() {
	if f.handles == 0 && !f.disk.files[f] {
		_ = f.back.Close() // there is nothing left to lose
	}
}

// stat gives the size and the time of the last change.
func (f *file) stat() (int64, time.Time) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return f.size, f.modified
}

// touch sets the time of the last change.
func (f *file) touch(modified time.Time) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.modified = modified
}
