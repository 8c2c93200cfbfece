package bus

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// queueLimit is how many messages may wait for one subscriber of a [Local].
const queueLimit = 8192

// errClosed is what a closed [Local] says of its health.
var errClosed = errors.New("the bus is closed")

// Local is the bus of a single process. It loses nothing but what a subscriber
// is too slow for: past [queueLimit] waiting messages, all of them are dropped
// and one [Missed] takes their place. Publish takes a lock for a moment and
// never waits for a subscriber.
type Local struct {
	mu     sync.Mutex // guards what follows
	subs   []*subscriber
	closed bool
}

var _ Bus = (*Local)(nil)

// NewLocal makes a bus without subscribers.
func NewLocal() *Local { return &Local{} }

// Publish implements [Bus]. After Close it does nothing.
func (l *Local) Publish(_ context.Context, messages ...Message) {
	if len(messages) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, sub := range l.subs {
		sub.put(messages)
	}
}

// Subscribe implements [Bus]. cancel returns when handle has returned for the
// last time, so it must not be called from handle; what waits then is dropped.
func (l *Local) Subscribe(handle func(Message)) (cancel func()) {
	sub := &subscriber{handle: handle, wake: make(chan struct{}, 1), done: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return func() {}
	}
	l.subs = append(l.subs, sub)
	go sub.run()
	return func() {
		l.mu.Lock()
		l.subs = slices.DeleteFunc(l.subs, func(s *subscriber) bool { return s == sub })
		l.mu.Unlock()
		sub.stop()
		<-sub.done
	}
}

// Health implements [Bus].
func (l *Local) Health() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosed
	}
	return nil
}

// Close ends every subscription and waits for their goroutines.
func (l *Local) Close() error {
	l.mu.Lock()
	subs := l.subs
	l.subs, l.closed = nil, true
	l.mu.Unlock()
	for _, sub := range subs {
		sub.stop()
	}
	for _, sub := range subs {
		<-sub.done
	}
	return nil
}

// subscriber is one handle with the messages that wait for it.
type subscriber struct {
	handle func(Message)
	wake   chan struct{} // holds one token while the queue may have something
	done   chan struct{} // closed when run has returned

	mu      sync.Mutex // guards what follows
	queue   []Message  // Invariant: len(queue) <= queueLimit
	stopped bool
}

// put queues messages, or one Missed for all that waits if they do not fit.
func (s *subscriber) put(messages []Message) {
	s.mu.Lock()
	if !s.stopped {
		if len(s.queue)+len(messages) > queueLimit {
			s.queue = append(s.queue[:0], Message{Kind: Missed})
		} else {
			s.queue = append(s.queue, messages...)
		}
	}
	s.mu.Unlock()
	s.signal()
}

// take is everything that waits, and whether the subscription still stands.
// spare is an empty slice to queue into.
func (s *subscriber) take(spare []Message) (queue []Message, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue, s.queue = s.queue, spare
	return queue, !s.stopped
}

func (s *subscriber) stop() {
	s.mu.Lock()
	s.stopped, s.queue = true, nil
	s.mu.Unlock()
	s.signal()
}

func (s *subscriber) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// halted reports whether the subscription has ended, between two messages of
// one batch.
func (s *subscriber) halted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

func (s *subscriber) run() {
	defer close(s.done)
	var spare []Message
	for range s.wake {
		queue, ok := s.take(spare[:0])
		if !ok {
			return
		}
		for i := range queue {
			if s.halted() {
				return
			}
			s.handle(queue[i])
		}
		spare = queue
		clear(spare) // its strings are not kept alive
	}
}
