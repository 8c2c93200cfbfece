package sqlstore

import (
	"context"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// Meta implements [store.Upkeep].
func (s *Store) Meta(ctx context.Context) (store.Meta, error) {
	var out store.Meta
	err := s.read(ctx, func(c session) error {
		m, err := readMeta(c)
		if err == nil {
			out = store.Meta{Epoch: m.epoch, Incarnation: m.incarnation}
		}
		return err
	})
	return out, err
}

// RaiseEpoch implements [store.Upkeep].
func (s *Store) RaiseEpoch(ctx context.Context, now impart.Millis) (impart.Epoch, error) {
	var out impart.Epoch
	err := s.direct(ctx, func(tx *txn) error {
		m, err := lockMeta(tx)
		if err != nil {
			return err
		}
		out = max(m.epoch+1, impart.Epoch(now))
		tx.meta = nil
		return tx.one("UPDATE meta SET epoch = ?", out)
	})
	if err != nil {
		return 0, err
	}
	return out, nil
}

// Retain implements [store.Upkeep]. It looks for conversations with old events on
// a reader's connection, so that writers wait only for the removal.
func (s *Store) Retain(ctx context.Context, before impart.Millis, limit int) (removed int, more bool, err error) {
	var convs []impart.ConvID
	err = s.read(ctx, func(c session) error {
		return c.query("SELECT v.conv_id FROM conversations v JOIN events e ON e.conv_id = v.conv_id AND e.seq = v.floor + 1"+
			" WHERE e.at < ? ORDER BY v.conv_id LIMIT ?", func(r row) error {
			convs = append(convs, impart.ConvID(r.str(0)))
			return nil
		}, before, limit+1)
	})
	if err != nil || len(convs) == 0 {
		return 0, false, err
	}
	// Of its own: when ctx ends, the transaction may still be at work on it.
	var done struct {
		removed int
		more    bool
	}
	err = s.direct(ctx, func(tx *txn) error {
		done.removed, done.more = 0, false
		for _, conv := range convs {
			n, rest, err := tx.retain(conv, before, limit-done.removed)
			if err != nil {
				return err
			}
			done.removed, done.more = done.removed+n, done.more || rest
			if done.more {
				return nil
			}
		}
		return nil
	})
	if err != nil {
		return 0, false, err
	}
	return done.removed, done.more, nil
}

// retain removes at most limit old events from the old end of a conversation.
func (tx *txn) retain(conv impart.ConvID, before impart.Millis, limit int) (removed int, more bool, err error) {
	c, err := tx.lockConv(conv)
	if err != nil || c == nil {
		return 0, false, err
	}
	floor := c.floor
	err = tx.query("SELECT seq, at FROM events WHERE conv_id = ? AND seq > ? ORDER BY seq LIMIT ?", func(r row) error {
		if impart.Millis(r.num(1)) >= before {
			return errEnough
		}
		if more = removed == limit; more {
			return errEnough
		}
		floor = r.seq(0)
		removed++
		return nil
	}, conv, c.floor, limit+1)
	if err != nil || removed == 0 {
		return 0, more, err
	}
	if _, err := tx.exec("DELETE FROM events WHERE conv_id = ? AND seq <= ?", conv, floor); err != nil {
		return 0, false, err
	}
	tx.convs.drop(conv)
	return removed, more, tx.one("UPDATE conversations SET floor = ? WHERE conv_id = ?", floor, conv)
}

// CleanDedup implements [store.Upkeep].
func (s *Store) CleanDedup(ctx context.Context, before impart.Millis, limit int) (removed int, more bool, err error) {
	var keys []dedupKey
	find := func(c session) error {
		keys = keys[:0]
		return c.query("SELECT user_id, cmid FROM msg_dedup WHERE recalled = 0 AND created_at < ? ORDER BY created_at LIMIT ?", func(r row) error {
			keys = append(keys, dedupKey{impart.UserID(r.str(0)), impart.CMID(r.str(1))})
			return nil
		}, before, limit+1)
	}
	if err := s.indexKeys(ctx); err != nil {
		return 0, false, err
	}
	if err := s.read(ctx, find); err != nil || len(keys) == 0 {
		return 0, false, err
	}
	rows := 0
	err = s.direct(ctx, func(tx *txn) error {
		rows = 0
		for _, k := range keys[:min(limit, len(keys))] {
			// Asked again: a recall may have come in between (D17).
			n, err := tx.exec("DELETE FROM msg_dedup WHERE user_id = ? AND cmid = ? AND recalled = 0", k.user, k.cmid)
			if err != nil {
				return err
			}
			rows += int(n)
		}
		tx.meta = nil
		return tx.one("UPDATE meta SET cleaned = 1")
	})
	if err != nil {
		return 0, false, err
	}
	return rows, len(keys) > limit, nil
}

// DedupKeys implements [store.Upkeep].
func (s *Store) DedupKeys(ctx context.Context, since impart.Millis, limit int) ([]store.DedupKey, error) {
	if err := s.indexTimes(ctx); err != nil {
		return nil, err
	}
	var keys []store.DedupKey
	err := s.read(ctx, func(c session) error {
		keys = keys[:0]
		return c.query("SELECT user_id, cmid, created_at FROM msg_dedup WHERE recalled = 0 AND created_at >= ? ORDER BY created_at LIMIT ?", func(r row) error {
			keys = append(keys, store.DedupKey{User: impart.UserID(r.str(0)), CMID: impart.CMID(r.str(1)), At: impart.Millis(r.num(2))})
			return nil
		}, since, limit)
	})
	return keys, err
}

// byTime is the index by which dedup rows of a time are found, and byCMID the one by
// which events decide where those rows were cleaned away.
var (
	byTime = index{"msg_dedup_by_time", "ON msg_dedup (created_at) WHERE recalled = 0"}
	byCMID = index{"events_by_cmid", "ON events (conv_id, sender, cmid) WHERE cmid <> ''"}
)

// indexKeys makes the indexes that cleaning needs, unless they are there.
func (s *Store) indexKeys(ctx context.Context) error { return s.indexAll(ctx, byTime, byCMID) }

// indexTimes makes the index of times. It is looked for only once.
func (s *Store) indexTimes(ctx context.Context) error {
	if s.timesIndexed.Load() {
		return nil
	}
	err := s.indexAll(ctx, byTime)
	s.timesIndexed.Store(err == nil)
	return err
}

func (s *Store) indexAll(ctx context.Context, indexes ...index) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.reading.Done()
	return s.engine.index(ctx, indexes)
}

// index is one that is made when it is needed.
type index struct{ name, on string }

// Settings implements [store.Upkeep].
func (s *Store) Settings(ctx context.Context) ([]store.Setting, error) {
	var out []store.Setting
	err := s.direct(ctx, func(tx *txn) (err error) {
		out, err = s.engine.settings(tx)
		return err
	})
	if err != nil && s.Halted() != nil { // a server has to start to be able to judge
		return s.engine.settingsApart(ctx)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Vitals implements [store.Upkeep].
func (s *Store) Vitals(ctx context.Context) (store.Vitals, error) {
	if err := s.enter(); err != nil {
		return store.Vitals{}, err
	}
	defer s.reading.Done()
	return s.engine.vitals(ctx)
}

// Ping implements [store.Upkeep].
func (s *Store) Ping(ctx context.Context) error {
	return s.read(ctx, func(c session) error {
		_, err := readMeta(c)
		return err
	})
}
