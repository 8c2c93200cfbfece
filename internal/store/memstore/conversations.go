package memstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// maxUnread is where counting unread messages stops.
const maxUnread = 1000

// convsOf are the ids of a user's conversations, past ones too, ascending.
func (st *state) convsOf(user impart.UserID) []impart.ConvID {
	var ids []impart.ConvID
	for _, id := range sortedKeys(st.convs) {
		if len(st.periods(id, user)) > 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

func (s *Store) convState(st *state, key cursorKey) impart.ConvState {
	c := st.convs[key.conv]
	head := c.seen(st.periods(key.conv, key.user))
	return impart.ConvState{
		Conv: key.conv, Kind: c.kind, Head: head, Delivered: s.effective(st, key),
		Read: s.readUpTo(st, readKey{key.user, key.conv}), Floor: min(c.floor, head),
	}
}

// Lagging implements [store.Cursors].
func (s *Store) Lagging(ctx context.Context, q store.LaggingQuery) (page impart.LaggingPage, err error) {
	failed := s.read(ctx, func(st *state) {
		key := deviceKey{q.User, q.Device}
		d := st.devices[key]
		if d == nil || d.epoch != q.Install {
			err = staleInstall(q.Device)
			return
		}
		page.Epoch = st.epoch
		for _, id := range st.convsOf(q.User) {
			state := s.convState(st, cursorKey{key, id})
			if q.All || state.Head > state.Delivered {
				page.Convs = append(page.Convs, state)
			}
		}
		if !s.breaks[BreakLaggingOrder] {
			slices.SortStableFunc(page.Convs, func(a, b impart.ConvState) int {
				return cmp.Compare(st.waiting(cursorKey{key, a.Conv}), st.waiting(cursorKey{key, b.Conv}))
			})
		}
		if len(page.Convs) > q.Limit {
			page.Convs, page.More = page.Convs[:q.Limit], true
		}
	})
	if failed != nil {
		return impart.LaggingPage{}, failed
	}
	return page, err
}

// waiting is when the device's row was written last; 0 without one.
func (st *state) waiting(key cursorKey) impart.Millis {
	if row := st.cursors[key]; row != nil {
		return row.written
	}
	return 0
}

// Convs implements [store.Cursors].
func (s *Store) Convs(ctx context.Context, user impart.UserID, dev impart.DeviceID, after impart.ConvID, limit, maxBytes int) (impart.ConvsPage, error) {
	var page impart.ConvsPage
	err := s.read(ctx, func(st *state) {
		page.Epoch = st.epoch
		size := 0
		for _, id := range st.convsOf(user) {
			if id < after || (id == after && !s.breaks[BreakConvsPage]) {
				continue
			}
			state := s.convWithLast(st, cursorKey{deviceKey{user, dev}, id})
			if state.Last != nil {
				size += store.Size(state.Last)
			}
			if len(page.Convs) == limit || (len(page.Convs) > 0 && size > maxBytes) {
				page.More = true
				return
			}
			page.Convs = append(page.Convs, state)
		}
	})
	return page, err
}

func (s *Store) convWithLast(st *state, key cursorKey) impart.ConvState {
	state := s.convState(st, key)
	if key.device == "" {
		state.Delivered = 0
	}
	c, ps := st.convs[key.conv], st.periods(key.conv, key.user)
	for _, ev := range slices.Backward(c.log) {
		if !ps.Sees(ev) && !s.breaks[BreakConvLast] {
			continue
		}
		if state.Last == nil {
			last := copyOf(ev)
			state.Last = &last
		}
		own := ev.Sender == key.user && !s.breaks[BreakUnread]
		if ev.Seq > state.Read && ev.Kind == impart.KindMsg && !own && !ev.Recalled && state.Unread < maxUnread {
			state.Unread++
		}
	}
	return state
}

// Report implements [store.Cursors].
func (s *Store) Report(ctx context.Context, who impart.Who) (report impart.Report, err error) {
	failed := s.read(ctx, func(st *state) {
		ps := st.periods(who.Conv, who.User)
		if len(ps) == 0 {
			err = notMember(who.Conv)
			return
		}
		c := st.convs[who.Conv]
		ev := c.at(who.Seq)
		if head := c.seen(ps); ev == nil || who.Seq > head || !ps.Sees(ev) {
			err = cursorAhead(who.Seq, head)
			return
		}
		for _, user := range sortedKeys(c.members) {
			if user <= who.After || !c.members[user].periods.Sees(ev) {
				continue
			}
			if len(report.Users) == who.Limit {
				report.More = true
				return
			}
			report.Users = append(report.Users, s.userReport(st, user, ev))
		}
	})
	if failed != nil {
		return impart.Report{}, failed
	}
	return report, err
}

func (s *Store) userReport(st *state, user impart.UserID, ev *impart.Event) impart.UserReport {
	r := impart.UserReport{User: user, Read: s.readUpTo(st, readKey{user, ev.Conv}) >= ev.Seq}
	for key := range st.devices {
		if key.user != user {
			continue
		}
		r.Devices++
		at := s.deviceCursor(st, cursorKey{key, ev.Conv})
		has := ev.Seq > at.Start && ev.Seq <= at.Delivered
		if has || (at.Delivered > 0 && s.breaks[BreakReport]) {
			r.Delivered++
		}
	}
	return r
}
