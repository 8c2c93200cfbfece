package sqlstore

import (
	"context"

	"github.com/impart-im/impart"
)

// Report implements [store.Cursors].
func (s *Store) Report(ctx context.Context, who impart.Who) (impart.Report, error) {
	var report impart.Report
	err := s.read(ctx, func(c session) error {
		v, err := readView(c, who.Conv, who.User)
		if err != nil {
			return err
		}
		if len(v.periods) == 0 {
			return notMember(who.Conv)
		}
		ev, err := readEvent(c, who.Conv, who.Seq)
		if err != nil {
			return err
		}
		if ev == nil || who.Seq > v.head || !v.periods.Sees(ev) {
			return cursorAhead(who.Seq, v.head)
		}
		users, err := readAudience(c, who.Conv, who.After, ev, who.Limit+1)
		if err != nil {
			return err
		}
		if report.More = len(users) > who.Limit; report.More {
			users = users[:who.Limit]
		}
		if err := prefetchDelivery(c, v.conv, users); err != nil {
			return err
		}
		for _, u := range users {
			d, err := readDelivery(c, v.conv, v.epoch, u, ev)
			if err != nil {
				return err
			}
			r := impart.UserReport{User: u.User, Devices: len(d.Devices), Read: d.Read}
			for i := range d.Devices {
				if has(&d.Devices[i], ev.Seq) {
					r.Delivered++
				}
			}
			report.Users = append(report.Users, r)
		}
		return ctx.Err()
	})
	if err != nil {
		return impart.Report{}, err
	}
	return report, nil
}

// has reports whether a device has the event at seq: what lies before its start
// it never asked for.
func has(c *impart.DeviceCursor, seq impart.Seq) bool { return seq > c.Start && seq <= c.Delivered }

// Delivery implements [store.Directory].
func (s *Store) Delivery(ctx context.Context, conv impart.ConvID, seq impart.Seq) (impart.Delivery, error) {
	var out impart.Delivery
	err := s.read(ctx, func(c session) error {
		meta, err := readMeta(c)
		if err != nil {
			return err
		}
		state, err := readConv(c, conv)
		if err != nil {
			return err
		}
		if state == nil {
			return noConversation(conv)
		}
		ev, err := readEvent(c, conv, seq)
		if err != nil {
			return err
		}
		if ev == nil {
			return impart.Errorf(impart.NotFound, "there is no event at seq %d of %q", seq, conv)
		}
		out = impart.Delivery{Event: *ev, Head: state.last()}
		out.Event.Body, out.Event.Ext = "", nil
		users, err := readAudience(c, conv, "", ev, maxConvs)
		if err != nil {
			return err
		}
		if err := prefetchDelivery(c, state, users); err != nil {
			return err
		}
		for _, u := range users {
			d, err := readDelivery(c, state, meta.epoch, u, ev)
			if err != nil {
				return err
			}
			out.Users = append(out.Users, d)
		}
		return ctx.Err()
	})
	if err != nil {
		return impart.Delivery{}, err
	}
	return out, nil
}

const selectAudience = "SELECT user_id, role, from_seq, to_seq FROM members WHERE conv_id = ? AND user_id > ? ORDER BY user_id, from_seq LIMIT ?"

// readAudience reads the users above after who may see ev, ascending, at most limit.
func readAudience(s session, conv impart.ConvID, after impart.UserID, ev *impart.Event, limit int) ([]impart.MemberInfo, error) {
	for rows := min(limit, maxConvs/4)*2 + 2; ; rows *= 2 {
		var out []impart.MemberInfo
		var now impart.MemberInfo
		n, full := 0, false
		flush := func() {
			if now.User != "" && now.Periods.Sees(ev) {
				out = append(out, now)
			}
		}
		err := s.query(selectAudience, func(r row) error {
			n++
			if user := impart.UserID(r.str(0)); user != now.User {
				flush()
				if now = (impart.MemberInfo{User: user}); len(out) >= limit {
					full = true
					return errEnough
				}
			}
			now.Role = impart.Role(r.str(1))
			now.Periods = append(now.Periods, impart.Period{From: r.seq(2), To: r.seq(3)})
			return nil
		}, conv, after, rows)
		if err != nil || full {
			return out, err
		}
		if n < rows {
			flush()
			return out, nil
		}
	}
}

// prefetchDelivery has what readDelivery reads of each user read at once.
func prefetchDelivery(s session, c *convState, users []impart.MemberInfo) error {
	asks := make([]ask, 0, 2*len(users))
	for i := range users {
		asks = append(asks, ask{selectRead, []any{users[i].User, c.id}}, ask{selectDeliveries, []any{c.id, users[i].User}})
	}
	if err := s.prefetch(asks); err != nil {
		return err
	}
	return prefetchHeads(s, users, func(u impart.MemberInfo) (*convState, impart.Periods) { return c, u.Periods })
}

const selectDeliveries = "SELECT d.device_id, d.install_epoch, " + cursorColumns + " FROM devices d LEFT JOIN device_cursors c" +
	" ON c.user_id = d.user_id AND c.device_id = d.device_id AND c.conv_id = ? WHERE d.user_id = ? ORDER BY d.device_id"

// readDelivery reads how far an event has come with one user.
func readDelivery(s session, c *convState, epoch impart.Epoch, u impart.MemberInfo, ev *impart.Event) (impart.UserDelivery, error) {
	out := impart.UserDelivery{User: u.User}
	head, err := readHead(s, c, u.Periods)
	if err != nil {
		return out, err
	}
	read, err := readRead(s, c.id, u.User)
	if err != nil {
		return out, err
	}
	out.Read = read.counts(epoch) >= ev.Seq
	p := &place{epoch: epoch, periods: u.Periods, floor: min(c.floor, head), head: head}
	err = s.query(selectDeliveries, func(r row) error {
		cur := p.describe(scanCursor(r, 2), impart.InstallEpoch(r.num(1)))
		cur.User, cur.Device, cur.Conv = u.User, impart.DeviceID(r.str(0)), c.id
		out.Devices = append(out.Devices, cur)
		return nil
	}, c.id, u.User)
	return out, err
}

// describe tells a row, and where the cursor of a device with this install stands.
func (p *place) describe(r *cursorRow, install impart.InstallEpoch) impart.DeviceCursor {
	out := impart.DeviceCursor{Install: install, Epoch: p.epoch, Start: p.start(r, install), Delivered: p.effective(r, install)}
	if r != nil {
		out.Install, out.Epoch, out.Start = r.install, r.epoch, r.start
		if r.delivered > r.start { // otherwise a hello alone wrote it
			out.Updated = r.updated
		}
	}
	return out
}
