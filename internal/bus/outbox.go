package bus

import (
	"slices"
	"sync"
	"time"
)

// OutboxLimit is how many messages may wait in an [Outbox].
const OutboxLimit = 8192

// Outbox holds what the other nodes have not been told yet, between publishers, who
// never wait, and one teller. It is bounded: past [OutboxLimit] all that waits is
// dropped. Whatever was dropped or could not be told, one Missed stands for it, before
// all that was published later; it stands there once, however much was lost before it is
// told.
type Outbox struct {
	more chan struct{} // holds one token while there may be something, and after the close
	over chan struct{} // closed by the teller
	skip Kind

	mu       sync.Mutex // guards what follows
	messages []Message  // Invariant: len(messages) <= OutboxLimit + 1
	dropped  int64
	closed   bool
}

// NewOutbox makes an empty outbox. Messages of the kind skip are not taken, as others
// tell them; 0 is none.
func NewOutbox(skip Kind) *Outbox {
	return &Outbox{more: make(chan struct{}, 1), over: make(chan struct{}), skip: skip}
}

// Put adds messages. It never waits. After Close it does nothing.
func (o *Outbox) Put(messages []Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	for i := range messages {
		if o.skip != 0 && messages[i].Kind == o.skip {
			continue
		}
		if len(o.messages) >= OutboxLimit {
			o.drop(o.messages)
			o.messages = append(o.messages[:0], Message{Kind: Missed})
		}
		o.messages = append(o.messages, messages[i])
	}
	if len(o.messages) > 0 {
		o.signal()
	}
}

// Lost notes that messages which were taken could not be told, and will not be.
func (o *Outbox) Lost(messages []Message) {
	if len(messages) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drop(messages)
	if len(o.messages) == 0 || o.messages[0].Kind != Missed {
		o.messages = slices.Insert(o.messages, 0, Message{Kind: Missed})
	}
	o.signal()
}

// drop counts messages that were published; the word of an earlier loss is none.
func (o *Outbox) drop(messages []Message) {
	for i := range messages {
		if messages[i].Kind != Missed {
			o.dropped++
		}
	}
}

func (o *Outbox) signal() {
	select {
	case o.more <- struct{}{}:
	default:
	}
}

// More gives the teller a token when there may be something to take, or the outbox was
// closed.
func (o *Outbox) More() <-chan struct{} { return o.more }

// Take is everything that waits, in the order published. spare is an empty slice to put
// into.
func (o *Outbox) Take(spare []Message) []Message {
	o.mu.Lock()
	defer o.mu.Unlock()
	messages := o.messages
	o.messages = spare
	return messages
}

// Len is how many messages wait.
func (o *Outbox) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.messages)
}

// Dropped is how many messages were never told.
func (o *Outbox) Dropped() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.dropped
}

// Empty reports whether the outbox is closed and nothing waits: the teller may end.
func (o *Outbox) Empty() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closed && len(o.messages) == 0
}

// Finish says that the teller has ended.
func (o *Outbox) Finish() { close(o.over) }

// Close takes nothing more, and waits until the teller has told the rest, but not for
// longer than within.
func (o *Outbox) Close(within time.Duration) {
	o.mu.Lock()
	o.closed = true
	o.signal()
	o.mu.Unlock()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-o.over:
	case <-timer.C:
	}
}
