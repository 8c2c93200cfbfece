package sqlstore

import (
	"context"
	"fmt"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/store"
)

// Append implements [store.Log].
func (s *Store) Append(ctx context.Context, items []store.Append) []store.Appended {
	var ops []*op
	var at []int
	lanes := s.lanes.appends
	if len(lanes) > 1 && sharesKeys(items) {
		lanes = lanes[:1]
	}
	for _, share := range shares(lanes, items, func(a *store.Append) string { return string(a.Conv) }) {
		ops, at = append(ops, s.appendOps(share)...), append(at, share.at...)
	}
	return outcomes(ctx, s, ops, at, func(o *op) []store.Appended { return o.appended }, func(err error) store.Appended { return store.Appended{Err: err} })
}

// sharesKeys reports whether two items of a call have one key: the first of them
// has it then, wherever they are sent to.
func sharesKeys(items []store.Append) bool {
	if len(items) < 2 {
		return false
	}
	seen := make(map[dedupKey]bool, len(items))
	for i := range items {
		key := keyOf(items[i].Sender, items[i].CMID)
		if seen[key] {
			return true
		}
		seen[key] = true
	}
	return false
}

// appendOps cuts a lane's share of a call into ops that fit a transaction.
func (s *Store) appendOps(share share[store.Append]) []*op {
	limit := s.opts.MaxBatch
	if s.opts.NoGroupCommit {
		limit = 1
	}
	var ops []*op
	for items := share.items; len(items) > 0; {
		n, bytes := 0, 0
		for ; n < min(limit, len(items)); n++ {
			more := len(items[n].Body) + len(items[n].Ext)
			if n > 0 && bytes+more > maxBatchBytes {
				break
			}
			bytes += more
		}
		ops = append(ops, &op{lane: share.lane, appends: items[:n], appended: make([]store.Appended, n), items: n, bytes: bytes})
		items = items[n:]
	}
	return ops
}

// appendAll stores the messages of all ops together.
func (tx *txn) appendAll(ops []*op) error {
	w := tx.writer
	w.appends = w.appends[:0]
	for _, o := range ops {
		for i := range o.appends {
			w.appends = append(w.appends, &o.appends[i])
		}
	}
	if len(w.appends) == 0 {
		return nil
	}
	defer func() {
		clear(w.appends)
		clear(w.facts)
	}()
	meta, err := tx.metaRow()
	if err != nil {
		return err
	}
	if meta.cleaned {
		if err := tx.prefetchLogged(); err != nil {
			return err
		}
	}
	if err := tx.learn(meta); err != nil {
		return err
	}
	p := planAppends(meta.epoch, w.appends, w.facts, tx.redo)
	if tx.bulk != nil {
		tx.leaveTails(p)
	}
	if err := fault.At(fault.BeforeInsert); err != nil {
		return err
	}
	if fault.Planted(fault.DedupApart) {
		if err := tx.keysApart(p); err != nil {
			return err
		}
	}
	for i, a := range w.appends {
		if out := &p.outcomes[i]; out.Err == nil && !out.Dup {
			tx.stored(a.Conv, out.Seq, w.facts[i].conv.version)
		}
	}
	if tx.bulk != nil {
		err = tx.bulk.carryOut(p)
	} else {
		err = tx.carryOut(p)
	}
	if err != nil {
		return err
	}
	if err := fault.At(fault.BeforeCommit); err != nil {
		return err
	}
	done := p.outcomes
	for _, o := range ops {
		done = done[copy(o.appended, done):]
	}
	return nil
}

// keysApart is what a store does that has the key and the event in transactions
// of their own.
func (tx *txn) keysApart(p *plan) error {
	for i := range p.keys {
		if err := tx.insertKey(&p.keys[i]); err != nil {
			return err
		}
	}
	p.keys = nil
	if _, err := tx.exec(tx.s.sql.commit); err != nil {
		return err
	}
	_, err := tx.exec(tx.s.sql.begin)
	return err
}

