package logic

import (
	"context"
	"encoding/binary"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

const (
	// clockEvery is how often the store's clock is read, and clockAgain how soon again
	// when it did not answer.
	clockEvery = 5 * time.Second
	clockAgain = time.Second
	// clockWithin bounds one reading.
	clockWithin = 3 * time.Second
	// backward is by how much readings may differ from each other without the store's
	// clock having been set: then time stands still rather than go back.
	backward = impart.Millis(1000)
)

// clock is the store's clock, kept without a round trip: what it showed at the last
// reading, and what has passed since by a clock that nobody sets. Every time that
// another node will compare is of it: those of events, revocations and epochs, and
// the age at which rows are removed. How far this machine's own clock is off
// matters to none of them.
//
// Where the store has no clock of its own, as a file has none, it is the machine's.
type clock struct {
	machine func() impart.Millis

	mu    sync.Mutex // guards what follows
	store impart.Millis
	at    time.Time     // when the store's clock showed that; zero: it was never read, or there is none
	last  impart.Millis // the last time given
}

// set takes a reading. One that the time kept here lies within tells nothing new: it
// moves nothing, so that slow answers do not make time jitter.
func (c *clock) set(v *store.Vitals) {
	if v.Asked.IsZero() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.at.IsZero() {
		off := c.store + millisOf(v.Asked.Sub(c.at)) - v.Now
		if max(off, -off) <= millisOf(v.Took/2)+1 {
			return
		}
	}
	c.store, c.at = v.Now, v.Asked
}

// now is the store's time. It goes back only where the store's clock was set back.
func (c *clock) now() impart.Millis {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		return c.machine()
	}
	now := c.store + millisOf(time.Since(c.at))
	if now < c.last && c.last-now <= backward {
		return c.last
	}
	c.last = now
	return now
}

func millisOf(d time.Duration) impart.Millis { return impart.Millis(d.Milliseconds()) }

// readClock reads the store's clock now.
func (s *Service) readClock(ctx context.Context) (store.Vitals, error) {
	ctx, cancel := context.WithTimeout(ctx, clockWithin)
	defer cancel()
	v, err := s.store.Vitals(ctx)
	if err == nil {
		s.clock.set(&v)
	}
	return v, err
}

// followClock reads the store's clock at once, before the first event is stamped, and
// then now and then until ctx ends. While it cannot be read, time goes on from the
// last reading.
func (s *Service) followClock(ctx context.Context) {
	v, err := s.readClock(ctx)
	if err == nil && v.Asked.IsZero() {
		return // the machine's is all there is
	}
	s.running.Go(func() {
		for {
			wait := clockEvery
			if err != nil {
				wait = clockAgain
			}
			if !pause(ctx, wait) {
				return
			}
			if _, err = s.readClock(ctx); err != nil && ctx.Err() == nil {
				s.failures.Do(func() {
					s.log.LogAttrs(ctx, slog.LevelWarn, "the store's clock could not be read", slog.Any("err", err))
				})
			}
		}
	})
}

// mids makes ids of events: UUIDs of version 7 (RFC 9562), whose first 48 bits are
// the time, here the store's. They rise strictly within the process, whatever the
// clock does.
type mids struct {
	mu   sync.Mutex
	last uint64 // ms << 12, plus what was counted within the millisecond
}

func (m *mids) next(now impart.Millis) impart.MID {
	// The error is that of crypto/rand, which ends the process instead of failing.
	id := uuid.Must(uuid.NewRandom())
	m.mu.Lock()
	m.last = max(uint64(now)<<12, m.last+1)
	t := m.last
	m.mu.Unlock()
	binary.BigEndian.PutUint64(id[:8], t>>12<<16|7<<12|t&0xfff)
	return impart.MID(id.String())
}
