package client

import (
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/wire"
)

// take notes what a frame wants. An error ends the connection.
func (s *session) take(frame wire.ServerFrame) error {
	switch f := frame.(type) {
	case *wire.Welcome:
		return s.takeWelcome(f)
	case *wire.Subbed:
		return s.takeSubbed(f)
	case *wire.Event:
		s.takeEvent(f)
	case *wire.Sent:
		s.takeSent(f)
	case *wire.Synced:
		s.takeSynced(f)
	case *wire.Pulled:
		s.takePulled(f)
	case *wire.Acked:
		s.takeAcked(f)
	case *wire.Readed:
		s.takeReaded(f)
	case *wire.Hint:
		s.takeHint(f)
	case *wire.Whos:
		s.takeResult(f.RID, f)
	case *wire.ConvsPage:
		s.takeResult(f.RID, f)
	case *wire.Pong:
		s.answered(f.RID, asksPing)
	case *wire.Receipt:
		s.takeReceipt(f)
	case *wire.TypingNote:
		if told := s.c.cfg.Handler.Typing; told != nil {
			s.c.mayNote(func() { told(f.Conv, f.User) })
		}
	case *wire.ErrorFrame:
		return s.takeError(f)
	case *wire.Bye:
		return &laterError{
			error: &Bye{Code: string(f.Code), Final: f.Code.Final()},
			after: min(f.ReconnectAfter, maxLater),
		}
	}
	return nil
}

// takeWelcome compares the server's view with the store's: whose it is, whether
// the server counts the device as new, and whether history is another.
func (s *session) takeWelcome(f *wire.Welcome) error {
	if s.answered(f.RID, asksHello) == nil {
		return nil
	}
	if owner := s.me.User; owner != "" && owner != f.User {
		return &wrongUser{store: owner, token: f.User}
	}
	anew := s.me.InstallEpoch != f.Install
	s.me.User, s.me.InstallEpoch = f.User, f.Install
	s.limits, s.welcomed = workable(f.Limits), true
	s.write(func(tx *sql.Tx) error {
		return run(tx, "UPDATE self SET user = ?, install_epoch = ?", f.User, f.Install)
	})
	if s.me.Epoch != f.Epoch {
		s.enterEpoch(f.Epoch)
	}
	if anew {
		s.ackAnew() // the server has forgotten what this store holds
	}
	s.c.setStatus(func(st *Status) {
		st.State, st.Err, st.User, st.Epoch, st.RetryAt = CatchingUp, nil, f.User, f.Epoch, time.Time{}
		select { // a Reconnect has what it wanted, and is not kept for later
		case <-s.c.returnNow:
		default:
		}
	})
	s.ask(&wire.Sub{}, &request{kind: asksSub})
	return nil
}

// workable is what a server may say of itself, and that a client can live with.
func workable(l wire.Limits) wire.Limits {
	l.AckEvery, l.Inflight = max(l.AckEvery, 1), max(l.Inflight, 1)
	l.Heartbeat = min(max(l.Heartbeat, time.Second), time.Hour)
	return l
}

func (s *session) takeSubbed(f *wire.Subbed) error {
	if s.answered(f.RID, asksSub) == nil {
		return nil
	}
	s.subbed = true
	s.sawEpoch(f.Epoch)
	for _, state := range f.Convs {
		c := s.conv(state.Conv)
		c.want = max(c.want, state.Head)
		if c.known && state.Delivered < c.stored {
			c.asked = state.Delivered // the last ack was lost
			s.countUnacked(1)
		}
		s.write(func(tx *sql.Tx) error {
			if f.Epoch != s.me.Epoch {
				return nil // its log may begin elsewhere now; a page says where
			}
			if err := c.begin(tx, state.Delivered); err != nil || c.doubt {
				return err
			}
			return c.readTo(tx, state.Read)
		})
	}
	return nil
}

// takeReceipt tells the application, and keeps what the user has read on another
// of their devices.
func (s *session) takeReceipt(f *wire.Receipt) {
	if f.User == s.me.User {
		s.write(func(tx *sql.Tx) error {
			c := s.conv(f.Conv)
			if !c.known || c.doubt {
				return nil
			}
			return c.readTo(tx, f.Read)
		})
	}
	if told := s.c.cfg.Handler.Receipt; told != nil {
		s.c.mayNote(func() {
			told(Receipt{Conv: f.Conv, User: f.User, Delivered: f.Delivered, Read: f.Read})
		})
	}
}

