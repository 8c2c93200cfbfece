package sqlstore

import (
	"context"

	"github.com/impart-im/impart"
)

// Devices implements [store.Directory].
func (s *Store) Devices(ctx context.Context, device impart.DeviceID, user impart.UserID) ([]impart.DeviceInfo, error) {
	var out []impart.DeviceInfo
	err := s.read(ctx, func(c session) error {
		meta, err := readMeta(c)
		if err != nil {
			return err
		}
		query, args := "SELECT user_id FROM devices WHERE device_id = ? ORDER BY user_id", []any{device}
		if user != "" {
			query, args = "SELECT user_id FROM devices WHERE device_id = ? AND user_id = ?", []any{device, user}
		}
		var users []impart.UserID
		err = c.query(query, func(r row) error {
			users = append(users, impart.UserID(r.str(0)))
			return nil
		}, args...)
		if err != nil {
			return err
		}
		for _, u := range users {
			dev, err := readDevice(c, u, device)
			if err != nil {
				return err
			}
			if dev.Cursors, err = readCursors(c, dev, meta.epoch); err != nil {
				return err
			}
			out = append(out, *dev)
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// readCursors reads a device's cursors in its user's conversations, by id.
func readCursors(s session, dev *impart.DeviceInfo, epoch impart.Epoch) ([]impart.DeviceCursor, error) {
	var rows []*seen
	err := s.query("SELECT v.conv_id, v.kind, v.history, v.next_seq, v.floor, v.members_version, "+cursorColumns+
		" FROM device_cursors c JOIN conversations v ON v.conv_id = c.conv_id WHERE c.user_id = ? AND c.device_id = ? ORDER BY c.conv_id LIMIT ?",
		func(r row) error {
			v := &seen{cursor: scanCursor(r, 6)}
			v.epoch, v.conv = epoch, scanConv(r[:6])
			rows = append(rows, v)
			return nil
		}, dev.User, dev.Device, impart.MaxLimit)
	if err != nil {
		return nil, err
	}
	asks := make([]ask, 0, len(rows))
	for _, v := range rows {
		asks = append(asks, ask{selectMember, []any{v.conv.id, dev.User}})
	}
	if err := s.prefetch(asks); err != nil {
		return nil, err
	}
	var out []impart.DeviceCursor
	for _, v := range rows {
		m, err := readMember(s, v.conv.id, dev.User)
		if err != nil {
			return nil, err
		}
		if m == nil {
			continue
		}
		v.periods = m.periods
		if err := v.finish(s); err != nil {
			return nil, err
		}
		cur := v.describe(v.cursor, dev.Install)
		cur.User, cur.Device, cur.Conv = dev.User, dev.Device, v.conv.id
		out = append(out, cur)
	}
	return out, nil
}

// PutUser implements [store.Directory].
func (s *Store) PutUser(ctx context.Context, user impart.UserID, disabled *bool, revoked *impart.Millis) (impart.UserInfo, error) {
	var out impart.UserInfo
	err := s.direct(ctx, func(tx *txn) error {
		if _, err := tx.exec(tx.s.sql.newUser, user); err != nil {
			return err
		}
		info, err := queryUser(tx, selectUser+tx.s.sql.forUpdate, user)
		if err != nil {
			return err
		}
		if disabled != nil {
			info.Disabled = *disabled
		}
		if revoked != nil {
			info.Revoked = max(info.Revoked, *revoked)
		}
		out = *info
		return tx.one("UPDATE users SET disabled = ?, revoked = ? WHERE user_id = ?", info.Disabled, info.Revoked, user)
	})
	if err != nil {
		return impart.UserInfo{}, err
	}
	return out, nil
}

// User implements [store.Directory].
func (s *Store) User(ctx context.Context, user impart.UserID) (impart.UserInfo, error) {
	var out impart.UserInfo
	err := s.read(ctx, func(c session) error {
		info, err := readUser(c, user)
		if err != nil {
			return err
		}
		if info == nil {
			return impart.Errorf(impart.NotFound, "there is no user %q", user)
		}
		out = *info
		return nil
	})
	if err != nil {
		return impart.UserInfo{}, err
	}
	return out, nil
}

const selectUser = "SELECT disabled, revoked FROM users WHERE user_id = ?"

func readUser(s session, user impart.UserID) (*impart.UserInfo, error) {
	return queryUser(s, selectUser, user)
}

func queryUser(s session, query string, user impart.UserID) (out *impart.UserInfo, err error) {
	err = s.query(query, func(r row) error {
		out = &impart.UserInfo{User: user, Disabled: r.num(0) != 0, Revoked: impart.Millis(r.num(1))}
		return nil
	}, user)
	return out, err
}