// learn reads what the plan has to know of each item.
func (tx *txn) learn(meta *metaRow) error {
	w := tx.writer
	if cap(w.facts) < len(w.appends) {
		w.facts = make([]facts, len(w.appends))
	}
	w.facts = w.facts[:len(w.appends)]
	targets := map[eventKey]*impart.Event{}
	for i, a := range w.appends {
		f := &w.facts[i]
		*f = facts{}
		if a.Epoch != 0 && a.Epoch != meta.epoch {
			continue // refused before anything else is looked at
		}
		if err := tx.learnOne(a, f, meta); err != nil {
			return err
		}
		if a.Kind == impart.KindRecall && f.conv != nil && f.taken == nil {
			if err := tx.learnTarget(a, f, targets); err != nil {
				return err
			}
		}
	}
	return nil
}

func (tx *txn) learnOne(a *store.Append, f *facts, meta *metaRow) (err error) {
	if f.conv, err = tx.conv(a.Conv); err != nil {
		return err
	}
	if f.conv != nil {
		if err = tx.examine(f.conv); err != nil {
			return err
		}
	}
	if f.conv != nil && a.Sender != impart.System {
		if f.member, err = tx.member(a.Conv, a.Sender); err != nil {
			return err
		}
	}
	if f.taken, err = tx.dedup(keyOf(a.Sender, a.CMID)); err != nil {
		return err
	}
	if f.taken == nil && meta.cleaned {
		if f.logged, err = readLogged(tx, a.Conv, a.Sender, a.CMID); err != nil {
			return err
		}
	}
	if a.Prev == "" || f.taken != nil {
		return nil
	}
	if f.prev, err = tx.dedup(keyOf(a.Sender, a.Prev)); err != nil || f.prev != nil || !meta.cleaned {
		return err
	}
	ev, err := readLogged(tx, a.Conv, a.Sender, a.Prev)
	f.prevLogged = ev != nil
	return err
}

// prefetchLogged has what learnOne looks up for keys that are free read at once.
func (tx *txn) prefetchLogged() error {
	var asks []ask
	for _, a := range tx.appends {
		for _, cmid := range []impart.CMID{a.CMID, a.Prev} {
			if row, known := tx.keys[keyOf(a.Sender, cmid)]; known && row == nil && cmid != "" {
				asks = append(asks, ask{selectLogged, []any{a.Conv, a.Sender, cmid}})
			}
		}
	}
	return tx.prefetch(asks)
}

// eventKey is an event's place.
type eventKey struct {
	conv impart.ConvID
	seq  impart.Seq
}

// learnTarget reads the message that a recall is about, once for all recalls of
// the transaction, and the sender's head.
func (tx *txn) learnTarget(a *store.Append, f *facts, targets map[eventKey]*impart.Event) (err error) {
	key := eventKey{a.Conv, a.Target}
	ev, ok := targets[key]
	if !ok {
		if ev, err = readEvent(tx, a.Conv, a.Target); err != nil {
			return err
		}
		targets[key] = ev
	}
	f.target = ev
	if f.member != nil {
		f.head, err = readHead(tx, f.conv, f.member.periods)
	}
	return err
}

// dedup is a key's row; nil if the key is free.
func (tx *txn) dedup(key dedupKey) (*dedupRow, error) {
	if row, ok := tx.keys[key]; ok {
		return row, nil
	}
	return readDedup(tx, key)
}

// readDedup reads a key's row; nil if the key is free. Most keys are, and to find
// that out takes the index alone.
func readDedup(s session, key dedupKey) (out *dedupRow, err error) {
	taken := false
	err = s.query("SELECT 1 FROM msg_dedup WHERE user_id = ? AND cmid = ?", func(row) error {
		taken = true
		return nil
	}, key.user, key.cmid)
	if err != nil || !taken {
		return nil, err
	}
	err = s.query("SELECT conv_id, seq, mid, created_at, hash FROM msg_dedup WHERE user_id = ? AND cmid = ?", func(r row) error {
		out = &dedupRow{
			conv: impart.ConvID(r.str(0)), seq: r.seq(1), mid: impart.MID(r.str(2)), at: impart.Millis(r.num(3)), hash: readHash(r.bytes(4)),
		}
		return nil
	}, key.user, key.cmid)
	return out, err
}

// readLogged finds a sender's event by its cmid, for which there is an index once
// dedup rows are cleaned away; nil if there is none.
func readLogged(s session, conv impart.ConvID, sender impart.UserID, cmid impart.CMID) (ev *impart.Event, err error) {
	err = s.query(selectLogged, func(r row) error {
		found := scanEvent(r, conv)
		ev = &found
		return errEnough
	}, conv, sender, cmid)
	return ev, err
}

