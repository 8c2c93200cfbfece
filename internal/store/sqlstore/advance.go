package sqlstore

import (
	"context"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/store"
)

// Advance implements [store.Cursors].
func (s *Store) Advance(ctx context.Context, items []store.Advance) []store.Advanced {
	var ops []*op
	var at []int
	for _, share := range shares(s.lanes.cursors, items, func(a *store.Advance) string { return string(a.User) }) {
		o := &op{lane: share.lane, advances: share.items, advanced: make([]store.Advanced, len(share.items)), items: len(share.items)}
		ops, at = append(ops, s.apart(o)...), append(at, share.at...)
	}
	return outcomes(ctx, s, ops, at, func(o *op) []store.Advanced { return o.advanced }, func(err error) store.Advanced { return store.Advanced{Err: err} })
}

// MarkRead implements [store.Cursors].
func (s *Store) MarkRead(ctx context.Context, items []store.MarkRead) []store.MarkedRead {
	var ops []*op
	var at []int
	for _, share := range shares(s.lanes.cursors, items, func(m *store.MarkRead) string { return string(m.User) }) {
		o := &op{lane: share.lane, reads: share.items, marked: make([]store.MarkedRead, len(share.items)), items: len(share.items)}
		ops, at = append(ops, s.apart(o)...), append(at, share.at...)
	}
	return outcomes(ctx, s, ops, at, func(o *op) []store.MarkedRead { return o.marked }, func(err error) store.MarkedRead { return store.MarkedRead{Err: err} })
}

// apart is an op of any size in one transaction, or each item in its own without
// group commit.
func (s *Store) apart(o *op) []*op {
	if s.opts.NoGroupCommit {
		return o.split()
	}
	return []*op{o}
}

// flowKey names the cursor of one device in one conversation.
type flowKey struct {
	memberKey
	device impart.DeviceID
}

// moves are the cursor rows that a transaction has to write, each once however
// often it moved.
type moves struct {
	cursors map[flowKey]*cursorRow
	reads   map[memberKey]*readRow
	devices map[deviceKey]*deviceState // whose n rose
}

type deviceKey struct {
	user   impart.UserID
	device impart.DeviceID
}

// moveCursors carries out the acknowledgements and reads of all ops.
func (tx *txn) moveCursors(ops []*op) error {
	var m moves
	for _, o := range ops {
		for i := range o.advances {
			out, err := tx.advance(&o.advances[i], &m)
			if err != nil && !refused(err) {
				return err
			}
			out.Err = err
			o.advanced[i] = out
		}
		for i := range o.reads {
			out, err := tx.markRead(&o.reads[i], &m)
			if err != nil && !refused(err) {
				return err
			}
			out.Err = err
			o.marked[i] = out
		}
	}
	if tx.bulk != nil {
		return tx.bulk.writeMoves(&m)
	}
	return tx.writeMoves(&m)
}

// placeOf is what bounds a user's cursors in a conversation. NOT_MEMBER.
func (tx *txn) placeOf(conv impart.ConvID, user impart.UserID, epoch impart.Epoch) (*place, error) {
	c, err := tx.conv(conv)
	if err != nil {
		return nil, err
	}
	var mem *member
	if c != nil {
		if mem, err = tx.member(conv, user); err != nil {
			return nil, err
		}
	}
	if mem == nil {
		return nil, notMember(conv)
	}
	head, err := readHead(tx, c, mem.periods)
	return &place{epoch: epoch, periods: mem.periods, floor: c.floor, head: head}, err
}

