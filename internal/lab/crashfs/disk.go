package crashfs

import (
	"fmt"
	"os"
	"path"
	"sync"
	"syscall"
	"time"
)

// disk is what all files share: the faults, the counts, and the order of changes.
type disk struct {
	mu     sync.Mutex // guards what follows, and every file
	faults Faults
	hits   int // flushes and writes that From and Count are about
	space  int64
	counts Counts
	files  map[*file]bool // known files that have a name
	clock  int            // number of the last change
	off    bool           // the power is cut: nothing works any more
	armed  *trap          // a power cut to come; nil: none

	sprung chan sprung // gets what the trap did
}

// trap is a power cut that waits for its moment.
type trap struct {
	Mode Mode   `json:"mode"`
	Seed uint64 `json:"seed"`
	// Left is how many writes, truncations and flushes there are still to come,
	// with the one at which it is cut, before that does anything.
	Left int `json:"left"`
}

// sprung is what a power cut did that was not asked for at that moment.
type sprung struct {
	did Cut
	err error
}

func newDisk() *disk { return &disk{files: map[*file]bool{}, sprung: make(chan sprung, 1)} }

// arm sets a trap, or none.
func (d *disk) arm(t trap) error {
	if !t.Mode.known() || t.Left < 1 {
		return fmt.Errorf("a power cut %q at change %d: it should be %s, %s or %s, at 1 or later", t.Mode, t.Left, Clean, Torn, Prefix)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armed = &t
	return nil
}

// powered reports whether the next write, truncation or flush may go on; that at
// which the trap springs may not.
func (d *disk) powered() bool {
	if d.armed != nil && !d.off {
		if d.armed.Left--; d.armed.Left == 0 {
			did, err := d.drop(d.armed.Mode, d.armed.Seed)
			d.sprung <- sprung{did, err}
		}
	}
	return !d.off
}

// setFaults replaces the faults, and counts their hits anew.
func (d *disk) setFaults(f Faults) error {
	if err := f.Validate(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults, d.hits, d.space = f, 0, f.Space
	return nil
}

func (d *disk) count() Counts {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counts
}

// strikes reports whether a fault that is set meets this hit of f.
func (d *disk) strikes(set bool, f *file) bool {
	if !set || !d.meets(f) {
		return false
	}
	d.hits++
	past := d.hits - d.faults.From
	return past > 0 && (d.faults.Count == 0 || past <= d.faults.Count)
}

func (d *disk) meets(f *file) bool {
	if d.faults.Match == "" {
		return true
	}
	matches, err := path.Match(d.faults.Match, f.name)
	return matches && err == nil
}

// open makes the file of an open backing file known, under its name. The disk
// closes back when it forgets the file.
func (d *disk) open(name string, back *os.File) (*file, error) {
	info, err := back.Stat()
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f := &file{disk: d, back: back, name: name, pages: map[int64]*page{}, modified: info.ModTime()}
	f.size, f.durable, f.floor = info.Size(), info.Size(), info.Size()
	d.files[f] = true
	return f, nil
}

// rename tells what a file is now called.
func (d *disk) rename(f *file, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f.name = name
}

// forget drops a file that has lost its last name. Who has it open still reads
// what was written, and a power cut finds nothing of it.
func (d *disk) forget(f *file) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files[f] {
		delete(d.files, f)
		d.giveBack(f.size)
		f.closeIdle()
	}
}

// giveBack returns space that files no longer take.
func (d *disk) giveBack(bytes int64) {
	if d.faults.Space > 0 {
		d.space = min(d.faults.Space, d.space+bytes)
	}
}

// grow takes space for a file that grows.
func (d *disk) grow(f *file, bytes int64) error {
	if bytes <= 0 || !d.meets(f) {
		return nil
	}
	if d.faults.Full || d.faults.Space > 0 && bytes > d.space {
		d.counts.NoSpace++
		return syscall.ENOSPC
	}
	if d.faults.Space > 0 {
		d.space -= bytes
	}
	return nil
}

// sync makes what was written to f durable, or does what the faults say.
func (d *disk) sync(f *file) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if delay := d.faults.SyncDelay; delay > 0 && d.meets(f) {
		d.counts.SyncsDelayed++
		d.mu.Unlock()
		time.Sleep(delay)
		d.mu.Lock()
	}
	if len(f.log) == 0 && !d.off {
		return nil // nothing to flush, and nothing to lie about
	}
	if !d.powered() {
		return syscall.EIO
	}
	switch {
	case d.strikes(d.faults.SyncLies, f):
		d.counts.SyncsLied++
		return nil
	case d.strikes(d.faults.SyncFails && len(f.unflushed()) >= d.faults.Pages, f):
		d.counts.SyncsFailed++
		f.loseTrack()
		return syscall.EIO
	}
	pages, err := f.persist()
	if err != nil {
		return err
	}
	d.counts.Syncs++
	d.counts.PagesSynced += pages
	return nil
}

// syncAll makes everything durable, whatever the faults are: an orderly shutdown.
func (d *disk) syncAll() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var first error
	for f := range d.files {
		if _, err := f.persist(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// left is the space that is left, if there is a limit.
func (d *disk) left() (bytes int64, limited bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.faults.Full {
		return 0, true
	}
	return d.space, d.faults.Space > 0
}
