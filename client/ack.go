package client

import (
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

// countUnacked notes events that were stored and not yet acknowledged.
func (s *session) countUnacked(events int) {
	if s.unacked == 0 {
		s.ackSince = time.Now()
	}
	s.unacked += events
}

// maxAcks bounds the acks under way. What comes meanwhile is in the next one.
const maxAcks = 4

// flushAcks acknowledges what is stored, once there is enough of it or it has
// waited long enough; while catching up at once, for the next page waits for it.
func (s *session) flushAcks(at time.Time) {
	if !s.subbed || s.unacked == 0 && !s.pullHeld || at.Before(s.ackAt) || s.acking >= maxAcks {
		return
	}
	ripe := s.unacked >= s.limits.AckEvery || !at.Before(s.ackSince.Add(s.c.cfg.AckDelay))
	if s.caughtUp && !ripe && !s.pullHeld {
		return
	}
	var moved []*conv
	for c := range s.busy {
		if c.known && !c.doubt && c.stored > c.asked {
			moved = append(moved, c)
		}
	}
	s.unacked = 0
	for len(moved) > 0 {
		part := moved[:min(len(moved), impart.MaxLimit)]
		moved = moved[len(part):]
		s.ack(part)
	}
	// An ack under way lets the next page come when it is answered.
	s.pullHeld = s.pullHeld && s.acking > 0
}

// ack tells how far conversations are stored, and the count of durable writes
// that this rests on.
func (s *session) ack(convs []*conv) {
	n := s.me.N
	frame := &wire.Ack{N: &n, Epoch: s.me.Epoch, Batch: len(convs) > 1}
	for _, c := range convs {
		c.asked = c.stored
		frame.Items = append(frame.Items, impart.AckItem{Conv: c.id, Seq: c.stored})
	}
	s.acking++
	s.ask(frame, &request{kind: asksAck, acks: convs})
}

// ackEnded notes that an ack was answered, refused or lost.
func (s *session) ackEnded() {
	s.acking--
	s.pullHeld = s.pullHeld && s.acking > 0
}

// ackLost tells again what an ack has told that got no answer.
func (s *session) ackLost(r *request) {
	s.ackEnded()
	for _, c := range r.acks {
		s.forgetAck(c)
	}
}

// forgetAck assumes that the server knows nothing of the cursor.
func (s *session) forgetAck(c *conv) {
	c.asked = 0
	s.busy[c] = true
	s.countUnacked(1)
}

// ackAnew tells of every conversation again.
func (s *session) ackAnew() {
	for _, c := range s.convs {
		if c.known {
			s.forgetAck(c)
		}
	}
}

// ackRefused goes by the cause: later, or not at all.
func (s *session) ackRefused(r *request, f *wire.ErrorFrame) {
	if f.Retry || f.Err.Code == impart.EpochChanged {
		s.ackLost(r)
		return
	}
	s.ackEnded()
	for _, c := range r.acks {
		if f.Err.Code == impart.CursorAhead {
			s.doubt(c)
		}
	}
}
