package memstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// Meta implements [store.Upkeep].
func (s *Store) Meta(ctx context.Context) (m store.Meta, err error) {
	err = s.read(ctx, func(st *state) { m = store.Meta{Epoch: st.epoch, Incarnation: st.incarnation} })
	return m, err
}

// RaiseEpoch implements [store.Upkeep].
func (s *Store) RaiseEpoch(ctx context.Context, now impart.Millis) (epoch impart.Epoch, err error) {
	err = s.write(ctx, 1, func(st *state) {
		if st.epoch++; impart.Epoch(now) > st.epoch || s.breaks[BreakEpochRaise] {
			st.epoch = impart.Epoch(now)
		}
		epoch = st.epoch
	})
	return epoch, err
}

// Retain implements [store.Upkeep].
func (s *Store) Retain(ctx context.Context, before impart.Millis, limit int) (removed int, more bool, err error) {
	err = s.write(ctx, 1, func(st *state) {
		for _, id := range sortedKeys(st.convs) {
			c := st.convs[id]
			for len(c.log) > 0 && c.log[0].At < before {
				if removed == limit && !s.breaks[BreakRetainBound] {
					more = true
					return
				}
				if s.breaks[BreakRetainDedup] {
					delete(st.dedup, s.messageKey(c.log[0].Sender, c.log[0].CMID))
				}
				c.floor = c.log[0].Seq
				c.log = slices.Delete(c.log, 0, 1)
				removed++
			}
		}
	})
	return removed, more, err
}

// CleanDedup implements [store.Upkeep].
func (s *Store) CleanDedup(ctx context.Context, before impart.Millis, limit int) (removed int, more bool, err error) {
	err = s.write(ctx, 1, func(st *state) {
		var old []messageKey
		for key, row := range st.dedup {
			if row.at < before && (!row.recalled || s.breaks[BreakDedupRecalled]) {
				old = append(old, key)
			}
		}
		slices.SortFunc(old, func(a, b messageKey) int {
			return cmp.Or(cmp.Compare(st.dedup[a].at, st.dedup[b].at), cmp.Compare(a.user, b.user), cmp.Compare(a.cmid, b.cmid))
		})
		if more = len(old) > limit; more {
			old = old[:limit]
		}
		for _, key := range old {
			delete(st.dedup, key)
		}
		removed = len(old)
		st.cleaned = st.cleaned || removed > 0
	})
	return removed, more, err
}

// DedupKeys implements [store.Upkeep].
func (s *Store) DedupKeys(ctx context.Context, since impart.Millis, limit int) (keys []store.DedupKey, err error) {
	err = s.read(ctx, func(st *state) {
		for key, row := range st.dedup {
			if row.at >= since && !row.recalled {
				keys = append(keys, store.DedupKey{User: key.user, CMID: key.cmid, At: row.at})
			}
		}
	})
	slices.SortFunc(keys, func(a, b store.DedupKey) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.User, b.User), cmp.Compare(a.CMID, b.CMID))
	})
	return keys[:min(limit, len(keys))], err
}

// Settings implements [store.Upkeep].
func (s *Store) Settings(ctx context.Context) ([]store.Setting, error) {
	if err := errors.Join(ctx.Err(), s.closed()); err != nil {
		return nil, err
	}
	if s.breaks[BreakSettings] {
		return nil, nil
	}
	return []store.Setting{{
		Name: "storage", Value: "memory", Want: "disk",
		Why: "everything is lost when the process ends",
	}}, nil
}

// Vitals implements [store.Upkeep]: nobody follows, and the clock counts where
// several nodes have it in common.
func (s *Store) Vitals(ctx context.Context) (v store.Vitals, err error) {
	if err := errors.Join(ctx.Err(), s.closed()); err != nil {
		return v, err
	}
	if s.shared {
		v.Now, v.Asked = s.now(), time.Now()
	}
	return v, nil
}

// Ping implements [store.Upkeep].
func (s *Store) Ping(ctx context.Context) error { return s.read(ctx, func(*state) {}) }

// Stats implements [store.Upkeep].
func (s *Store) Stats() store.Stats {
	return store.Stats{
		Commits: s.commits.Load(), Items: s.items.Load(), Queue: s.queue(), Dups: s.dups.Load(),
		Slowest: impart.Millis(s.slowest.Load()), Reads: s.reads.Load(),
	}
}
