package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// Hello implements [store.Directory].
func (s *Store) Hello(ctx context.Context, h store.Hello) (out store.Device, err error) {
	var refusal error
	err = s.write(ctx, 1, func(st *state) {
		if !s.breaks[BreakHelloUser] {
			st.know(h.User)
		}
		key := deviceKey{h.User, h.Device}
		d := st.devices[key]
		now, said := s.now(), s.now()
		if !h.Said.IsZero() {
			said -= impart.Millis(time.Since(h.Said).Milliseconds())
		}
		if d != nil && d.session > 0 && said < d.seen && d.seen <= now && !s.breaks[BreakHelloOrder] {
			refusal = staleSession(h.Device)
			return
		}
		fresh := d == nil
		if fresh {
			d = &device{install: h.Install, epoch: 1}
			st.devices[key] = d
		} else if d.install != h.Install || (h.N != nil && *h.N < d.n && !s.breaks[BreakNCounter]) {
			d.install, d.n, fresh = h.Install, 0, true
			d.epoch++
		}
		if h.N != nil {
			d.n = max(d.n, *h.N)
		}
		if !s.breaks[BreakSession] {
			d.session++
		}
		d.seen = said
		if fresh && h.History != nil {
			s.startNear(st, key, *h.History)
		}
		out, refusal = store.Device{Install: d.epoch, N: d.n, Session: d.session, Fresh: fresh, Epoch: st.epoch}, nil
	})
	if err == nil {
		err = refusal
	}
	return out, err
}

func (st *state) know(user impart.UserID) *impart.UserInfo {
	if st.users[user] == nil {
		st.users[user] = &impart.UserInfo{User: user}
	}
	return st.users[user]
}

// startNear writes the device's start in every conversation of its user, so that
// want visible events lie after it, or all there are.
func (s *Store) startNear(st *state, key deviceKey, want int64) {
	for _, id := range st.convsOf(key.user) {
		c, ps := st.convs[id], st.periods(id, key.user)
		start := c.seen(ps)
		left := want
		for _, ev := range slices.Backward(c.log) {
			if left == 0 {
				break
			}
			if ps.Sees(ev) || s.breaks[BreakHistoryStart] {
				start = ev.Seq - 1
				left--
			}
		}
		if left > 0 {
			start = ps.First() - 1
		}
		d := st.devices[key]
		st.cursors[cursorKey{key, id}] = &cursor{install: d.epoch, epoch: st.epoch, start: start, delivered: start, written: s.now()}
	}
}

// Visit implements [store.Directory].
func (s *Store) Visit(ctx context.Context, user impart.UserID, dev impart.DeviceID, install string) (out store.Device, err error) {
	failed := s.write(ctx, 1, func(st *state) {
		key := deviceKey{user, dev}
		d := st.devices[key]
		fresh := d == nil
		if fresh {
			st.know(user)
			d = &device{install: install, epoch: 1, seen: s.now()}
			st.devices[key] = d
		}
		if d.install != install && s.breaks[BreakVisitRaises] {
			d.install = install
			d.epoch++
		}
		if d.install != install {
			err = staleInstall(dev)
			return
		}
		out = store.Device{Install: d.epoch, N: d.n, Session: d.session, Fresh: fresh, Epoch: st.epoch}
	})
	if failed != nil {
		return store.Device{}, failed
	}
	return out, err
}

// Standings implements [store.Directory].
func (s *Store) Standings(ctx context.Context, of []impart.Session) ([]store.Standing, error) {
	out := make([]store.Standing, len(of))
	err := s.read(ctx, func(st *state) {
		for i, session := range of {
			if d := st.devices[deviceKey{session.User, session.Device}]; d != nil {
				out[i].Session = d.session
			}
			if u := st.users[session.User]; u != nil && !s.breaks[BreakStandingUser] {
				out[i].Disabled, out[i].Revoked = u.Disabled, u.Revoked
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Devices implements [store.Directory].
func (s *Store) Devices(ctx context.Context, dev impart.DeviceID, user impart.UserID) ([]impart.DeviceInfo, error) {
	var out []impart.DeviceInfo
	err := s.read(ctx, func(st *state) {
		for key, d := range st.devices {
			if key.device != dev || (user != "" && key.user != user) {
				continue
			}
			info := impart.DeviceInfo{User: key.user, Device: dev, Install: d.epoch, N: d.n, Session: d.session, LastSeen: d.seen}
			for _, id := range st.convsOf(key.user) {
				if len(info.Cursors) == impart.MaxLimit {
					break
				}
				if k := (cursorKey{key, id}); st.cursors[k] != nil {
					info.Cursors = append(info.Cursors, s.deviceCursor(st, k))
				}
			}
			out = append(out, info)
		}
		slices.SortFunc(out, func(a, b impart.DeviceInfo) int { return cmp.Compare(a.User, b.User) })
	})
	return out, err
}

// deviceCursor is a device's effective cursor with what its row says, if it has one.
func (s *Store) deviceCursor(st *state, key cursorKey) impart.DeviceCursor {
	out := impart.DeviceCursor{
		User: key.user, Device: key.device, Conv: key.conv, Install: st.devices[key.deviceKey].epoch, Epoch: st.epoch,
		Start: max(st.periods(key.conv, key.user).First()-1, 0), Delivered: s.effective(st, key),
	}
	if row := st.cursors[key]; row != nil {
		out.Install, out.Epoch, out.Start, out.Updated = row.install, row.epoch, row.start, row.acked
	}
	return out
}

// PutUser implements [store.Directory].
func (s *Store) PutUser(ctx context.Context, user impart.UserID, disabled *bool, revoked *impart.Millis) (out impart.UserInfo, err error) {
	err = s.write(ctx, 1, func(st *state) {
		u := st.know(user)
		if disabled != nil {
			u.Disabled = *disabled
		} else if s.breaks[BreakDisabled] {
			u.Disabled = false
		}
		if revoked != nil && (*revoked > u.Revoked || s.breaks[BreakRevoked]) {
			u.Revoked = *revoked
		}
		out = *u
	})
	return out, err
}

// User implements [store.Directory].
func (s *Store) User(ctx context.Context, user impart.UserID) (out impart.UserInfo, err error) {
	failed := s.read(ctx, func(st *state) {
		u := st.users[user]
		if u == nil {
			err = impart.Errorf(impart.NotFound, "there is no user %q", user)
			return
		}
		out = *u
	})
	if failed != nil {
		return impart.UserInfo{}, failed
	}
	return out, err
}
