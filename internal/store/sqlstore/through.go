package sqlstore

import (
	"errors"
	"fmt"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
)

// attempt is one transaction of an engine whose database other nodes write too.
type attempt interface {
	load(ops []*op) error    // begins it, locks, and reads all that ops ask for
	loadDirect() error       // begins it for an op that reads row by row
	refusal(err error) error // turns an error about a value into the refusal that it is
	undo()
	commit() error // sends what was put off and the COMMIT
}

// through takes ops through a transaction, to its commit. answered: the op was refused
// and has its answer, and the transaction is undone.
func (tx *txn) through(t attempt, ops []*op) (answered bool, err error) {
	direct := ops[0].direct
	if direct != nil {
		err = t.loadDirect()
	} else {
		err = t.load(ops)
	}
	switch {
	case err != nil:
	case direct != nil:
		ops[0].err = nil
		if err = t.refusal(direct(tx)); refused(err) {
			ops[0].err = err // that is the answer; its transaction is undone
			t.undo()
			return true, nil
		}
	default:
		err = tx.applyShared(ops)
	}
	if err != nil {
		return false, err
	}
	if fault.Planted(fault.SentBeforeCommit) {
		tx.answerEarly(ops)
	}
	return false, t.commit()
}

// hold runs what a test has put between the last statement of a transaction and its
// COMMIT. send sends the statements, which otherwise go together with it.
func (h *around) hold(send func() error) error {
	if h == nil || h.before.Load() == nil {
		return nil
	}
	if err := send(); err != nil {
		return err
	}
	if err := (*h.before.Load())(); err != nil {
		return fmt.Errorf("%w: %w", errHook, err)
	}
	return nil
}

// committed runs what a test has put between a commit and its answer.
func (h *around) committed() error {
	if h == nil || h.after.Load() == nil {
		return nil
	}
	return (*h.after.Load())()
}

// ahead are answers that were read before they were asked for, by [keyOfAsked].
type ahead map[asked][]row

// answer gives each row of an answer that is there; false if it is not.
func (a ahead) answer(query string, each func(row) error, args []any) (there bool, err error) {
	if a == nil {
		return false, nil
	}
	rows, there := a[keyOfAsked(query, args)]
	for _, r := range rows {
		if err := each(r); err != nil {
			if errors.Is(err, errEnough) {
				err = nil
			}
			return there, err
		}
	}
	return there, nil
}

// What a batch reads becomes what the rules know. The rows begin with the same columns
// in each dialect.

// takeMember is of a row of conv_id, user_id, role, from_seq, to_seq, those of a member
// in the order of their periods.
func (tx *txn) takeMember(r row) error {
	k := memberKey{impart.ConvID(r.str(0)), impart.UserID(r.str(1))}
	m, _ := tx.members.get(k)
	if m == nil {
		m = &member{}
		tx.members.put(k, m)
	}
	m.role = impart.Role(r.str(2))
	m.periods = append(m.periods, impart.Period{From: r.seq(3), To: r.seq(4)})
	return nil
}

// takeKey is of a row of user_id, cmid, conv_id, seq, mid, created_at, hash.
func (tx *txn) takeKey(r row) error {
	tx.keys[dedupKey{impart.UserID(r.str(0)), impart.CMID(r.str(1))}] = &dedupRow{
		conv: impart.ConvID(r.str(2)), seq: r.seq(3), mid: impart.MID(r.str(4)), at: impart.Millis(r.num(5)), hash: readHash(r.bytes(6)),
	}
	return nil
}

// takeDevice is of a row of user_id, device_id, install_epoch, n, session.
func (tx *txn) takeDevice(r row) error {
	ds, _ := tx.users.get(impart.UserID(r.str(0)))
	ds[impart.DeviceID(r.str(1))] = &deviceState{impart.InstallEpoch(r.num(2)), r.num(3), r.num(4)}
	return nil
}

// takeCursor is of a row of conv_id, user_id, device_id and [cursorColumns].
func (tx *txn) takeCursor(r row) error {
	tx.flowOf(r).devices[impart.DeviceID(r.str(2))] = scanCursor(r, 3)
	return nil
}

// takeRead is of a row of conv_id, user_id, epoch, read_seq.
func (tx *txn) takeRead(r row) error {
	tx.flowOf(r).read = &readRow{impart.Epoch(r.num(2)), r.seq(3)}
	return nil
}

// flowOf is what the row's conversation and user have in the writer's memory.
func (tx *txn) flowOf(r row) *flows {
	f, _ := tx.caches.flows.get(memberKey{impart.ConvID(r.str(0)), impart.UserID(r.str(1))})
	return f
}

// expectKeys makes room for keys: free ones, until a row says otherwise.
func (tx *txn) expectKeys(keys []dedupKey) {
	tx.keys = make(map[dedupKey]*dedupRow, len(keys))
	for _, k := range keys {
		tx.keys[k] = nil
	}
}

// expectFlows makes room for the devices of users, and for cursors.
func (tx *txn) expectFlows(users []impart.UserID, keys []memberKey) {
	for _, user := range users {
		tx.users.put(user, map[impart.DeviceID]*deviceState{})
	}
	for _, k := range keys {
		tx.caches.flows.put(k, &flows{devices: map[impart.DeviceID]*cursorRow{}})
	}
}