func (s *session) takeEvent(f *wire.Event) {
	s.sawEpoch(f.Epoch)
	if fault.Planted(fault.ClientAcksEarly) {
		s.send(&wire.Ack{N: &s.me.N, Epoch: f.Epoch, Items: []impart.AckItem{{Conv: f.Event.Conv, Seq: f.Event.Seq}}})
	}
	s.put(f.Event, f.Epoch, false)
}

// put stores one event of the present history.
func (s *session) put(ev *impart.Event, epoch impart.Epoch, force bool) {
	s.write(func(tx *sql.Tx) error {
		if epoch != s.me.Epoch {
			return nil
		}
		c := s.conv(ev.Conv)
		c.want = max(c.want, ev.Seq)
		if c.doubt {
			return nil // it comes again once it is clear what it follows
		}
		if !force && ev.Seq <= c.stored && c.known && !ev.Recalled {
			return nil
		}
		return s.apply(tx, c, ev)
	})
}

// apply puts an event into its conversation, in the transaction of this round.
func (s *session) apply(tx *sql.Tx, c *conv, ev *impart.Event) error {
	settled, err := c.put(tx, s.me, ev)
	s.told = append(s.told, settled...)
	s.stored++
	if errors.Is(err, errOtherEvent) {
		s.doubt(c)
		err = nil
	}
	if ev.Sender == s.me.User {
		s.lane(ev.Conv) // it may have been cancelled, and now has to be recalled
	}
	return err
}

// takeSent turns the item that was sent into the event that it has become.
func (s *session) takeSent(f *wire.Sent) {
	r := s.answered(f.RID, asksItem)
	if r == nil {
		return
	}
	lane, it := s.lane(r.item.Conv), r.item
	lane.landed(r)
	s.sawEpoch(f.Sent.Epoch)
	if f.Sent.Conv != it.Conv {
		return // the item stays, and is looked for in the log
	}
	ev := &impart.Event{
		Conv: it.Conv, Seq: f.Sent.Seq, Kind: it.Kind, MID: f.Sent.MID, Sender: s.me.User, CMID: it.CMID,
		Type: it.Type, Body: it.Body, Ext: it.Ext, Target: it.Target, TargetMID: it.TargetMID, At: f.Sent.At,
	}
	s.put(ev, f.Sent.Epoch, true)
}

func (s *session) takeAcked(f *wire.Acked) {
	if r := s.answered(f.RID, asksAck); r != nil && !r.late {
		s.ackEnded()
	}
	for _, item := range f.Items {
		c := s.conv(item.Conv)
		switch {
		case item.Err == nil:
			c.want = max(c.want, item.Delivered)
		case impart.CodeOf(item.Err) == impart.CursorAhead:
			s.doubt(c)
		}
	}
}

func (s *session) takeReaded(f *wire.Readed) {
	r := s.answered(f.RID, asksRead)
	if r == nil {
		return
	}
	c := r.conv
	c.reading = false
	s.write(func(tx *sql.Tx) error {
		return c.readTo(tx, f.Read)
	})
	s.rereads = true
}

func (s *session) readRefused(r *request, f *wire.ErrorFrame, later time.Time) {
	c := r.conv
	c.reading, s.rereads, s.readAt = false, true, later
	if f.Retry || f.Err.Code == impart.EpochChanged {
		return
	}
	s.write(func(tx *sql.Tx) error { // it will not become right
		return run(tx, "UPDATE conversations SET read_told = max(read_told, read) WHERE conv = ?", c.id)
	})
}

// takeHint notes what the server says we lack. If it is here already, the ack has
// not arrived: it is sent again.
func (s *session) takeHint(f *wire.Hint) {
	s.sawEpoch(f.Epoch)
	if f.Conv == "" {
		s.toPull = true
		return
	}
	if f.Epoch < s.me.Epoch {
		return
	}
	c := s.conv(f.Conv)
	c.want = max(c.want, f.Head)
	if c.known && c.stored >= f.Head {
		c.asked = 0
		s.countUnacked(s.limits.AckEvery)
	}
}

