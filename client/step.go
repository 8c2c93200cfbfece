package client

import (
	"database/sql"
	"errors"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

// Bounds of the work under way in one connection.
const (
	maxSyncs  = 8   // conversations that are synced or probed at a time
	pageLimit = 500 // events a page is asked for
	maxReads  = 64  // read cursors in a turn
)

// step makes the frames that are due. Everything that it could tell the server of
// is on disk by now.
func (s *session) step() error {
	at := time.Now()
	s.looked = at
	if len(s.frames) == 0 { // after a slow write, the reply that is missing may be among them
		if err := s.giveUpLate(at); err != nil {
			return err
		}
	}
	if !s.staleAt.IsZero() {
		if at.Sub(s.staleAt) >= s.c.cfg.ReplyTimeout {
			return errStale
		}
		return nil
	}
	s.ping(at)
	if !s.welcomed {
		return nil
	}
	open := s.lookAtConvs(at)
	s.flushAcks(at)
	s.pull(at, open)
	if s.subbed && s.pulled && !s.caughtUp && open == 0 && !s.pullHeld {
		s.caughtUp = true
		s.c.setStatus(func(st *Status) { st.State = Online })
	}
	if !s.caughtUp {
		return nil
	}
	if err := s.sendReads(at); err != nil {
		return err
	}
	return s.pumpLanes(at)
}

// lookAtConvs compares and syncs what has to be, and counts the conversations
// without which the client has not caught up.
func (s *session) lookAtConvs(at time.Time) (open int) {
	under := 0
	for c := range s.busy {
		if c.syncing || c.probe != nil && c.probe.asked {
			under++
		}
	}
	for c := range s.busy {
		if (c.doubt || c.sync) && !c.stuck(at) {
			open++
		}
		switch {
		case c.syncing || c.probe != nil && c.probe.asked || at.Before(c.resume):
		case !c.known && !c.sync:
			// Only the server knows where its log begins for this device.
			s.toPull = s.toPull || c.want > 0
			if c.want == 0 {
				delete(s.busy, c)
			}
		case c.doubt && under < maxSyncs:
			s.askProbe(c)
			under++
		case !c.doubt && (c.sync || s.pulled && c.behind()) && under < maxSyncs:
			s.askSync(c)
			under++
		case !c.doubt && !c.behind() && c.stored <= c.asked:
			delete(s.busy, c)
		}
	}
	return open
}

// askSync asks for what follows the cursor, and shows the server what stands at it.
func (s *session) askSync(c *conv) {
	mid, err := midAt(s.c.store.db, c.id, c.stored)
	if err != nil {
		s.c.cfg.Log.Error("cannot read the local store", "error", err)
		return
	}
	after, limit := c.stored, pageLimit
	c.syncing = true
	s.ask(&wire.Sync{Conv: c.id, After: &after, AfterMID: mid, Limit: &limit, Epoch: s.me.Epoch},
		&request{kind: asksSync, conv: c, after: after, want: c.want})
}

// syncRefused goes by the cause: another history, or no access.
func (s *session) syncRefused(r *request, f *wire.ErrorFrame) {
	c := r.conv
	c.syncing = false
	switch code := f.Err.Code; {
	case code == impart.EpochChanged && f.Err.Epoch == s.me.Epoch, code == impart.CursorAhead:
		s.doubt(c) // the epoch is the same, and yet this conversation is not what it was
	case code == impart.EpochChanged || f.Retry:
		c.rest(f.Err.RetryAfter)
	default:
		c.sync, c.want = false, c.stored
	}
}

// pull asks for what this device lacks, one page after the other: the next one
// once the last is acknowledged, for otherwise it would be the same.
func (s *session) pull(at time.Time, open int) {
	if !s.subbed || !s.toPull || s.pulling || s.pullHeld || open > 0 || at.Before(s.pullAt) {
		return
	}
	s.pulling = true
	limit := pageLimit
	s.ask(&wire.Pull{Limit: &limit}, &request{kind: asksPull})
}

// sendReads tells the read cursors that the server does not know.
func (s *session) sendReads(at time.Time) error {
	if !s.rereads || at.Before(s.readAt) {
		return nil
	}
	s.rereads = false
	type mark struct {
		id   impart.ConvID
		read impart.Seq
	}
	var marks []mark
	err := each(s.c.store.db, func(rows *sql.Rows) error {
		var m mark
		err := rows.Scan(&m.id, &m.read)
		marks = append(marks, m)
		return err
	}, "SELECT conv, read FROM conversations WHERE read > read_told LIMIT ?", maxReads)
	for _, m := range marks {
		c := s.conv(m.id)
		c.read = max(c.read, m.read)
		if !c.reading && !c.doubt {
			c.reading = true
			s.ask(&wire.Read{Conv: c.id, Seq: m.read, Epoch: s.me.Epoch}, &request{kind: asksRead, conv: c})
		}
	}
	return err
}

// ping asks a silent server for a sign of life.
func (s *session) ping(at time.Time) {
	if s.welcomed && s.pinged.IsZero() && !at.Before(s.pingAt()) {
		s.pinged = at
		s.ask(&wire.Ping{}, &request{kind: asksPing})
	}
}

// pingAt is when silence has lasted for one and a half heartbeats: a server pings
// an idle connection once in each.
func (s *session) pingAt() time.Time {
	return s.heard().Add(s.limits.Heartbeat * 3 / 2)
}

// heard is when the server last showed life, by a frame or a ping.
func (s *session) heard() time.Time {
	if ping := s.c.pingHeard.Load(); ping != nil {
		return latest(*ping, s.lastRead)
	}
	return s.lastRead
}

// nextLook is when something will be due if no frame comes. What was due when step
// last looked is done, or waits for a frame.
func (s *session) nextLook() time.Time {
	next := s.looked.Add(time.Minute)
	sooner := func(t time.Time) {
		if t.After(s.looked) && t.Before(next) {
			next = t
		}
	}
	for _, r := range s.requests {
		if !r.late {
			sooner(r.due)
		}
	}
	for c := range s.busy {
		sooner(c.resume)
	}
	for _, l := range s.lanes {
		sooner(l.resume)
	}
	if s.unacked > 0 {
		sooner(s.ackSince.Add(s.c.cfg.AckDelay))
		sooner(s.ackAt)
	}
	sooner(s.pullAt)
	sooner(s.readAt)
	if s.pinged.IsZero() {
		sooner(s.pingAt())
	}
	if !s.staleAt.IsZero() {
		sooner(s.staleAt.Add(s.c.cfg.ReplyTimeout))
	}
	return next
}

// errStale ends a connection that the device has left, without the server's bye.
var errStale = errors.New("client: this connection is not the device's any more")
