package memstore

import (
	"context"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// effective is where a device's cursor stands in a conversation; see [store.Cursors].
func (s *Store) effective(st *state, key cursorKey) impart.Seq {
	c, ps := st.convs[key.conv], st.periods(key.conv, key.user)
	if len(ps) == 0 {
		return 0
	}
	at := s.counts(st, key, ps)
	if !s.breaks[BreakFloor] {
		at = max(at, c.floor)
	}
	return min(at, c.seen(ps))
}

// counts is the cursor before floor and head bound it.
func (s *Store) counts(st *state, key cursorKey, ps impart.Periods) impart.Seq {
	row, d := st.cursors[key], st.devices[key.deviceKey]
	switch {
	case row == nil || d == nil || (row.install != d.epoch && !s.breaks[BreakInstallEpoch]):
		return ps.First() - 1
	case row.epoch != st.epoch && !s.breaks[BreakEpochCursor]:
		return row.start
	}
	return row.delivered
}

// readUpTo is the user's read cursor in a conversation.
func (s *Store) readUpTo(st *state, key readKey) impart.Seq {
	row := st.reads[key]
	if row == nil || (row.epoch != st.epoch && !s.breaks[BreakEpochRead]) {
		return 0
	}
	return row.seq
}

// furthest is how far the furthest of a user's devices has acknowledged.
func (s *Store) furthest(st *state, user impart.UserID, conv impart.ConvID) impart.Seq {
	far := impart.Seq(0)
	for key, row := range st.cursors {
		if key.user != user || key.conv != conv || row.epoch != st.epoch {
			continue
		}
		if d := st.devices[key.deviceKey]; d != nil && d.epoch == row.install {
			far = max(far, s.effective(st, key))
		}
	}
	return far
}

// Advance implements [store.Cursors].
func (s *Store) Advance(ctx context.Context, items []store.Advance) []store.Advanced {
	out := make([]store.Advanced, len(items))
	err := s.write(ctx, len(items), func(st *state) {
		for i := range items {
			out[i] = s.advanceOne(st, &items[i])
		}
	})
	if err != nil {
		for i := range out {
			out[i] = store.Advanced{Err: err}
		}
	}
	return out
}

func (s *Store) advanceOne(st *state, a *store.Advance) store.Advanced {
	if err := s.checkEpoch(st, a.Epoch); err != nil {
		return store.Advanced{Err: err}
	}
	key := cursorKey{deviceKey{a.User, a.Device}, a.Conv}
	d := st.devices[key.deviceKey]
	if d == nil || (d.epoch != a.Install && !s.breaks[BreakStaleInstall]) {
		return store.Advanced{Err: staleInstall(a.Device)}
	}
	if a.N != nil && s.breaks[BreakRefusedN] {
		d.n = max(d.n, *a.N)
	}
	if a.Session != 0 && a.Session < d.session && !s.breaks[BreakOldSession] {
		return store.Advanced{Err: staleSession(a.Device)}
	}
	ps := st.periods(a.Conv, a.User)
	if len(ps) == 0 {
		return store.Advanced{Err: notMember(a.Conv)}
	}
	if head := st.convs[a.Conv].seen(ps); a.Seq < 0 || (a.Seq > head && !s.breaks[BreakCursorAhead]) {
		return store.Advanced{Err: cursorAhead(a.Seq, head)}
	}
	before := s.effective(st, key)
	s.moveTo(st, key, a.Seq)
	if a.N != nil {
		d.n = max(d.n, *a.N)
	}
	after := s.effective(st, key)
	if s.breaks[BreakCursorAhead] {
		after = st.cursors[key].delivered
	}
	out := store.Advanced{
		Delivered: after, Moved: after > before,
		Furthest: s.furthest(st, a.User, a.Conv), Read: s.readUpTo(st, readKey{a.User, a.Conv}),
	}
	if s.breaks[BreakFurthest] {
		out.Furthest = after
	}
	return out
}

func staleInstall(device impart.DeviceID) error {
	return impart.Errorf(impart.StaleInstall, "device %q is registered with another install; only a hello over WebSocket can replace that one", device)
}

func staleSession(device impart.DeviceID) error {
	return impart.Errorf(impart.StaleInstall, "device %q has said hello on a newer connection; acknowledge there what its store holds", device)
}

// moveTo writes the device's row. What counted before is kept if it is higher;
// what no longer counts (another install, another epoch) is forgotten.
func (s *Store) moveTo(st *state, key cursorKey, seq impart.Seq) {
	d, ps := st.devices[key.deviceKey], st.periods(key.conv, key.user)
	now := s.now()
	row := st.cursors[key]
	if row == nil || row.install != d.epoch {
		row = &cursor{install: d.epoch, start: ps.First() - 1}
	}
	delivered := max(s.counts(st, key, ps), seq)
	if s.breaks[BreakCursorMonotonic] {
		delivered = seq
	}
	st.cursors[key] = &cursor{install: d.epoch, epoch: st.epoch, start: row.start, delivered: delivered, written: now, acked: now}
}

// MarkRead implements [store.Cursors].
func (s *Store) MarkRead(ctx context.Context, items []store.MarkRead) []store.MarkedRead {
	out := make([]store.MarkedRead, len(items))
	err := s.write(ctx, len(items), func(st *state) {
		for i := range items {
			out[i] = s.readOne(st, &items[i])
		}
	})
	if err != nil {
		for i := range out {
			out[i] = store.MarkedRead{Err: err}
		}
	}
	return out
}

func (s *Store) readOne(st *state, m *store.MarkRead) store.MarkedRead {
	if err := s.checkEpoch(st, m.Epoch); err != nil {
		return store.MarkedRead{Err: err}
	}
	ps := st.periods(m.Conv, m.User)
	if len(ps) == 0 {
		return store.MarkedRead{Err: notMember(m.Conv)}
	}
	if head := st.convs[m.Conv].seen(ps); m.Seq < 0 || (m.Seq > head && !s.breaks[BreakReadAhead]) {
		return store.MarkedRead{Err: cursorAhead(m.Seq, head)}
	}
	key := readKey{m.User, m.Conv}
	before := s.readUpTo(st, key)
	after := max(before, m.Seq)
	if s.breaks[BreakReadMonotonic] {
		after = m.Seq
	}
	st.reads[key] = &read{epoch: st.epoch, seq: after}
	return store.MarkedRead{Read: after, Moved: after > before, Furthest: s.furthest(st, m.User, m.Conv)}
}

// Lags implements [store.Cursors].
func (s *Store) Lags(ctx context.Context, queries []impart.LagQuery) ([]impart.Lag, error) {
	out := make([]impart.Lag, len(queries))
	err := s.read(ctx, func(st *state) {
		for i, q := range queries {
			ps := st.periods(q.Conv, q.Session.User)
			if len(ps) == 0 {
				continue
			}
			out[i].Head = st.convs[q.Conv].seen(ps)
			key := cursorKey{deviceKey{q.Session.User, q.Session.Device}, q.Conv}
			if d := st.devices[key.deviceKey]; d != nil && d.epoch == q.Session.Install {
				out[i].Delivered = s.effective(st, key)
			}
		}
	})
	return out, err
}
