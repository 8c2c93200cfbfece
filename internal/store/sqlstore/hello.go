package sqlstore

import (
	"context"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/store"
)

// readDevice reads a device without its cursors; nil if it is unknown.
func readDevice(s session, user impart.UserID, device impart.DeviceID) (*impart.DeviceInfo, error) {
	return queryDevice(s, selectDevice, user, device)
}

const selectDevice = "SELECT install_epoch, n, session, last_seen FROM devices WHERE user_id = ? AND device_id = ?"

// lockDevice is readDevice, and keeps other transactions from changing the device
// and moving its cursors.
func (tx *txn) lockDevice(user impart.UserID, device impart.DeviceID) (*impart.DeviceInfo, error) {
	return queryDevice(tx, selectDevice+tx.s.sql.forUpdate, user, device)
}

func queryDevice(s session, query string, user impart.UserID, device impart.DeviceID) (out *impart.DeviceInfo, err error) {
	err = s.query(query, func(r row) error {
		out = &impart.DeviceInfo{
			User: user, Device: device, Install: impart.InstallEpoch(r.num(0)), N: r.num(1), Session: r.num(2), LastSeen: impart.Millis(r.num(3)),
		}
		return nil
	}, user, device)
	return out, err
}

// readInstall reads the install id that a device came with.
func readInstall(s session, user impart.UserID, device impart.DeviceID) (install string, err error) {
	err = s.query("SELECT install FROM devices WHERE user_id = ? AND device_id = ?", func(r row) error {
		install = r.str(0)
		return nil
	}, user, device)
	return install, err
}

// Hello implements [store.Directory].
func (s *Store) Hello(ctx context.Context, h store.Hello) (store.Device, error) {
	var out store.Device
	err := s.direct(ctx, func(tx *txn) (err error) {
		out, err = tx.hello(&h)
		return err
	})
	if err != nil {
		return store.Device{}, err
	}
	return out, nil
}

func (tx *txn) hello(h *store.Hello) (out store.Device, err error) {
	meta, err := tx.metaRow()
	if err != nil {
		return out, err
	}
	dev, err := tx.lockDevice(h.User, h.Device)
	if err != nil {
		return out, err
	}
	said, latest, at, err := tx.when(h.Said)
	if err != nil {
		return out, err
	}
	// A time of the last hello that is still to come is from a clock that was set back
	// since: it says nothing.
	if dev != nil && dev.Session > 0 && latest < dev.LastSeen && dev.LastSeen <= at {
		return out, staleSession(h.Device)
	}
	if dev == nil {
		dev, out.Fresh = &impart.DeviceInfo{User: h.User, Device: h.Device, Install: 1}, true
		if err := tx.addDevice(dev, h.Install, said); err != nil {
			return out, err
		}
	} else {
		install, err := readInstall(tx, h.User, h.Device)
		if err != nil {
			return out, err
		}
		rolledBack := h.N != nil && *h.N < dev.N && !fault.Planted(fault.NIgnored)
		if install != h.Install || rolledBack {
			dev.Install++
			dev.N, out.Fresh = 0, true
		}
	}
	if h.N != nil {
		dev.N = max(dev.N, *h.N)
	}
	dev.Session++
	err = tx.one("UPDATE devices SET install = ?, install_epoch = ?, n = ?, session = ?, last_seen = ? WHERE user_id = ? AND device_id = ?",
		h.Install, dev.Install, dev.N, dev.Session, said, h.User, h.Device)
	if err != nil {
		return out, err
	}
	if out.Fresh && h.History != nil {
		if err := tx.startNear(dev, *h.History); err != nil {
			return out, err
		}
	}
	tx.users.drop(h.User)
	out.Install, out.N, out.Session, out.Epoch = dev.Install, dev.N, dev.Session, meta.epoch
	return out, nil
}

