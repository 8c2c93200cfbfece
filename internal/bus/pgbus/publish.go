package pgbus

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/impart-im/impart/internal/bus"
)

// queueLimit is how many messages may wait to be told to the other nodes. Past it
// all of them are dropped, and one Missed takes their place.
const queueLimit = 8192

// queue holds what the other nodes have not been told yet.
type queue struct {
	more    chan struct{} // holds one token while there may be something
	drained chan struct{} // closed when the queue is closed and empty, or given up

	mu       sync.Mutex // guards what follows
	messages []bus.Message
	dropped  int64
	closed   bool
}

func newQueue() queue { return queue{more: make(chan struct{}, 1), drained: make(chan struct{})} }

// put queues messages; without those that the store tells by itself.
func (q *queue) put(messages []bus.Message, wakesInStore bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	for i := range messages {
		if wakesInStore && messages[i].Kind == bus.Wake {
			continue
		}
		if len(q.messages) >= queueLimit {
			q.lose(0)
		}
		q.messages = append(q.messages, messages[i])
	}
	if len(q.messages) > 0 {
		q.signal()
	}
}

// lose drops all that waits, and more that waits no longer; one Missed says so.
func (q *queue) lose(more int) {
	q.dropped += int64(len(q.messages) + more)
	q.messages = append(q.messages[:0], bus.Message{Kind: bus.Missed})
}

// lost notes that messages which had been taken could not be told.
func (q *queue) lost(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	// What waits was published later: it stays, and the word of the loss goes before it.
	q.dropped += int64(n)
	q.messages = slices.Insert(q.messages, 0, bus.Message{Kind: bus.Missed})
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// take is everything that waits. spare is an empty slice to queue into.
func (q *queue) take(spare []bus.Message) (messages []bus.Message, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	messages, q.messages = q.messages, spare
	return messages, q.closed
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signal()
}

// sizes are what waits and what was dropped, for the metrics.
func (q *queue) sizes() (waiting int, dropped int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.messages), q.dropped
}

// tell sends what waits to the other nodes, all of it in one transaction, until ctx
// ends or the queue is closed and empty.
func (b *Bus) tell(ctx context.Context) {
	defer close(b.out.drained)
	s := speaker{b: b}
	defer s.hangUp()
	var spare []bus.Message
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.out.more:
		}
		messages, closed := b.out.take(spare[:0])
		if len(messages) > 0 && !s.say(ctx, messages) {
			return
		}
		clear(messages) // their strings are not kept alive
		spare = messages
		if waiting, _ := b.out.sizes(); closed && waiting == 0 {
			return
		}
	}
}

// speaker is the connection that publishes, opened when it is needed.
type speaker struct {
	b      *Bus
	conn   *pgx.Conn
	failed int // attempts in a row
}

func (s *speaker) hangUp() {
	if s.conn != nil {
		s.b.part(s.conn)
		s.conn = nil
	}
}

// say tells messages to the other nodes. After a failure it tries again on a new
// connection; what had been told already is then told twice, which harms nobody.
// It is false when ctx has ended.
func (s *speaker) say(ctx context.Context, messages []bus.Message) bool {
	payloads := s.payloads(messages)
	for {
		err := s.try(ctx, payloads)
		if err == nil {
			s.failed = 0
			s.b.set(&s.b.mute, nil)
			s.b.metrics.told.Add(float64(len(messages)))
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if s.failed++; s.failed == 1 {
			s.b.metrics.breaks.WithLabelValues("publish").Inc()
			s.b.log.Warn("the bus cannot tell other nodes what is new; it tries again, and their sweeps find the rest", "err", err)
		}
		s.b.set(&s.b.mute, err)
		old := false
		if waiting, _ := s.b.out.sizes(); waiting >= queueLimit/2 {
			s.b.out.lost(len(messages)) // those that wait are newer, and told as soon as it goes
			old = true
		}
		if !s.b.pause(ctx, s.failed) || old {
			return ctx.Err() == nil
		}
	}
}

func (s *speaker) payloads(messages []bus.Message) []string {
	var payloads []string
	for rest := messages; len(rest) > 0; {
		var payload []byte
		payload, rest = bus.AppendPayload(nil, s.b.cfg.Origin, rest...)
		payloads = append(payloads, string(payload))
	}
	return payloads
}

// try sends payloads once. A connection that has failed is not used again.
func (s *speaker) try(ctx context.Context, payloads []string) error {
	if s.conn == nil {
		conn, err := s.b.connect(ctx, "publish")
		if err != nil {
			return err
		}
		s.conn = conn
	}
	ctx, cancel := context.WithTimeout(ctx, max(s.b.patience(), 3*time.Second))
	defer cancel()
	err := s.notify(ctx, payloads)
	if err != nil && !isQueueFull(err) {
		s.hangUp()
	}
	return err
}

// notify tells payloads, unless the server is not the store's. The same statement makes
// sure that it still says of itself what was judged; only if not, it is asked.
func (s *speaker) notify(ctx context.Context, payloads []string) error {
	const tell = "SELECT pg_notify(" + bus.NotifyChannel + ", payload) FROM unnest($1::text[]) AS payload"
	vouch := &s.b.cfg.Vouch
	for {
		says, err := vouch.again(s.conn.PgConn())
		if err != nil {
			return err
		}
		if vouch.Judge == nil {
			_, err := s.conn.Exec(ctx, tell, payloads)
			return err
		}
		tag, err := s.conn.Exec(ctx, tell+" WHERE ("+vouch.Query+") = $2::text", payloads, says)
		if err != nil || tag.RowsAffected() > 0 {
			return err
		}
		if err := vouch.ask(ctx, s.conn.PgConn()); err != nil {
			return err
		}
	}
}
