package redis

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/impart-im/impart/internal/bus"
)

// outboxLimit is how many messages may wait to be told to the other nodes. Past it
// all of them are dropped, and one Missed takes their place.
const outboxLimit = 8192

// outbox holds what the other nodes have not been told yet.
type outbox struct {
	more    chan struct{} // holds one token while there may be something
	drained chan struct{} // closed when the outbox is closed and empty, or given up

	mu       sync.Mutex // guards what follows
	messages []bus.Message
	dropped  int // and not yet counted
	closed   bool
}

func newOutbox() outbox { return outbox{more: make(chan struct{}, 1), drained: make(chan struct{})} }

func (o *outbox) put(messages []bus.Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || len(messages) == 0 {
		return
	}
	for i := range messages {
		if len(o.messages) >= outboxLimit {
			o.dropped += len(o.messages)
			o.messages = append(o.messages[:0], bus.Message{Kind: bus.Missed})
		}
		o.messages = append(o.messages, messages[i])
	}
	signal(o.more)
}

// lost puts the word that something was lost before all that waits.
func (o *outbox) lost(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropped += n
	if len(o.messages) == 0 || o.messages[0].Kind != bus.Missed {
		o.messages = append([]bus.Message{{Kind: bus.Missed}}, o.messages...)
	}
	signal(o.more)
}

// take is everything that waits, and how many were dropped. spare is an empty slice to
// queue into.
func (o *outbox) take(spare []bus.Message) (messages []bus.Message, dropped int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	messages, o.messages = o.messages, spare
	dropped, o.dropped = o.dropped, 0
	return messages, dropped
}

func (o *outbox) size() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.messages)
}

// over reports whether the outbox is closed and empty.
func (o *outbox) over() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closed && len(o.messages) == 0
}

func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	signal(o.more)
}

// tell sends what waits to the other nodes, until ctx ends or the outbox is closed and
// empty. What cannot be sent is not kept: newer hints are worth more. That it is lost
// is told to everybody as soon as that can be sent.
func (b *Bus) tell(ctx context.Context) {
	defer close(b.out.drained)
	var spare []bus.Message
	for failed := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-b.out.more:
		}
		messages, dropped := b.out.take(spare[:0])
		b.c.metrics.lost.Add(float64(dropped))
		lost, err := b.send(ctx, messages)
		clear(messages) // their strings are not kept alive
		spare = messages
		b.setMute(err)
		if err != nil && ctx.Err() == nil {
			if failed++; failed == 1 {
				b.c.metrics.breaks.WithLabelValues("publish").Inc()
				b.cfg.Log.Warn("the bus cannot tell other nodes what is new; their sweeps find it", "err", err)
			}
			b.c.metrics.failed.WithLabelValues(partBus).Inc()
			b.out.lost(lost)
			if !wait(ctx, 25*time.Millisecond+rand.N(min(b.cfg.MaxBackoff, 25*time.Millisecond<<min(failed, 10)))) {
				return
			}
			continue
		}
		failed = 0
		if b.out.over() {
			return
		}
	}
}

// send sends messages, twice if need be, and counts those that were not sent.
func (b *Bus) send(ctx context.Context, messages []bus.Message) (lost int, err error) {
	conn := b.c.get()
	if len(messages) == 0 {
		return 0, nil
	}
	if conn == nil {
		return len(messages), errDown
	}
	letters := b.letters(messages)
	for attempt := 0; attempt < 2 && len(letters) > 0; attempt++ {
		letters, err = b.post(ctx, conn, letters)
	}
	for i := range letters {
		lost += letters[i].messages
	}
	b.c.metrics.told.Add(float64(len(messages) - lost))
	return lost, err
}

// letter is one payload for one channel.
type letter struct {
	to       string
	payload  string
	messages int
}

// letters puts what goes through one channel together.
func (b *Bus) letters(messages []bus.Message) []letter {
	var order []channel
	to := map[channel][]bus.Message{}
	for i := range messages {
		c := channelOf(&messages[i])
		if to[c] == nil {
			order = append(order, c)
		}
		to[c] = append(to[c], messages[i])
	}
	var letters []letter
	for _, c := range order {
		for rest := to[c]; len(rest) > 0; {
			var payload []byte
			before := len(rest)
			payload, rest = bus.AppendPayload(nil, b.cfg.Origin, rest...)
			letters = append(letters, letter{b.names.of(c), string(payload), before - len(rest)})
		}
	}
	return letters
}

// lettersAtOnce bounds what is sent before an answer is waited for.
const lettersAtOnce = 256

// post sends letters once, and gives back those that failed.
func (b *Bus) post(ctx context.Context, conn rueidis.Client, letters []letter) (failed []letter, err error) {
	for len(letters) > 0 {
		n := min(len(letters), lettersAtOnce)
		some, e := b.postSome(ctx, conn, letters[:n])
		if failed = append(failed, some...); e != nil {
			err = e
		}
		letters = letters[n:]
	}
	return failed, err
}

func (b *Bus) postSome(ctx context.Context, conn rueidis.Client, letters []letter) (failed []letter, err error) {
	ctx, cancel := context.WithTimeout(ctx, silentFor) // nobody waits for it
	defer cancel()
	sharded := b.c.clustered()
	cmds := make([]rueidis.Completed, len(letters))
	for i, l := range letters {
		if sharded {
			cmds[i] = conn.B().Spublish().Channel(l.to).Message(l.payload).Build()
		} else {
			cmds[i] = conn.B().Publish().Channel(l.to).Message(l.payload).Build()
		}
	}
	for i, result := range conn.DoMulti(ctx, cmds...) {
		if e := result.Error(); e != nil {
			failed, err = append(failed, letters[i]), e
		}
	}
	return failed, err
}
