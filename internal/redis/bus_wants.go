package redis

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
)

// wants is which channels this node needs, by how many interests.
type wants struct {
	mu   sync.Mutex // guards what follows
	refs [channels]int32
	all  int           // interests in everything
	turn chan struct{} // closed and replaced when a line hears other channels than before
}

// in lists the wanted channels of some groups.
func (w *wants) in(first, through int) []channel {
	w.mu.Lock()
	defer w.mu.Unlock()
	var wanted []channel
	for c := channel(first * perGroup); c < channel((through+1)*perGroup); c++ {
		if w.all > 0 || w.refs[c] > 0 {
			wanted = append(wanted, c)
		}
	}
	return wanted
}

// count is how many channels are wanted.
func (w *wants) count() int { return len(w.in(0, groups-1)) }

// named reports whether a channel of a group is wanted, by its name: one that is not
// is left on purpose.
func (w *wants) named(n names, name string, group int) bool {
	last, is := strings.CutPrefix(name, n.in(group))
	if !is {
		return false
	}
	index, err := strconv.Atoi(last)
	if err != nil {
		return true // the one for everyone, or this node's own
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return index < perGroup && (w.all > 0 || w.refs[group*perGroup+index] > 0)
}

// turned tells those who wait for a channel to look again.
func (w *wants) turned() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.turn)
	w.turn = make(chan struct{})
}

// next is closed when a line hears other channels than now.
func (w *wants) next() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.turn
}

// interest implements [bus.Interest].
type interest struct {
	b *Bus

	mu    sync.Mutex // guards what follows
	named []channel  // ascending
	all   bool
	ended bool
}

// Interest implements [bus.Selective].
func (b *Bus) Interest() bus.Interest { return &interest{b: b} }

// Add implements [bus.Interest].
func (i *interest) Add(ctx context.Context, convs ...impart.ConvID) bool {
	added := i.add(convs)
	if len(added) == 0 {
		return true
	}
	return i.b.await(ctx, added)
}

func (i *interest) add(convs []impart.ConvID) (added []channel) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended {
		return nil
	}
	for _, conv := range convs {
		c := channelOfConv(conv)
		if at, found := slices.BinarySearch(i.named, c); !found {
			i.named = slices.Insert(i.named, at, c)
			added = append(added, c)
		}
	}
	i.b.want(added, 0)
	return added
}

// AddAll implements [bus.Interest].
func (i *interest) AddAll(ctx context.Context) bool {
	i.mu.Lock()
	first := !i.all && !i.ended
	if first {
		i.all = true
		i.b.want(nil, 1)
	}
	i.mu.Unlock()
	if !first {
		return true
	}
	every := make([]channel, channels)
	for c := range every {
		every[c] = channel(c)
	}
	return i.b.await(ctx, every)
}

// Narrow implements [bus.Interest].
func (i *interest) Narrow() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.all {
		i.all = false
		i.b.want(nil, -1)
	}
}

// End implements [bus.Interest].
func (i *interest) End() {
	i.Narrow()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended = true
	w := &i.b.wants
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range i.named {
		w.refs[c]-- // the next check of its line leaves it
	}
	i.named = nil
}

// want counts new needs.
func (b *Bus) want(named []channel, all int) {
	fresh := false
	b.wants.mu.Lock()
	for _, c := range named {
		b.wants.refs[c]++
		fresh = fresh || b.wants.refs[c] == 1
	}
	b.wants.all += all
	fresh = fresh || all > 0 && b.wants.all == all
	b.wants.mu.Unlock()
	if !fresh {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.lines {
		l.wake()
	}
}

// await waits until channels are heard; false when ctx ends first.
func (b *Bus) await(ctx context.Context, wanted []channel) bool {
	for {
		turn := b.wants.next()
		if b.hears(wanted) {
			return true
		}
		select {
		case <-turn:
		case <-ctx.Done():
			return false
		}
	}
}

func (b *Bus) hears(wanted []channel) bool {
	b.mu.Lock()
	lines := b.lines
	b.mu.Unlock()
	if len(lines) == 0 {
		return false
	}
	for _, c := range wanted {
		if !lines[c.group()*len(lines)/groups].hears(c) {
			return false
		}
	}
	return true
}