// when gives the time at which something was said, and the time now, by the store's
// clock. That is read after the locks that the transaction waited for: how long it
// has waited is part of how long ago it was. Asking takes time too, and on a busy
// machine it may take longer than there is between two hellos, so that the time is
// known as lying between earliest and latest.
func (tx *txn) when(said time.Time) (earliest, latest, now impart.Millis, err error) {
	before := time.Since(said)
	if tx.s.sql.clock == "" {
		now = tx.s.opts.Now()
	} else if err := tx.query(tx.s.sql.clock, func(r row) error { now = impart.Millis(r.num(0)); return nil }); err != nil {
		return 0, 0, 0, err
	}
	if said.IsZero() {
		return now, now, now, nil
	}
	earliest, latest = saidBetween(now, before, time.Since(said))
	return earliest, latest, now, nil
}

// saidBetween is when something was said, by a clock that showed now at a moment in
// which that was between before and after ago. The clock shows whole milliseconds.
func saidBetween(now impart.Millis, before, after time.Duration) (earliest, latest impart.Millis) {
	up := (max(0, after) + time.Millisecond - 1).Milliseconds()
	return now - impart.Millis(up), now + 1 - impart.Millis(max(0, before).Milliseconds())
}

func (tx *txn) addDevice(dev *impart.DeviceInfo, install string, now impart.Millis) error {
	if _, err := tx.exec(tx.s.sql.newUser, dev.User); err != nil {
		return err
	}
	tx.users.drop(dev.User)
	return tx.one("INSERT INTO devices (user_id, device_id, install, install_epoch, n, session, last_seen) VALUES (?, ?, ?, ?, ?, ?, ?)",
		dev.User, dev.Device, install, dev.Install, dev.N, dev.Session, now)
}

// startNear writes the start of a fresh install in every conversation of its
// user, so that history visible events lie after it (D3).
func (tx *txn) startNear(dev *impart.DeviceInfo, history int64) error {
	all, err := readSeen(tx, dev.User, dev.Device, "", maxConvs)
	if err != nil {
		return err
	}
	if err := finishAll(tx, all); err != nil {
		return err
	}
	for _, v := range all {
		var recalls []recallMark
		if !v.periods.All() {
			if recalls, err = readRecalls(tx, v.conv); err != nil {
				return err
			}
		}
		start := startNear(v.periods, history, v.head, v.conv.floor, recalls)
		key := flowKey{memberKey{v.conv.id, dev.User}, dev.Device}
		err := tx.putCursor(key, &cursorRow{install: dev.Install, epoch: v.epoch, start: start, delivered: start, n: dev.N, updated: tx.now})
		if err != nil {
			return err
		}
		tx.caches.flows.drop(key.memberKey)
	}
	return nil
}

// Visit implements [store.Directory]. It writes only for an unknown device.
func (s *Store) Visit(ctx context.Context, user impart.UserID, device impart.DeviceID, install string) (store.Device, error) {
	var out store.Device
	known := false
	look := func(c session) (err error) {
		out, known, err = visit(c, user, device, install)
		return err
	}
	if err := s.read(ctx, look); err != nil || known {
		return out, err
	}
	err := s.direct(ctx, func(tx *txn) error {
		if err := look(tx); err != nil || known {
			return err
		}
		dev := &impart.DeviceInfo{User: user, Device: device, Install: 1}
		if err := tx.addDevice(dev, install, tx.now); err != nil {
			return err
		}
		meta, err := tx.metaRow()
		if err != nil {
			return err
		}
		out = store.Device{Install: 1, Fresh: true, Epoch: meta.epoch}
		return nil
	})
	if err != nil {
		return store.Device{}, err
	}
	return out, nil
}

func visit(s session, user impart.UserID, device impart.DeviceID, install string) (out store.Device, known bool, err error) {
	meta, err := readMeta(s)
	if err != nil {
		return out, false, err
	}
	dev, err := readDevice(s, user, device)
	if err != nil || dev == nil {
		return out, false, err
	}
	have, err := readInstall(s, user, device)
	if err != nil {
		return out, false, err
	}
	if have != install {
		return out, false, staleInstall(device)
	}
	return store.Device{Install: dev.Install, N: dev.N, Session: dev.Session, Epoch: meta.epoch}, true, nil
}