func (s *session) takeResult(rid string, frame wire.ServerFrame) {
	if r := s.answered(rid, asksCall); r != nil && r.call != nil {
		r.call.done <- result{frame: frame}
	}
}

// takeSynced stores a page, and moves the cursor over what it covers.
func (s *session) takeSynced(f *wire.Synced) {
	r := s.answered(f.RID, asksSync, asksProbe, asksCall)
	s.sawEpoch(f.Page.Epoch)
	switch {
	case r == nil || r.late:
		return
	case r.kind == asksCall:
		r.call.done <- result{frame: f}
		return
	case r.kind == asksProbe:
		s.probeAgreed(r)
		return
	}
	c := r.conv
	c.syncing = false
	s.write(func(tx *sql.Tx) error {
		if f.Page.Epoch != s.me.Epoch || c.doubt {
			return nil
		}
		if !fits(&f.Page, c.id) {
			c.rest(0)
			return nil
		}
		before := c.stored
		defer func() {
			if c.stored == before && c.behind() {
				c.rest(0) // this page did not help; the next may not either
			} else {
				c.pause = 0
			}
		}()
		c.sync = false
		c.want = max(c.want, f.Page.Head)
		if !f.Page.More && c.want == r.want && f.Page.Through < c.want {
			c.want = f.Page.Through // what seemed to be there is not for us
		}
		return s.applyPage(tx, c, &f.Page, r.after)
	})
}

// fits reports whether a page, all of it, is about a conversation.
func fits(page *impart.Page, id impart.ConvID) bool {
	return page.Conv == id && !slices.ContainsFunc(page.Events, func(ev impart.Event) bool { return ev.Conv != id })
}

// applyPage stores the events of a page that was asked for after a seq.
func (s *session) applyPage(tx *sql.Tx, c *conv, page *impart.Page, after impart.Seq) error {
	if err := c.begin(tx, after); err != nil {
		return err
	}
	if after > c.stored {
		return nil // it was asked for before a rewind
	}
	for i := range page.Events {
		if ev := &page.Events[i]; ev.Seq > c.stored || ev.Recalled {
			if err := s.apply(tx, c, ev); err != nil {
				return err
			}
		}
	}
	if page.Through > c.stored {
		s.stored++ // an ack will tell of it
	}
	return c.pass(tx, page.Through, page.Floor)
}

// takePulled stores what the device lacks. A page says not from where it begins:
// where it leaves a gap, only a sync can tell whether there is something in it.
func (s *session) takePulled(f *wire.Pulled) {
	r := s.answered(f.RID, asksPull)
	s.sawEpoch(f.Pulled.Epoch)
	if r == nil || r.late {
		return
	}
	s.pulling = false
	s.write(func(tx *sql.Tx) error {
		if f.Pulled.Epoch != s.me.Epoch {
			return nil
		}
		before := s.stored
		for i := range f.Pulled.Convs {
			if err := s.applyPulled(tx, &f.Pulled.Convs[i]); err != nil {
				return err
			}
		}
		s.rest(s.stored > before)
		// What cannot be read now must not hold up the rest: it is asked for later.
		s.pullHeld = len(f.Pulled.Convs) > 0
		if !f.Pulled.More || !s.pullHeld {
			s.pullEnded(len(f.Pulled.Failed) > 0)
		}
		return nil
	})
}

func (s *session) applyPulled(tx *sql.Tx, page *impart.Page) error {
	c := s.conv(page.Conv)
	c.want = max(c.want, page.Head)
	if c.doubt || !fits(page, c.id) {
		return nil
	}
	first := page.Through + 1
	if len(page.Events) > 0 {
		first = slices.MinFunc(page.Events, func(a, b impart.Event) int { return int(a.Seq - b.Seq) }).Seq
	}
	if c.known && first > c.stored+1 {
		c.sync = true
		return nil
	}
	if c.known && page.Through <= c.stored {
		c.asked = 0 // it is here, and the server does not know
	}
	return s.applyPage(tx, c, page, first-1)
}

// pullEnded notes that the server has nothing more for this device now. What is
// still without a beginning is asked for from the first event on.
func (s *session) pullEnded(again bool) {
	s.toPull, s.pulled = again, true
	s.pullAt = time.Now().Add(time.Second)
	for c := range s.busy {
		c.sync = c.sync || !c.known && c.want > 0
	}
}
