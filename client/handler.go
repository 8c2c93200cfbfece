package client

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
)

// Handler is how an application hears of things. Each field may be nil.
type Handler struct {
	// Event gets every event of every conversation, those sent by this client
	// included: per conversation in order of seq, none left out, and only after it
	// is durably stored. Once it has returned nil, the event is not handed over
	// again, unless the process dies in the moment after: key by (Conv, Seq) what
	// must not happen twice. After an error the same event comes again, with a
	// growing delay, and the other conversations go on meanwhile. A recalled event
	// comes without its text if the recall is known by then; otherwise the recall
	// follows as an event of its own.
	Event func(ctx context.Context, ev impart.Event) error
	// Rewound says that the server's history has changed (a new epoch): the events
	// of conv above after no longer hold. What takes their place comes to Event.
	Rewound func(conv impart.ConvID, after impart.Seq)
	// Settled says that an item of the outbox got its final answer, after it is on
	// disk. It is told once: what it might have said when the process died is found
	// with Outbox, Refused and Events. While more than a thousand calls wait for a slow
	// application, nothing more is sent.
	Settled func(Settled)
	// Status says that the connection's state has changed.
	Status func(Status)
	// Receipt says how far another user, or another of one's own devices, has come.
	Receipt func(Receipt)
	// Typing says that a user is typing.
	Typing func(conv impart.ConvID, user impart.UserID)
}

// Settled is the final answer to an outbox item.
type Settled struct {
	CMID impart.CMID
	Conv impart.ConvID
	// Seq, MID and At say where the server has committed it, when Err is nil.
	Seq impart.Seq
	MID impart.MID
	At  impart.Millis
	// Err is the final refusal. The item is kept and shown by [Client.Refused].
	Err *impart.Error
}

// Receipt says that a user has delivered and read a conversation up to here, on
// the furthest of their devices.
type Receipt struct {
	Conv      impart.ConvID
	User      impart.UserID
	Delivered impart.Seq
	Read      impart.Seq
}

// settled tells of items that got their answer, after it is on disk.
func (c *Client) settled(list []Settled) {
	if len(list) == 0 {
		return
	}
	c.mu.Lock()
	c.announce()
	c.mu.Unlock()
	if c.cfg.Handler.Settled != nil {
		for _, each := range list {
			c.notes.add(func() { c.cfg.Handler.Settled(each) })
		}
	}
}

// Bounds of the hand-over.
const (
	handBatch    = 100 // events of one conversation in a turn
	maxLots      = 1000
	minHandDelay = 100 * time.Millisecond
	maxHandDelay = 30 * time.Second
)

// failure is a conversation whose handler has returned an error.
type failure struct {
	delay time.Duration
	until time.Time
}

// runHandler hands stored events over, in turns.
func (c *Client) runHandler() {
	failed := map[impart.ConvID]failure{}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-c.wakeHandler:
		case <-timer.C:
		case <-c.ctx.Done():
			return
		}
		wait, err := c.handOver(failed)
		if err != nil && c.ctx.Err() == nil {
			c.cfg.Log.Error("cannot read the events to hand over", "error", err)
			wait = maxHandDelay
		}
		if wait > 0 {
			timer.Reset(wait)
		}
	}
}

// lot is a conversation with events that the application lacks.
type lot struct {
	conv      impart.ConvID
	handled   impart.Seq
	stored    impart.Seq
	rewinds   int64
	rewoundTo sql.NullInt64
}

