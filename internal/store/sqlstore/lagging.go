package sqlstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

const (
	// maxUnread is where counting unread messages stops.
	maxUnread = 1000
	// unreadStep is how many seqs are counted by one statement, so that a long log
	// of one's own messages can be given up in between. So many are looked through of
	// every conversation.
	unreadStep = 10_000
	// unreadMost is how many are looked through of one conversation, and unreadSpare of
	// all that a page lists together, their first steps aside: about half a second's work.
	unreadMost, unreadSpare = 100_000, 400_000
)

// seen is a conversation as one device of one user sees it.
type seen struct {
	view
	cursor *cursorRow
	read   *readRow
}

// state is what a client is told. The head of a row that is damaged (see [damage]) is
// kept within what a frame may hold: it must not spoil the list that it stands in.
func (v *seen) state(install impart.InstallEpoch) impart.ConvState {
	return impart.ConvState{
		Conv: v.conv.id, Kind: v.conv.kind, Head: min(max(v.head, 0), impart.MaxNumber), Delivered: v.effective(v.cursor, install),
		Read: v.read.counts(v.epoch), Floor: v.floor,
	}
}

// written is when the device's row was written; 0 without one.
func (v *seen) written() impart.Millis {
	if v.cursor == nil {
		return 0
	}
	return v.cursor.updated
}

const selectSeen = "SELECT v.conv_id, v.kind, v.history, v.next_seq, v.floor, v.members_version, p.from_seq, p.to_seq, r.epoch, r.read_seq, " + cursorColumns +
	" FROM members p JOIN conversations v ON v.conv_id = p.conv_id" +
	" LEFT JOIN device_cursors c ON c.user_id = p.user_id AND c.device_id = ? AND c.conv_id = p.conv_id" +
	" LEFT JOIN read_cursors r ON r.user_id = p.user_id AND r.conv_id = p.conv_id" +
	" WHERE p.user_id = ? AND p.conv_id > ? ORDER BY p.conv_id, p.from_seq LIMIT ?"

// readSeen reads a user's conversations above after, ascending by id, at most
// limit of them and one more, to tell that there are more. What the heads are of
// those who do not see everything is for finish to find out.
func readSeen(s session, user impart.UserID, device impart.DeviceID, after impart.ConvID, limit int) ([]*seen, error) {
	meta, err := readMeta(s)
	if err != nil {
		return nil, err
	}
	// Mostly a conversation has one row; each period of membership is one.
	for rows := min(limit, maxConvs/4)*2 + 2; ; rows *= 2 {
		var out []*seen
		n, full := 0, false
		err := s.query(selectSeen, func(r row) error {
			n++
			last := len(out)
			if last == 0 || string(out[last-1].conv.id) != r.str(0) {
				if full = last > limit; full {
					return errEnough
				}
				v := &seen{cursor: scanCursor(r, 10)}
				v.epoch, v.conv = meta.epoch, scanConv(r[:6])
				if !r.null(8) {
					v.read = &readRow{impart.Epoch(r.num(8)), r.seq(9)}
				}
				out = append(out, v)
				last++
			}
			v := out[last-1]
			v.periods = append(v.periods, impart.Period{From: r.seq(6), To: r.seq(7)})
			return nil
		}, device, user, after, rows)
		if err != nil || full || n < rows {
			return out, err
		}
	}
}

// finish finds the head out.
func (v *seen) finish(s session) error { return v.findHead(s) }

// finishAll finds all the heads out.
func finishAll(s session, all []*seen) error {
	if err := prefetchHeads(s, all, (*seen).seenBy); err != nil {
		return err
	}
	for _, v := range all {
		if err := v.finish(s); err != nil {
			return err
		}
	}
	return nil
}

// Lagging implements [store.Cursors].
func (s *Store) Lagging(ctx context.Context, q store.LaggingQuery) (impart.LaggingPage, error) {
	var page impart.LaggingPage
	err := s.read(ctx, func(c session) error {
		meta, err := readMeta(c)
		if err != nil {
			return err
		}
		page.Epoch = meta.epoch
		dev, err := readDevice(c, q.User, q.Device)
		if err != nil {
			return err
		}
		if dev == nil || dev.Install != q.Install {
			return staleInstall(q.Device)
		}
		all, err := readSeen(c, q.User, q.Device, "", maxConvs)
		if err != nil {
			return err
		}
		if err := finishAll(c, all); err != nil {
			return err
		}
		var behind []*seen
		for _, v := range all {
			if q.All || v.head > v.effective(v.cursor, q.Install) {
				behind = append(behind, v)
			}
		}
		slices.SortStableFunc(behind, func(a, b *seen) int { return cmp.Compare(a.written(), b.written()) })
		for _, v := range behind {
			if len(page.Convs) == q.Limit {
				page.More = true
				break
			}
			page.Convs = append(page.Convs, v.state(q.Install))
		}
		return nil
	})
	if err != nil {
		return impart.LaggingPage{}, err
	}
	return page, nil
}

// maxConvs stands for all of a user's conversations.
const maxConvs = 1 << 30

