package sqlstore

import (
	"context"
	"fmt"
	"sync"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

var myJudging = judgingStatements{
	record: "INSERT INTO verdicts (`change`, node, name, checked, missing, lost, epoch, behind, vouched, given_at, judged)" +
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON DUPLICATE KEY UPDATE checked = VALUES(checked), missing = VALUES(missing)," +
		" lost = VALUES(lost), epoch = VALUES(epoch), behind = VALUES(behind), vouched = VALUES(vouched)",
	verdicts:   "SELECT " + verdictColumns + " FROM verdicts WHERE `change` = ? ORDER BY node",
	counted:    "UPDATE verdicts SET judged = ? WHERE `change` = ?",
	wasCounted: "SELECT " + verdictColumns + " FROM verdicts WHERE judged = ? ORDER BY node",
	buried:     "UPDATE nodes SET beat_at = CASE WHEN node IN (SELECT node FROM verdicts WHERE `change` = ?) THEN ? ELSE ? END",
}

// beat implements [engine].
func (m *myEngine) beat(ctx context.Context, of store.Node) (store.Beat, error) {
	var beat store.Beat
	err := m.s.direct(ctx, func(tx *txn) error {
		beat = store.Beat{}
		_, err := tx.exec("INSERT INTO nodes (node, name, beat, beat_at) VALUES (?, ?, 1, ?)"+
			" ON DUPLICATE KEY UPDATE beat = beat + 1, beat_at = VALUES(beat_at)", of.ID, of.Name, tx.now)
		if err != nil {
			return err
		}
		err = tx.query("SELECT beat, (SELECT COUNT(*) FROM nodes o WHERE o.name = ? AND o.node <> ? AND o.beat_at > ?) FROM nodes WHERE node = ?", func(r row) error {
			beat.Number, beat.Namesakes = r.num(0), int(r.num(1))
			return nil
		}, of.Name, of.ID, tx.now-impart.Millis(store.FreshBeat.Milliseconds()), of.ID)
		if err != nil {
			return err
		}
		if err := forgetOld(tx); err != nil {
			return err
		}
		settings, err := readMySettings(tx)
		beat.Replicated = settings.replicated(m.flavour)
		return err
	})
	if err != nil {
		return store.Beat{}, err // the transaction may still be at work on its own
	}
	return beat, nil
}

// forgetOld removes nodes that never left. It looks for them without a lock: a DELETE by
// the time would wait for the beats of all others.
func forgetOld(tx *txn) error {
	var old []string
	err := tx.query("SELECT node FROM nodes WHERE beat_at < ?", func(r row) error { old = append(old, r.str(0)); return nil }, tx.now-forgetNodes)
	if err != nil {
		return err
	}
	for _, node := range old {
		if _, err := tx.exec("DELETE FROM nodes WHERE node = ? AND beat_at < ?", node, tx.now-forgetNodes); err != nil {
			return err
		}
	}
	return nil
}

// leave implements [engine].
func (m *myEngine) leave(ctx context.Context, of store.Node) error {
	return m.s.direct(ctx, func(tx *txn) error {
		_, err := tx.exec("DELETE FROM nodes WHERE node = ?", of.ID)
		return err
	})
}

// myAside is a connection beside the pools, which refuse what is not accepted. It is
// kept from one question to the next, as on PostgreSQL.
type myAside struct {
	mu   sync.Mutex // held for as long as the connection is used
	conn *myConn
}

func (a *myAside) close() {
	if a.conn != nil {
		_ = a.conn.Close()
		a.conn = nil
	}
}

// leaveAside implements [beside].
func (m *myEngine) leaveAside() {
	m.aside.mu.Lock()
	defer m.aside.mu.Unlock()
	m.aside.close()
}

// apart implements [beside].
func (m *myEngine) apart(ctx context.Context, judges bool, do func(t deferring, server string, end int64, has history) error) (err error) {
	m.aside.mu.Lock()
	defer m.aside.mu.Unlock()
	defer func() {
		if err != nil {
			m.aside.close() // which rolls back
		}
	}()
	if m.aside.conn == nil {
		m.aside.conn, err = m.connect(ctx, func(_ context.Context, _ *myConn, server string, _ int64, has history) error {
			return m.identity.older(server, has) // of several hosts the next one may be its successor
		})
		if err != nil {
			m.aside.conn = nil
			return fmt.Errorf("no connection to the database: %w", err)
		}
	}
	begin, lock := m.flavour.snapshot, ""
	if judges {
		begin, lock = myStatements.begin, myStatements.forUpdate
	}
	t := &mySession{ctx: ctx, conn: m.aside.conn}
	t.later(begin)
	server, end, has, err := m.self(t, lock)
	if err != nil {
		return err
	}
	if err := do(t, server, m.comparable(server, end), has); err != nil {
		return err
	}
	if err := t.send(&myStatement{text: myStatements.commit}); err != nil {
		return fmt.Errorf("the outcome of the commit is unknown: %w", err)
	}
	return nil
}

// settingsApart are the settings while the store is halted.
func (m *myEngine) settingsApart(ctx context.Context) (out []store.Setting, err error) {
	err = m.apart(ctx, false, func(t deferring, _ string, _ int64, _ history) error {
		out, err = mySettings(t, m.flavour)
		return err
	})
	return out, err
}
