package rawclient

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// gapGrace is how long events that arrived out of order may wait for their predecessors before the device syncs.
const gapGrace = 50 * time.Millisecond

// session is one connection of a device: nothing in it survives.
type session struct {
	d    *Device
	conn *Conn
	rids int
	// pending requests other than sends, by rid.
	pending map[string]request
	// gaps: conversations with a stored event beyond the cursor, and since when.
	gaps map[string]time.Time
	pull bool // a pull is wanted
}

type request struct {
	kind, conv string
	at         time.Time
}

func (d *Device) session(ctx context.Context) error {
	d.mu.Lock()
	d.dials++
	h := NewHello(d.o.Token, d.o.Device, d.o.Install)
	n := d.n
	h.N = &n
	d.mu.Unlock()
	dialCtx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, welcome, err := Login(dialCtx, d.o.Address(), h, DialOptions{})
	if err != nil {
		return err
	}
	defer conn.Close()
	s := &session{d: d, conn: conn, pending: map[string]request{}, gaps: map[string]time.Time{}, pull: true}
	s.adopt(welcome)
	if err := s.ask("sub", "", map[string]any{"t": "sub"}); err != nil {
		return err
	}
	return s.loop(ctx)
}

// adopt takes install epoch and epoch from the welcome. When either changed, the server's cursors start anew and what the
// store holds is acked again.
func (s *session) adopt(welcome Frame) {
	d := s.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if welcome.Int("install_epoch") != d.install || welcome.Int("epoch") != d.epoch {
		for _, l := range d.logs {
			l.acked = 0
		}
	}
	d.welcomed++
	d.install, d.epoch = welcome.Int("install_epoch"), welcome.Int("epoch")
	for _, m := range d.outbox {
		m.rid, m.tried = "", map[string]bool{}
	}
	d.touch()
}

func (s *session) loop(ctx context.Context) error {
	mark := 0
	for {
		s.d.mu.Lock()
		posted := s.d.changed
		s.d.mu.Unlock()
		frames, arrived, ended := s.conn.Since(mark)
		mark += len(frames)
		for _, f := range frames {
			if err := s.handle(f); err != nil {
				return err
			}
		}
		if len(frames) > 0 {
			s.d.mu.Lock()
			s.d.touch()
			s.d.mu.Unlock()
		}
		if err := s.work(); err != nil {
			return err
		}
		if ended != nil {
			return ended
		}
		if len(frames) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-arrived:
		case <-posted:
		case <-time.After(gapGrace):
		}
	}
}

// work sends everything that is due: acks first, then what is lacking, then the outbox.
func (s *session) work() error {
	if err := s.ack(); err != nil {
		return err
	}
	now := time.Now()
	for rid, r := range s.pending {
		if now.Sub(r.at) > s.d.o.ResendAfter {
			delete(s.pending, rid)
			s.pull = s.pull || r.kind == "pull" || r.kind == "sync"
		}
	}
	if s.pull && !s.busy("pull", "") && !s.busy("ack", "") {
		s.pull = false
		if err := s.ask("pull", "", map[string]any{"t": "pull", "limit": s.d.o.PageLimit}); err != nil {
			return err
		}
	}
	for conv, since := range s.gaps {
		if now.Sub(since) < gapGrace || s.busy("sync", conv) {
			continue
		}
		delete(s.gaps, conv)
		if err := s.sync(conv); err != nil {
			return err
		}
	}
	return s.flush(now)
}

func (s *session) busy(kind, conv string) bool {
	for _, r := range s.pending {
		if r.kind == kind && r.conv == conv {
			return true
		}
	}
	return false
}

func (s *session) rid(kind string) string { s.rids++; return fmt.Sprintf("%s-%d", kind, s.rids) }

func (s *session) ask(kind, conv string, frame map[string]any) error {
	rid := s.rid(kind)
	frame["rid"] = rid
	s.pending[rid] = request{kind, conv, time.Now()}
	return s.conn.JSON(frame)
}

func (s *session) sync(conv string) error {
	s.d.mu.Lock()
	l := s.d.log(conv)
	after, mid := l.cursor, l.events[l.cursor].Mid
	s.d.mu.Unlock()
	frame := map[string]any{"t": "sync", "conv": conv, "after": after, "limit": s.d.o.PageLimit, "epoch": s.d.epoch}
	if mid != "" {
		frame["after_mid"] = mid
	}
	return s.ask("sync", conv, frame)
}

// ack tells the server what is stored: one frame for all conversations, one in flight at a time.
func (s *session) ack() error {
	if s.busy("ack", "") {
		return nil
	}
	d := s.d
	d.mu.Lock()
	var acks []map[string]any
	for conv, l := range d.logs {
		if l.cursor > l.acked && len(acks) < 1000 {
			acks = append(acks, map[string]any{"conv": conv, "seq": l.cursor})
		}
		if len(l.events) > 0 && l.events[l.cursor+1].Seq == 0 && beyond(l) {
			if _, known := s.gaps[conv]; !known {
				s.gaps[conv] = time.Now()
			}
		} else {
			delete(s.gaps, conv)
		}
	}
	if len(acks) > 0 {
		d.n++
	}
	n := d.n
	d.mu.Unlock()
	if len(acks) == 0 {
		return nil
	}
	return s.ask("ack", "", map[string]any{"t": "ack", "n": n, "epoch": d.epoch, "acks": acks})
}

