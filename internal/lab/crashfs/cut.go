package crashfs

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// cut cuts the power: what is not durable is dropped, but for what the mode keeps,
// drawn from the seed. Nothing works afterwards.
func (d *disk) cut(mode Mode, seed uint64) (Cut, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return Cut{}, nil
	}
	return d.drop(mode, seed)
}

// drop is cut with the lock held.
func (d *disk) drop(mode Mode, seed uint64) (Cut, error) {
	did := Cut{Dropped: map[string]int{}}
	d.off = true
	d.counts.Cuts++
	draw := rand.New(rand.NewPCG(seed, 0))
	// In the order of names, so that a seed draws the same for the same files.
	files := slices.SortedFunc(maps.Keys(d.files), func(a, b *file) int { return strings.Compare(a.name, b.name) })
	before := make([]map[int64]bool, len(files)) // pages to lose
	for i, f := range files {
		before[i] = f.unflushed()
	}
	var err error
	switch mode {
	case Clean:
	case Torn:
		for i, f := range files {
			err = cmp.Or(err, f.tear(draw, before[i]))
		}
	case Prefix:
		err = keepPrefix(draw, files)
	default:
		err = fmt.Errorf("there is no mode %q of a power cut", mode)
	}
	for i, f := range files {
		did.tally(f, before[i])
	}
	d.counts.PagesDropped += did.PagesDropped
	d.counts.PagesKept += did.PagesKept
	d.counts.SizesDropped += did.SizesDropped
	return did, err
}

// unflushed are the numbers of pages that are not durable as they can be read.
func (f *file) unflushed() map[int64]bool {
	pages := map[int64]bool{}
	for n := range f.pages {
		pages[n] = true
	}
	return pages
}

// tear writes each dirty page, and the size, or does not.
func (f *file) tear(draw *rand.Rand, pages map[int64]bool) error {
	limit := f.durable
	if f.size != f.durable && draw.IntN(2) == 0 {
		if err := f.back.Truncate(min(f.floor, f.size)); err != nil {
			return err
		}
		if err := f.back.Truncate(f.size); err != nil {
			return err
		}
		limit = f.size
	}
	for _, n := range slices.Sorted(maps.Keys(pages)) {
		p, start := f.pages[n], n*pageSize
		if !p.dirty || draw.IntN(2) == 0 || start >= limit {
			continue // a page behind the end of a file belongs to no file
		}
		if _, err := f.back.WriteAt(p.bytes[:min(pageSize, limit-start)], start); err != nil {
			return err
		}
	}
	return nil
}

// keepPrefix carries out the first of all changes, up to a drawn one.
func keepPrefix(draw *rand.Rand, files []*file) error {
	var all []change
	for _, f := range files {
		all = append(all, f.log...)
	}
	slices.SortFunc(all, func(a, b change) int { return cmp.Compare(a.when, b.when) })
	for _, c := range all[:draw.IntN(len(all)+1)] {
		var err error
		if c.bytes == nil {
			err = c.file.back.Truncate(c.at)
		} else {
			_, err = c.file.back.WriteAt(c.bytes, c.at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tally compares what a file was with what is left of it.
func (c *Cut) tally(f *file, pages map[int64]bool) {
	info, err := f.back.Stat()
	if err != nil || info.Size() != f.size {
		c.SizesDropped++
	}
	left := make([]byte, pageSize)
	for n := range pages {
		clear(left)
		read, _ := f.back.ReadAt(left, n*pageSize) // less at the end of the file
		want := f.pages[n].bytes[:min(pageSize, f.size-n*pageSize)]
		if read >= len(want) && string(left[:len(want)]) == string(want) {
			c.PagesKept++
		} else {
			c.PagesDropped++
			c.Dropped[f.name]++
		}
	}
}
