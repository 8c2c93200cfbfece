package gateway

import (
	"sync"

	"github.com/impart-im/impart"
)

// maxWakes bounds the conversations that wait to be pushed; past it the sweep
// finds the rest.
const maxWakes = 100_000

// wakes are the parts of logs that have been committed and not yet pushed, one
// span a conversation. A conversation is with at most one pusher at a time, so
// that its events go out in order.
type wakes struct {
	mu     sync.Mutex
	ready  sync.Cond
	spans  map[impart.ConvID]*span
	queue  []impart.ConvID
	closed bool
}

// span is from..head of one conversation's log. Head 0: a pusher has taken it,
// and nothing has come since. members is the highest members' version in it, 0 once
// a wake-up did not tell.
type span struct {
	from, head impart.Seq
	members    int64
}

// with is both spans and what lies between them.
func (s span) with(other span) span {
	members := max(s.members, other.members)
	if s.members == 0 || other.members == 0 {
		members = 0
	}
	return span{min(s.from, other.from), max(s.head, other.head), members}
}

func newWakes() *wakes {
	w := &wakes{spans: map[impart.ConvID]*span{}}
	w.ready.L = &w.mu
	return w
}

// add notes what has committed; false when there are too many.
func (w *wakes) add(conv impart.ConvID, news span) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.spans[conv]
	switch {
	case s == nil && len(w.spans) >= maxWakes:
		return false
	case s == nil:
		w.spans[conv] = &news
	case s.head == 0:
		*s = news
		return true // its pusher queues it again
	default:
		*s = s.with(news)
		return true // queued already, or with a pusher
	}
	w.queue = append(w.queue, conv)
	w.ready.Signal()
	return true
}

// next blocks for a span; ok is false once closed.
func (w *wakes) next() (conv impart.ConvID, news span, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) == 0 && !w.closed {
		w.ready.Wait()
	}
	if w.closed {
		return "", span{}, false
	}
	conv = w.queue[0]
	if w.queue = w.queue[1:]; len(w.queue) == 0 {
		w.queue = nil
	}
	s := w.spans[conv]
	news, *s = *s, span{}
	return conv, news, true
}

// done gives a conversation back; what came meanwhile is queued.
func (w *wakes) done(conv impart.ConvID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.spans[conv]
	if s.head == 0 {
		delete(w.spans, conv)
		return
	}
	w.queue = append(w.queue, conv)
	w.ready.Signal()
}

func (w *wakes) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.ready.Broadcast()
}