const selectLogged = "SELECT " + eventColumns + " FROM events WHERE conv_id = ? AND sender = ? AND cmid = ? AND cmid <> '' LIMIT 1"

// carryOut writes what the plan says.
func (tx *txn) carryOut(p *plan) error {
	for _, c := range p.convs {
		if err := tx.writeNext(c); err != nil {
			return err
		}
	}
	for i := range p.events {
		if err := tx.insertEvent(&p.events[i]); err != nil {
			return err
		}
	}
	for i := range p.keys {
		if err := tx.insertKey(&p.keys[i]); err != nil {
			return err
		}
	}
	for _, key := range p.touched {
		if err := tx.one("UPDATE msg_dedup SET seen = seen + 1 WHERE user_id = ? AND cmid = ?", key.user, key.cmid); err != nil {
			return err
		}
	}
	for i := range p.recalled {
		if err := tx.empty(&p.recalled[i]); err != nil {
			return err
		}
	}
	return nil
}

// one executes a statement that must change one row: another count means that
// the database is not what the writer took it for.
func (tx *txn) one(query string, args ...any) error {
	n, err := tx.exec(query, args...)
	if err == nil && n != 1 {
		err = fmt.Errorf("sqlstore: %d rows changed instead of one by %s", n, query)
	}
	return err
}

func (tx *txn) writeNext(c *convState) error {
	return tx.one("UPDATE conversations SET next_seq = ?, updated_at = ? WHERE conv_id = ?", c.next, tx.now, c.id)
}

func (tx *txn) insertEvent(ev *impart.Event) error {
	if ev.Kind == impart.KindMsg && ev.Ext == nil && !ev.Recalled { // nearly all of them; each value costs
		return tx.one("INSERT INTO events (conv_id, seq, kind, mid, sender, device, cmid, type, body, at) VALUES (?, ?, 'msg', ?, ?, ?, ?, ?, ?, ?)",
			ev.Conv, ev.Seq, ev.MID, ev.Sender, ev.Device, ev.CMID, ev.Type, ev.Body, ev.At)
	}
	var target, subject, actor any
	switch ev.Kind {
	case impart.KindRecall:
		target, subject = ev.Target, ev.TargetMID
	case impart.KindJoin, impart.KindLeave:
		subject, actor = ev.User, ev.By
	}
	return tx.one("INSERT INTO events (conv_id, "+eventColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		ev.Conv, ev.Seq, ev.Kind, ev.MID, ev.Sender, ev.Device, ev.CMID, ev.Type, ev.Body, ev.Ext, target, ev.Recalled, ev.At, subject, actor)
}

func (tx *txn) insertKey(k *newKey) error {
	if fault.Planted(fault.NoDedup) { // the table has this guard too
		if _, err := tx.exec("DELETE FROM msg_dedup WHERE user_id = ? AND cmid = ?", k.user, k.cmid); err != nil {
			return err
		}
	}
	return tx.one("INSERT INTO msg_dedup (user_id, cmid, mid, conv_id, seq, hash, created_at, recalled) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		k.user, k.cmid, k.mid, k.conv, k.seq, k.hash.column(), k.at, k.recalled)
}

// empty takes the content out of a recalled message and keeps its dedup row for
// ever, which is made again if it was cleaned away: the event may go too.
func (tx *txn) empty(r *recalledRow) error {
	ev := r.event
	err := tx.one("UPDATE events SET recalled = ?, body = ?, ext = ? WHERE conv_id = ? AND seq = ?", ev.Recalled, ev.Body, ev.Ext, ev.Conv, ev.Seq)
	if err != nil || ev.CMID == "" {
		return err
	}
	key := keyOf(ev.Sender, ev.CMID)
	if fault.Planted(fault.RecallFreesDedup) {
		_, err := tx.exec("DELETE FROM msg_dedup WHERE user_id = ? AND cmid = ?", key.user, key.cmid)
		return err
	}
	n, err := tx.exec("UPDATE msg_dedup SET recalled = 1 WHERE user_id = ? AND cmid = ?", key.user, key.cmid)
	if err != nil || n > 0 {
		return err
	}
	return tx.insertKey(&newKey{key, dedupRow{conv: ev.Conv, seq: ev.Seq, mid: ev.MID, at: ev.At, hash: r.was}, true})
}