func beyond(l *convLog) bool {
	for seq := range l.events {
		if seq > l.cursor {
			return true
		}
	}
	return false
}

// flush sends what of the outbox is not in flight, in order, each linked to the one before it.
func (s *session) flush(now time.Time) error {
	d := s.d
	d.mu.Lock()
	var frames []map[string]any
	before := map[string]string{}
	for _, m := range d.outbox {
		prev := before[m.conv]
		before[m.conv] = m.cmid
		if m.rid != "" && now.Sub(m.at) < d.o.ResendAfter || now.Before(m.notBefore) {
			continue
		}
		m.rid, m.at = s.rid("send"), now
		if m.tried == nil {
			m.tried = map[string]bool{}
		}
		m.tried[m.rid] = true
		f := map[string]any{"t": "send", "rid": m.rid, "conv": m.conv, "cmid": m.cmid, "body": m.body, "epoch": d.epoch}
		if prev != "" {
			f["prev"] = prev
		}
		frames = append(frames, f)
	}
	d.mu.Unlock()
	for _, f := range frames {
		if err := s.conn.JSON(f); err != nil {
			return err
		}
	}
	return nil
}

// handle takes one frame of the server. Kinds it does not know are ignored, as the protocol demands.
func (s *session) handle(f Frame) error {
	d := s.d
	if d.o.OnFrame != nil {
		d.o.OnFrame(f)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r := s.pending[f.Str("rid")]
	switch f.T() {
	case "bye":
		return farewell{f}
	case "event":
		d.store(ParseEvent(f.Obj("ev")))
	case "synced":
		delete(s.pending, f.Str("rid"))
		s.page(f.Str("conv"), f.Object)
	case "pulled":
		delete(s.pending, f.Str("rid"))
		for _, page := range f.List("convs") {
			s.page(page.Str("conv"), page)
		}
		s.pull = f.Bool("more")
	case "hint":
		s.hinted(f)
	case "acked":
		delete(s.pending, f.Str("rid"))
		for _, a := range f.List("acks") {
			if a.Has("delivered") {
				l, delivered := d.log(a.Str("conv")), a.Int("delivered")
				if delivered < l.acked || delivered > l.cursor {
					d.wrong = append(d.wrong, fmt.Sprintf("%s: delivered is %d in %s; it was %d, and the store reaches %d",
						d.Name(), delivered, a.Str("conv"), l.acked, l.cursor))
				}
				l.acked = delivered
			}
		}
	case "sent":
		s.settle(f)
	case "error":
		delete(s.pending, f.Str("rid"))
		return s.refused(f, r)
	case "subbed":
		delete(s.pending, f.Str("rid"))
	}
	return nil
}

// page stores a page and lets the cursor follow. The caller holds mu.
func (s *session) page(conv string, page Object) {
	for _, o := range page.List("events") {
		s.d.store(ParseEvent(o))
	}
	s.d.cover(conv, page.Int("through"))
	if page.Bool("more") {
		s.gaps[conv] = time.Time{}
	}
}

func (s *session) hinted(f Frame) {
	if e := f.Int("epoch"); e > s.d.epoch {
		s.d.epoch = e
		for _, l := range s.d.logs {
			l.acked = 0
		}
	}
	// A hinted conversation may be one that was joined late: the pull knows where it starts.
	if conv := f.Str("conv"); conv == "" || s.d.log(conv).cursor < f.Int("head") {
		s.pull = true
	}
}

// settle takes a message out of the outbox and stores it from its `sent`. The caller holds mu.
func (s *session) settle(f Frame) {
	d := s.d
	i := slices.IndexFunc(d.outbox, func(m *outgoing) bool { return m.tried[f.Str("rid")] })
	if i < 0 {
		return // a late second answer
	}
	m := d.outbox[i]
	d.outbox = slices.Delete(d.outbox, i, i+1)
	d.sents = append(d.sents, Receipt{User: d.o.User, Conv: m.conv, CMID: m.cmid, Body: m.body, Mid: f.Str("mid"), Seq: f.Int("seq"), Dup: f.Bool("dup")})
	d.store(Event{
		Conv: m.conv, Kind: "msg", Mid: f.Str("mid"), Sender: d.o.User, CMID: m.cmid, Body: m.body, Type: "text",
		Seq: f.Int("seq"), At: f.Int("at"),
	})
}

// refused keeps a message for another attempt, or gives it up after a final error. The caller holds mu.
func (s *session) refused(f Frame, r request) error {
	d := s.d
	if code := f.Str("code"); code == "EPOCH_CHANGED" || code == "UNAUTHENTICATED" || code == "STALE_INSTALL" {
		return Refused{f}
	}
	if r.kind == "pull" || r.kind == "sync" || r.kind == "sub" {
		if !f.Bool("retry") {
			return Refused{f}
		}
		s.pull = true
	}
	i := slices.IndexFunc(d.outbox, func(m *outgoing) bool { return m.tried[f.Str("rid")] })
	if i < 0 {
		return nil
	}
	m := d.outbox[i]
	m.rid = ""
	m.notBefore = time.Now().Add(max(20*time.Millisecond, time.Duration(f.Int("retry_after_ms"))*time.Millisecond))
	if !f.Bool("retry") {
		m.failed = f.Str("code")
		d.outbox = slices.Delete(d.outbox, i, i+1)
		d.failed = append(d.failed, *m)
	}
	return nil
}
