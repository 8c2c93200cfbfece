// Package crashfs is a disk that can lose power: a file system over a directory
// that keeps what was not flushed in memory and writes it to the directory at
// fsync, fdatasync and O_DSYNC alone. A power cut drops what is in memory, or
// keeps a drawn part of it. It can also lie about a flush, fail or delay it, refuse
// writes and be full, and counts what it did, so that a check can tell whether its
// fault bit.
//
// What it does not show: names are durable at once (create, rename, unlink), so a
// missing flush of a directory goes unseen. It needs Linux, /dev/fuse and the right
// to mount; [Available] says what is missing.
package crashfs

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"time"
)

// pageSize is the unit in which a disk keeps or loses what was written.
const pageSize = 4096

// Mode says what a power cut keeps of what was not flushed.
type Mode string

// The modes of a power cut.
const (
	Clean  Mode = "clean"  // nothing
	Torn   Mode = "torn"   // each page, and each file's size, with a probability of a half
	Prefix Mode = "prefix" // the first of all changes, in the order in which they were made
)

func (m Mode) known() bool { return m == Clean || m == Torn || m == Prefix }

// Faults are what a disk does wrong. The zero value is a good disk. SyncLies,
// SyncFails and WriteFails share From and Count.
type Faults struct {
	// SyncLies lets a flush succeed and keep nothing durable.
	SyncLies bool `json:"sync_lies,omitzero"`
	// SyncFails lets a flush fail with EIO. As on Linux, what it should have written
	// can still be read and is never tried again: a later flush succeeds without it.
	SyncFails bool `json:"sync_fails,omitzero"`
	// SyncDelay is how long each flush takes before it does anything.
	SyncDelay time.Duration `json:"sync_delay,omitzero"`
	// WriteFails lets writes and truncations fail with EIO.
	WriteFails bool `json:"write_fails,omitzero"`
	// Full lets files no longer grow (ENOSPC). Writing over what is there works.
	Full bool `json:"full,omitzero"`
	// Space is how many bytes files may still grow before the disk is full; 0 is no
	// limit. What is truncated or removed gives its bytes back.
	Space int64 `json:"space,omitzero"`
	// Match limits the faults to files whose name matches this pattern, as "*-wal"
	// ([path.Match]); "" is every file.
	Match string `json:"match,omitzero"`
	// Pages lets a flush that fails be one of at least so many pages; 0 is any.
	Pages int `json:"pages,omitzero"`
	// From is how many flushes or writes to let pass first, Count how many to act on
	// after that; 0 is all.
	From  int `json:"from,omitzero"`
	Count int `json:"count,omitzero"`
}

// String is what the disk does wrong, in words: "each flush takes 3s".
func (f Faults) String() string {
	var does []string
	say := func(so bool, format string, args ...any) {
		if so {
			does = append(does, fmt.Sprintf(format, args...))
		}
	}
	say(f.SyncLies, "flushes lie")
	say(f.SyncFails && f.Pages == 0, "flushes fail")
	say(f.SyncFails && f.Pages > 0, "flushes of %d pages or more fail", f.Pages)
	say(f.SyncDelay > 0, "each flush takes %v", f.SyncDelay)
	say(f.WriteFails, "writes fail")
	say(f.Full, "it is full")
	say(f.Space > 0, "%d bytes are left", f.Space)
	if len(does) == 0 {
		return "a good disk"
	}
	say(f.Match != "", "for %s alone", f.Match)
	say(f.From > 0, "from the one after %d on", f.From)
	say(f.Count > 0, "%d times", f.Count)
	return strings.Join(does, ", ")
}

// Validate lists what is wrong with the faults.
func (f Faults) Validate() error {
	var faults []error
	if _, err := path.Match(f.Match, ""); err != nil {
		faults = append(faults, fmt.Errorf("the pattern %q (Match): %w", f.Match, err))
	}
	if f.SyncDelay < 0 || f.Space < 0 || f.Pages < 0 || f.From < 0 || f.Count < 0 {
		faults = append(faults, errors.New("SyncDelay, Space, Pages, From and Count should not be negative"))
	}
	if f.SyncLies && f.SyncFails {
		faults = append(faults, errors.New("a flush cannot lie and fail; set one of SyncLies and SyncFails"))
	}
	return errors.Join(faults...)
}

// Counts are what a disk has done.
type Counts struct {
	Writes       int `json:"writes"`        // writes taken
	Syncs        int `json:"syncs"`         // flushes that kept their word
	PagesSynced  int `json:"pages_synced"`  // pages that became durable by them
	SyncsLied    int `json:"syncs_lied"`    // flushes that lied while there was something to flush
	SyncsFailed  int `json:"syncs_failed"`  // flushes that failed while there was something to flush
	SyncsDelayed int `json:"syncs_delayed"` // flushes that were delayed
	WritesFailed int `json:"writes_failed"` // writes and truncations refused with EIO
	NoSpace      int `json:"no_space"`      // writes refused with ENOSPC
	Cuts         int `json:"cuts"`          // power cuts
	PagesDropped int `json:"pages_dropped"` // pages whose last change power cuts undid
	PagesKept    int `json:"pages_kept"`    // pages power cuts kept though they were not flushed
	SizesDropped int `json:"sizes_dropped"` // files whose size power cuts undid
}

// Cut is what one power cut did.
type Cut struct {
	PagesDropped int `json:"pages_dropped"`
	PagesKept    int `json:"pages_kept"`
	SizesDropped int `json:"sizes_dropped"`
	// Dropped are the pages dropped of each file, by its name without folders. What
	// counts for SQLite is the database and its -wal: the -shm, and the journal of
	// the store's lock file, are never flushed and nearly always in it.
	Dropped map[string]int `json:"dropped"`
}

// plus adds counts.
func (c Counts) plus(other Counts) Counts {
	c.Writes += other.Writes
	c.Syncs += other.Syncs
	c.PagesSynced += other.PagesSynced
	c.SyncsLied += other.SyncsLied
	c.SyncsFailed += other.SyncsFailed
	c.SyncsDelayed += other.SyncsDelayed
	c.WritesFailed += other.WritesFailed
	c.NoSpace += other.NoSpace
	c.Cuts += other.Cuts
	c.PagesDropped += other.PagesDropped
	c.PagesKept += other.PagesKept
	c.SizesDropped += other.SizesDropped
	return c
}