// handOver gives every conversation turns until nothing is left, and says when
// to look again at those that failed (0: no need).
func (c *Client) handOver(failed map[impart.ConvID]failure) (time.Duration, error) {
	after, worked, wait := impart.ConvID(""), false, time.Duration(0)
	for c.ctx.Err() == nil {
		lots, err := c.lots(after)
		if err != nil {
			return 0, err
		}
		for _, l := range lots {
			if left := time.Until(failed[l.conv].until); left > 0 {
				wait = soonest(wait, left)
				continue
			}
			worked = true
			ok, err := c.handLot(l)
			if err != nil {
				return 0, err
			}
			if ok {
				delete(failed, l.conv)
				continue
			}
			delay := min(max(2*failed[l.conv].delay, minHandDelay), maxHandDelay)
			failed[l.conv] = failure{delay: delay, until: time.Now().Add(delay/2 + rand.N(delay/2))}
		}
		switch {
		case len(lots) == maxLots:
			after = lots[maxLots-1].conv
		case !worked && wait > 0:
			// Where many have failed, each look passes over all of them.
			return max(wait, time.Duration(len(failed))*time.Millisecond), nil
		case !worked:
			return 0, nil
		default:
			after, worked, wait = "", false, 0
		}
	}
	return 0, nil
}

// lots lists conversations with ids above after, maxLots of them at most.
func (c *Client) lots(after impart.ConvID) ([]lot, error) {
	var lots []lot
	err := each(c.store.db, func(rows *sql.Rows) error {
		var l lot
		err := rows.Scan(&l.conv, &l.handled, &l.stored, &l.rewinds, &l.rewoundTo)
		lots = append(lots, l)
		return err
	}, `SELECT conv, handled, stored, rewinds, rewound_to FROM conversations
		WHERE doubt = 0 AND (handled < stored OR rewound_to IS NOT NULL) AND conv > ? ORDER BY conv LIMIT ?`, after, maxLots)
	return lots, err
}

// handLot hands over one turn of a conversation, and notes how far it came. It
// reports whether the handler took everything.
func (c *Client) handLot(l lot) (bool, error) {
	if l.rewoundTo.Valid {
		if c.cfg.Handler.Rewound != nil {
			c.cfg.Handler.Rewound(l.conv, impart.Seq(l.rewoundTo.Int64))
		}
		return true, c.store.write(c.ctx, func(tx *sql.Tx) error {
			return run(tx, "UPDATE conversations SET rewound_to = NULL WHERE conv = ? AND rewinds = ?", l.conv, l.rewinds)
		})
	}
	through := l.stored
	if fault.Planted(fault.ClientHandsOverGap) {
		through = impart.MaxNumber
	}
	events, err := eventsAfter(c.store.db, l.conv, l.handled, through, handBatch)
	if err != nil {
		return false, err
	}
	ok, handled := true, l.stored
	for _, ev := range events {
		if err := c.cfg.Handler.Event(c.ctx, ev); err != nil {
			c.cfg.Log.Warn("the handler refused an event; it will get it again", "conv", ev.Conv, "seq", ev.Seq, "error", err)
			ok, handled = false, ev.Seq-1
			break
		}
		if c.ctx.Err() != nil {
			ok, handled = false, ev.Seq
			break
		}
	}
	if len(events) == handBatch && ok {
		handled = events[len(events)-1].Seq
	}
	if handled <= l.handled {
		return ok, nil
	}
	// After a rewind that came in between, only what it has left counts.
	return ok, c.store.write(context.WithoutCancel(c.ctx), func(tx *sql.Tx) error {
		return run(tx, `UPDATE conversations SET handled =
			max(handled, CASE WHEN rewinds = ?1 THEN ?2 ELSE min(?2, coalesce(rewound_to, 0)) END) WHERE conv = ?3`,
			l.rewinds, handled, l.conv)
	})
}

// soonest is the shorter of two waits, 0 standing for none.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// eventsAfter reads stored events with after < seq <= through, ascending.
func eventsAfter(q querier, id impart.ConvID, after, through impart.Seq, limit int) ([]impart.Event, error) {
	var events []impart.Event
	err := each(q, func(rows *sql.Rows) error {
		ev, err := scanEvent(rows)
		events = append(events, ev)
		return err
	}, "SELECT "+eventColumns+" FROM events WHERE conv = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?", id, after, through, limit)
	return events, err
}
