package pending

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/impart-im/impart/internal/fault"
)

// Local is a [Set] in the memory of this process.
type Local struct {
	mu     sync.Mutex
	flows  map[Key]*flow
	byConn map[uint64]*flow // head of the connection's list
	due    dueHeap
}

// NewLocal makes an empty set.
func NewLocal() *Local {
	return &Local{flows: map[Key]*flow{}, byConn: map[uint64]*flow{}}
}

// flow is an entry with its place in the heap and in its connection's list.
type flow struct {
	Entry
	at         time.Time
	index      int
	prev, next *flow
}

// Register implements [Set].
func (l *Local) Register(_ context.Context, entries ...Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for _, e := range entries {
		if f := l.flows[e.Key]; f != nil {
			f.Seq = max(f.Seq, e.Seq)
			continue
		}
		l.add(e, now)
	}
	return nil
}

// Moved implements [Set].
func (l *Local) Moved(_ context.Context, entries ...Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for _, e := range entries {
		f := l.flows[e.Key]
		if f == nil {
			l.add(e, now)
			continue
		}
		f.Seq, f.Attempts, f.Ladder = max(f.Seq, e.Seq), 1, e.Ladder
		f.at = now.Add(f.Ladder[0])
		heap.Fix(&l.due, f.index)
	}
	return nil
}

// Settle implements [Set].
func (l *Local) Settle(_ context.Context, keys ...Key) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		if f := l.flows[k]; f != nil {
			l.remove(f)
		}
	}
	return nil
}

// Drop implements [Set].
func (l *Local) Drop(_ context.Context, conn uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for f := l.byConn[conn]; f != nil; f = l.byConn[conn] {
		l.remove(f)
	}
	return nil
}

// Due implements [Set].
func (l *Local) Due(_ context.Context, limit int) ([]Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	var due []Entry
	for len(due) < limit && len(l.due) > 0 && !l.due[0].at.After(now) {
		f := l.due[0]
		if f.Attempts++; f.Attempts > Attempts && fault.Planted(fault.RetriesForEver) {
			f.Attempts = Attempts
		}
		due = append(due, f.Entry)
		if f.Attempts > Attempts {
			l.remove(f)
			continue
		}
		f.at = now.Add(f.Ladder[f.Attempts-1])
		heap.Fix(&l.due, f.index)
	}
	return due, nil
}

// Len implements [Set].
func (l *Local) Len(context.Context) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.flows), nil
}

func (l *Local) add(e Entry, now time.Time) {
	e.Attempts = 1
	f := &flow{Entry: e, at: now.Add(e.Ladder[0])}
	l.flows[e.Key] = f
	if first := l.byConn[e.Conn]; first != nil {
		f.next, first.prev = first, f
	}
	l.byConn[e.Conn] = f
	heap.Push(&l.due, f)
}

func (l *Local) remove(f *flow) {
	heap.Remove(&l.due, f.index)
	delete(l.flows, f.Key)
	switch {
	case f.prev != nil:
		f.prev.next = f.next
	case f.next != nil:
		l.byConn[f.Conn] = f.next
	default:
		delete(l.byConn, f.Conn)
	}
	if f.next != nil {
		f.next.prev = f.prev
	}
}

// dueHeap orders flows by due time; each knows its index.
type dueHeap []*flow

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *dueHeap) Push(x any) {
	f := x.(*flow)
	f.index = len(*h)
	*h = append(*h, f)
}
func (h *dueHeap) Pop() any {
	old := *h
	f := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return f
}