// Lags implements [store.Cursors].
func (s *Store) Lags(ctx context.Context, queries []impart.LagQuery) ([]impart.Lag, error) {
	out := make([]impart.Lag, len(queries))
	err := s.read(ctx, func(c session) error {
		var asks []ask
		for i := range queries {
			q := &queries[i]
			asks = append(asks, ask{selectView, []any{q.Conv, q.Session.User}}, ask{selectLag, []any{q.Conv, q.Session.User, q.Session.Device}})
		}
		if err := c.prefetch(asks); err != nil {
			return err
		}
		views := make([]*view, len(queries))
		for i := range queries {
			v, err := readPlace(c, queries[i].Conv, queries[i].Session.User)
			if err != nil {
				return err
			}
			views[i] = v
		}
		if err := prefetchHeads(c, views, (*view).seenBy); err != nil {
			return err
		}
		for i := range queries {
			if err := readLag(c, &queries[i], views[i], &out[i]); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

const selectLag = "SELECT d.install_epoch, " + cursorColumns + " FROM devices d LEFT JOIN device_cursors c" +
	" ON c.user_id = d.user_id AND c.device_id = d.device_id AND c.conv_id = ? WHERE d.user_id = ? AND d.device_id = ?"

func readLag(s session, q *impart.LagQuery, v *view, out *impart.Lag) error {
	*out = impart.Lag{}
	if err := v.findHead(s); err != nil || len(v.periods) == 0 {
		return err
	}
	out.Head = v.head
	return s.query(selectLag, func(r row) error {
		if install := impart.InstallEpoch(r.num(0)); install == q.Session.Install {
			out.Delivered = v.effective(scanCursor(r, 1), install)
		}
		return nil
	}, q.Conv, q.Session.User, q.Session.Device)
}

// Convs implements [store.Cursors].
func (s *Store) Convs(ctx context.Context, user impart.UserID, device impart.DeviceID, after impart.ConvID, limit, maxBytes int) (impart.ConvsPage, error) {
	var page impart.ConvsPage
	err := s.read(ctx, func(c session) error {
		meta, err := readMeta(c)
		if err != nil {
			return err
		}
		page.Epoch = meta.epoch
		dev, err := readDevice(c, user, device)
		if err != nil {
			return err
		}
		if dev == nil {
			dev = &impart.DeviceInfo{}
		}
		all, err := readSeen(c, user, device, after, limit)
		if err != nil {
			return err
		}
		shown := all[:min(limit, len(all))]
		if err := prefetchListed(c, shown, user); err != nil {
			return err
		}
		size, spare := 0, impart.Seq(unreadSpare)
		for i, v := range all {
			if i == limit {
				page.More = true
				break
			}
			state, err := v.listed(c, user, dev.Install, &spare)
			if err != nil {
				return err
			}
			if state.Last != nil {
				if damage := undamaged(state.Last); damage != nil {
					s.tellDamage(damage)
					state.Last = nil // the others are listed all the same
				}
			}
			if state.Last != nil {
				size += store.Size(state.Last)
			}
			if i > 0 && size > maxBytes {
				page.More = true
				break
			}
			if device == "" {
				state.Delivered = 0
			}
			page.Convs = append(page.Convs, state)
		}
		return ctx.Err()
	})
	if err != nil {
		return impart.ConvsPage{}, err
	}
	return page, nil
}

// prefetchListed finds the heads out and has what listed reads read at once.
func prefetchListed(s session, all []*seen, user impart.UserID) error {
	if err := finishAll(s, all); err != nil {
		return err
	}
	var asks []ask
	for _, v := range all[:min(eventsAtOnce, len(all))] {
		asks = append(asks, ask{selectEvent, []any{v.conv.id, v.head}})
		for _, st := range slices.Backward(stretches(v.periods, max(v.read.counts(v.epoch), v.conv.floor)+1, v.head)) {
			if st.covered {
				asks = append(asks, ask{countUnread, []any{v.conv.id, max(st.from, st.to-unreadStep+1), st.to, user, maxUnread}})
				break
			}
		}
	}
	return s.prefetch(asks)
}

const countUnread = "SELECT count(*) FROM (SELECT 1 FROM events WHERE conv_id = ? AND seq BETWEEN ? AND ?" +
	" AND kind = 'msg' AND sender <> ? AND recalled = 0 LIMIT ?) AS counted"

// listed is a conversation whose head is known with its last event and what is unread in it.
func (v *seen) listed(s session, user impart.UserID, install impart.InstallEpoch, spare *impart.Seq) (state impart.ConvState, err error) {
	state = v.state(install)
	if state.Last, err = readEvent(s, v.conv.id, v.head); err != nil {
		return state, err
	}
	if state.Last != nil && !v.periods.Sees(state.Last) {
		state.Last = nil // the head is of what was removed
	}
	state.Unread, err = v.unread(s, user, state.Read, spare)
	return state, err
}

// unread counts the messages of others above read that are not recalled, newest first,
// until there are enough or it has looked through as many seqs as it may: past the first
// step it takes them from spare.
func (v *seen) unread(s session, user impart.UserID, read impart.Seq, spare *impart.Seq) (n int, err error) {
	looked := impart.Seq(0)
	for _, st := range slices.Backward(stretches(v.periods, max(read, v.conv.floor)+1, v.head)) {
		for to := st.to; st.covered && to >= st.from && n < maxUnread; {
			from := max(st.from, to-unreadStep+1)
			if looked >= unreadStep {
				if looked >= unreadMost || *spare <= 0 {
					return n, nil
				}
				*spare -= to - from + 1
			}
			looked += to - from + 1
			err := s.query(countUnread, func(r row) error {
				n += int(r.num(0))
				return nil
			}, v.conv.id, from, to, user, maxUnread-n)
			if err != nil {
				return 0, err
			}
			to = from - 1
		}
	}
	return n, nil
}
