package client

import (
	"database/sql"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/wire"
)

// laneWindow is how many items of one conversation may be under way.
const laneWindow = 16

// lane sends the outbox items of one conversation in their order. Each names the
// one before it (prev), so that none can be stored before an earlier one, whatever
// happens to the earlier one. After a failure it waits until everything under way
// has come back, and begins again with the oldest item.
type lane struct {
	conv    impart.ConvID
	flights []*request
	last    int64 // the pos of the newest item that was sent
	halted  bool  // nothing more until flights is empty
	resume  time.Time
	delay   time.Duration // before the next try after a refusal
	refused bool          // an item was refused for good since the last start
}

// lane is the lane of a conversation.
func (s *session) lane(id impart.ConvID) *lane {
	l := s.lanes[id]
	if l == nil {
		l = &lane{conv: id, last: math.MinInt64}
		s.lanes[id] = l
	}
	return l
}

// findLanes makes a lane for each conversation with items that wait.
func (s *session) findLanes() error {
	return each(s.c.store.db, func(rows *sql.Rows) error {
		var id impart.ConvID
		err := rows.Scan(&id)
		s.lane(id)
		return err
	}, "SELECT DISTINCT conv FROM outbox WHERE code = ''")
}

// wakeLanes looks at the conversations that got items since the last time.
func (s *session) wakeLanes() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	for id := range s.c.fresh {
		s.lane(id)
	}
	clear(s.c.fresh)
}

// restart begins again with the oldest item, at a time, once nothing is under way.
func (l *lane) restart(at time.Time) {
	l.halted = true
	l.flights = slices.DeleteFunc(l.flights, func(r *request) bool { return r.late })
	if at.After(l.resume) {
		l.resume = at
	}
}

// landed takes a request out of those under way.
func (l *lane) landed(r *request) {
	l.flights = slices.DeleteFunc(l.flights, func(each *request) bool { return each == r })
	if len(l.flights) == 0 {
		l.delay = 0
	}
}

// pumpLanes sends what may be sent.
func (s *session) pumpLanes(at time.Time) error {
	if s.c.notes.full() {
		return nil
	}
	for id, l := range s.lanes {
		if c := s.convs[id]; at.Before(l.resume) || c != nil && c.doubt {
			continue
		}
		if l.halted {
			if len(l.flights) > 0 {
				continue
			}
			l.halted, l.refused, l.last = false, false, math.MinInt64
		}
		free := min(laneWindow-len(l.flights), max(min(maxRequests, s.limits.Inflight)*3/4, 1)-s.waiting)
		if free <= 0 {
			continue
		}
		list, err := items(s.c.store.db, "conv = ? AND code = '' AND pos > ? ORDER BY pos LIMIT ?", id, l.last, free)
		if err != nil {
			return err
		}
		for i := range list {
			s.sendItem(l, &list[i])
		}
		if len(list) < free && len(l.flights) == 0 {
			delete(s.lanes, id)
		}
	}
	return nil
}

// sendItem sends one item behind those of its lane that are under way.
func (s *session) sendItem(l *lane, it *Item) {
	if fault.Planted(fault.ClientCMIDAnew) && it.At < now()-1000 { // a retry, most likely
		it.CMID = newCMID()
	}
	r := &request{kind: asksItem, item: it}
	if it.Kind == impart.KindRecall {
		s.ask(&wire.Recall{Conv: it.Conv, Seq: it.Target, CMID: it.CMID, MID: it.TargetMID, Epoch: s.me.Epoch}, r)
	} else {
		s.ask(&wire.Send{
			Conv: it.Conv, CMID: it.CMID, Body: it.Body, Type: it.Type, Ext: it.Ext, Prev: l.prev(), Epoch: s.me.Epoch,
		}, r)
	}
	if fault.Planted(fault.ClientForgetsSent) {
		s.write(func(tx *sql.Tx) error { return run(tx, "DELETE FROM outbox WHERE cmid = ?", it.CMID) })
	}
	l.last = it.pos
	l.flights = append(l.flights, r)
}

// prev is the message under way that has to be stored first, "" if there is none.
func (l *lane) prev() impart.CMID {
	for _, r := range slices.Backward(l.flights) {
		if r.item.Kind == impart.KindMsg && !fault.Planted(fault.ClientNoPrev) {
			return r.item.CMID
		}
	}
	return ""
}

// itemRefused keeps the item for another attempt, or as refused for good. A
// refusal of the connection or of the epoch says nothing about the item.
func (s *session) itemRefused(r *request, f *wire.ErrorFrame) {
	it, refusal := r.item, f.Err
	l := s.lane(it.Conv)
	delay := l.delay
	l.landed(r)
	switch {
	case refusal.Code == impart.EpochChanged:
		l.restart(time.Now())
	case refusal.Code == impart.OutOfOrder && l.refused:
		l.restart(time.Now()) // it follows one that will never be stored: link it anew
	case f.Retry:
		l.delay = longer(delay)
		l.restart(time.Now().Add(max(min(refusal.RetryAfter, maxLater), l.delay/2+rand.N(l.delay/2))))
	default:
		l.refused = true
		s.write(func(tx *sql.Tx) error {
			kept, err := refuse(tx, it.CMID, refusal)
			if kept {
				s.told = append(s.told, Settled{CMID: it.CMID, Conv: it.Conv, Err: refusal})
			}
			return err
		})
	}
}
