package pgbus

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/impart-im/impart/internal/bus"
)

// tell sends what waits to the other nodes, all of it in one transaction, until ctx
// ends or the outbox is closed and empty.
func (b *Bus) tell(ctx context.Context) {
	defer b.out.Finish()
	s := speaker{b: b}
	defer s.hangUp()
	var spare []bus.Message
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.out.More():
		}
		messages := b.out.Take(spare[:0])
		if len(messages) > 0 && !s.say(ctx, messages) {
			return
		}
		clear(messages) // their strings are not kept alive
		spare = messages
		if b.out.Empty() {
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
		if s.b.out.Len() >= bus.OutboxLimit/2 {
			s.b.out.Lost(messages) // those that wait are newer, and told as soon as it goes
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