func (tx *txn) advance(a *store.Advance, m *moves) (out store.Advanced, err error) {
	meta, err := tx.metaRow()
	if err != nil {
		return out, err
	}
	if err := checkEpoch(a.Epoch, meta.epoch); err != nil {
		return out, err
	}
	devices, err := tx.devices(a.User)
	if err != nil {
		return out, err
	}
	dev := devices[a.Device]
	if err := dev.checkAck(a); err != nil {
		return out, err
	}
	p, err := tx.placeOf(a.Conv, a.User, meta.epoch)
	if err != nil {
		return out, err
	}
	if err := p.checkSeq(a.Seq); err != nil {
		return out, err
	}
	f, err := tx.flow(a.Conv, a.User)
	if err != nil {
		return out, err
	}
	was := f.devices[a.Device]
	before := p.effective(was, dev.install)
	row := p.moved(was, dev.install, a.Seq)
	row.updated, row.n = tx.now, dev.n
	if a.N != nil && *a.N > dev.n {
		dev.n, row.n = *a.N, *a.N
		m.rose(deviceKey{a.User, a.Device}, dev)
	}
	if !was.current(dev.install, meta.epoch) || row.delivered != was.delivered || row.n != was.n {
		f.devices[a.Device] = &row
		m.moved(flowKey{memberKey{a.Conv, a.User}, a.Device}, &row)
	}
	out.Delivered = row.delivered
	out.Moved = row.delivered > before
	out.Furthest = p.furthest(f, devices)
	out.Read = f.read.counts(meta.epoch)
	return out, nil
}

// checkAck refuses an ack of another install, and one of a connection older than
// the last hello: that hello may have come from a store that was put back to
// before the write which the ack reports (D9).
func (d *deviceState) checkAck(a *store.Advance) error {
	switch {
	case d == nil || d.install != a.Install:
		return staleInstall(a.Device)
	case a.Session != 0 && a.Session < d.session && !fault.Planted(fault.OldSessionAcks):
		return staleSession(a.Device)
	}
	return nil
}

// furthest is how far the furthest of a user's devices has come: of those that
// have acknowledged in their present install and in this epoch.
func (p *place) furthest(f *flows, devices map[impart.DeviceID]*deviceState) impart.Seq {
	far := impart.Seq(0)
	for id, row := range f.devices {
		if d := devices[id]; d != nil && row.current(d.install, p.epoch) {
			far = max(far, p.effective(row, d.install))
		}
	}
	return far
}

func (tx *txn) markRead(a *store.MarkRead, m *moves) (out store.MarkedRead, err error) {
	meta, err := tx.metaRow()
	if err != nil {
		return out, err
	}
	if err := checkEpoch(a.Epoch, meta.epoch); err != nil {
		return out, err
	}
	p, err := tx.placeOf(a.Conv, a.User, meta.epoch)
	if err != nil {
		return out, err
	}
	if a.Seq < 0 || a.Seq > p.head {
		return out, cursorAhead(a.Seq, p.head)
	}
	f, err := tx.flow(a.Conv, a.User)
	if err != nil {
		return out, err
	}
	devices, err := tx.devices(a.User)
	if err != nil {
		return out, err
	}
	before := f.read.counts(meta.epoch)
	out.Read = max(before, a.Seq)
	out.Moved = out.Read > before
	out.Furthest = p.furthest(f, devices)
	if out.Moved {
		f.read = &readRow{meta.epoch, out.Read}
		m.read(memberKey{a.Conv, a.User}, f.read)
	}
	return out, nil
}

func (m *moves) moved(k flowKey, r *cursorRow) {
	if m.cursors == nil {
		m.cursors = map[flowKey]*cursorRow{}
	}
	m.cursors[k] = r
}

func (m *moves) read(k memberKey, r *readRow) {
	if m.reads == nil {
		m.reads = map[memberKey]*readRow{}
	}
	m.reads[k] = r
}

func (m *moves) rose(k deviceKey, d *deviceState) {
	if m.devices == nil {
		m.devices = map[deviceKey]*deviceState{}
	}
	m.devices[k] = d
}

// writeMoves writes the rows as they are after all moves.
func (tx *txn) writeMoves(m *moves) error {
	for k, r := range m.cursors {
		if err := tx.putCursor(k, r); err != nil {
			return err
		}
	}
	for k, r := range m.reads {
		if _, err := tx.exec(tx.s.sql.putRead, k.user, k.conv, r.epoch, r.seq, tx.now); err != nil {
			return err
		}
	}
	for k, d := range m.devices {
		if err := tx.one("UPDATE devices SET n = ? WHERE user_id = ? AND device_id = ?", d.n, k.user, k.device); err != nil {
			return err
		}
	}
	return nil
}

func (tx *txn) putCursor(k flowKey, r *cursorRow) error {
	_, err := tx.exec(tx.s.sql.putCursor, k.user, k.device, k.conv, r.install, r.epoch, r.start, r.delivered, r.n, r.updated)
	return err
}
