package client

import (
	"database/sql"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

// probe searches for the highest event that the server's history and the store
// have in common: by halving, since two histories part once and for all.
type probe struct {
	held  []mark // the events of the store, ascending; the first may be the bare start
	lo    int    // held[lo] is agreed; -1: only the empty log
	hi    int    // held[hi] is not; len(held): not known
	asked bool
}

type mark struct {
	seq impart.Seq
	mid impart.MID // "" for the start, where no event is held
}

// sawEpoch enters an epoch that a frame has told of. Frames of an older one may
// still be on their way.
func (s *session) sawEpoch(e impart.Epoch) {
	if e > s.me.Epoch {
		s.enterEpoch(e)
	}
}

// enterEpoch puts every conversation in doubt: seqs may mean other events now.
// Nothing is stored, acknowledged or sent in one until it is clear up to where its
// history is the same.
func (s *session) enterEpoch(e impart.Epoch) {
	first := s.me.Epoch == 0
	s.me.Epoch = e
	if first && len(s.convs) == 0 {
		s.write(func(tx *sql.Tx) error { return run(tx, "UPDATE self SET epoch = ?", e) })
		return
	}
	s.caughtUp, s.pulled, s.toPull, s.pullHeld = false, false, true, false
	s.c.setStatus(func(st *Status) { st.Epoch, st.State = e, CatchingUp })
	s.write(func(tx *sql.Tx) error {
		if err := run(tx, "UPDATE self SET epoch = ?", e); err != nil {
			return err
		}
		if err := run(tx, "UPDATE conversations SET doubt = 1"); err != nil {
			return err
		}
		for _, c := range s.convs {
			s.busy[c] = true
			if c.known { // by now: earlier frames of this round may have begun it, or have cleared a doubt
				c.doubt, c.probe = true, nil
				continue
			}
			if err := c.rewind(tx, 0); err != nil {
				return err
			}
			s.lane(c.id).restart(time.Time{})
		}
		return nil
	})
}

// doubt puts one conversation in doubt.
func (s *session) doubt(c *conv) {
	if c.doubt || !c.known {
		return
	}
	s.caughtUp = false
	s.pulled, s.toPull = false, true
	c.doubt, c.probe = true, nil
	s.busy[c] = true
	s.c.setStatus(func(st *Status) { st.State = CatchingUp })
	s.write(func(tx *sql.Tx) error { return run(tx, "UPDATE conversations SET doubt = 1 WHERE conv = ?", c.id) })
}

// askProbe asks whether the server has the same event at a seq.
func (s *session) askProbe(c *conv) {
	if c.probe == nil {
		p := &probe{held: []mark{{seq: c.start}}, lo: -1}
		err := each(s.c.store.db, func(rows *sql.Rows) error {
			var m mark
			err := rows.Scan(&m.seq, &m.mid)
			p.held = append(p.held, m)
			return err
		}, "SELECT seq, mid FROM events WHERE conv = ? AND seq > ? AND seq <= ? ORDER BY seq", c.id, c.start, c.stored)
		if err != nil {
			s.c.cfg.Log.Error("cannot read the local store", "error", err)
			return
		}
		p.hi = len(p.held)
		c.probe = p
	}
	p := c.probe
	p.asked = true
	at := p.held[p.next()]
	limit := 1
	s.ask(&wire.Sync{Conv: c.id, After: &at.seq, AfterMID: at.mid, Limit: &limit, Epoch: s.me.Epoch},
		&request{kind: asksProbe, conv: c, probe: p})
}

// next is the place to ask about: at first the last one, where most find that
// nothing has changed.
func (p *probe) next() int {
	if p.hi == len(p.held) {
		return p.hi - 1
	}
	return (p.lo + p.hi) / 2
}

// open reports whether a request is the question that a conversation's search
// waits for: a newer epoch begins another search, and one that was given up has
// been asked again.
func (r *request) open() bool { return r.probe == r.conv.probe && !r.late }

func (s *session) probeAgreed(r *request) {
	p := r.probe
	if !r.open() {
		return
	}
	p.lo, p.asked = p.next(), false
	r.conv.pause = 0
	s.probed(r.conv)
}

// probeRefused takes another event, or none, as another history.
func (s *session) probeRefused(r *request, f *wire.ErrorFrame) {
	c := r.conv
	p := r.probe
	if !r.open() {
		return
	}
	p.asked = false
	switch code := f.Err.Code; {
	case code == impart.EpochChanged && f.Err.Epoch == s.me.Epoch, code == impart.CursorAhead:
		p.hi = p.next()
	case code == impart.EpochChanged || f.Retry:
		c.rest(f.Err.RetryAfter)
		return // asked again: in the newer epoch, or of a server that can answer
	case code != impart.NotMember:
		c.rest(0)
		return // it says nothing about the log
	default:
		// Whoever was one once may still read. So in this history nobody ever
		// was, and all that is here belongs to the other one.
		p.lo, p.hi = -1, 0
	}
	s.probed(c)
}

// probed ends the search once two neighbours are told apart.
func (s *session) probed(c *conv) {
	p := c.probe
	last := len(p.held) - 1
	if p.lo != last && p.lo+1 != p.hi {
		return
	}
	// What lies invisible behind the last event that is the same may be another
	// now: the cursor goes back to that event.
	agreed := impart.Seq(0)
	if p.lo >= 0 {
		agreed = p.held[p.lo].seq
	}
	s.write(func(tx *sql.Tx) error {
		if c.probe != p {
			return nil // a newer epoch came in the same round
		}
		before := c.stored
		if err := c.rewind(tx, agreed); err != nil {
			return err
		}
		s.c.cfg.Log.Info("histories compared", "conv", c.id, "epoch", s.me.Epoch, "stored", before, "agreed", agreed)
		s.forgetAck(c)
		s.rereads = true
		poke(s.c.wakeHandler)
		s.lane(c.id).restart(time.Time{}) // what was undone comes first
		return nil
	})
}
