package sqlstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/store"
)

// forgetNodes is the age, in ms, at which a node that never left is forgotten.
const forgetNodes = 24 * 60 * 60 * 1000

// beat implements [engine].
func (p *pgEngine) beat(ctx context.Context, of store.Node) (store.Beat, error) {
	var beat store.Beat
	err := p.s.direct(ctx, func(tx *txn) error {
		beat = store.Beat{}
		err := tx.query("INSERT INTO nodes (node, name, beat, beat_at) VALUES (?, ?, 1, ?)"+
			" ON CONFLICT (node) DO UPDATE SET beat = nodes.beat + 1, beat_at = excluded.beat_at RETURNING beat", func(r row) error {
			beat.Number = r.num(0)
			return nil
		}, of.ID, of.Name, tx.now)
		if err != nil {
			return err
		}
		if _, err := tx.exec("DELETE FROM nodes WHERE beat_at < ?", tx.now-forgetNodes); err != nil {
			return err
		}
		return tx.query("SELECT current_setting('synchronous_standby_names') <> '' AND current_setting('synchronous_commit') IN ('on', 'remote_write', 'remote_apply')",
			func(r row) error {
				beat.Replicated = r.num(0) != 0
				return nil
			})
	})
	if err != nil {
		return store.Beat{}, err // the transaction may still be at work on its own
	}
	return beat, nil
}

// leave implements [engine].
func (p *pgEngine) leave(ctx context.Context, of store.Node) error {
	return p.s.direct(ctx, func(tx *txn) error {
		_, err := tx.exec("DELETE FROM nodes WHERE node = ?", of.ID)
		return err
	})
}

// halted implements [engine].
func (p *pgEngine) halted() *store.Halt { return p.identity.halted() }

// look implements [engine].
func (p *pgEngine) look(ctx context.Context) (halt *store.Halt, err error) {
	p.leaveAside()
	was := p.identity.before()
	err = p.apart(ctx, pgStatements.snapshot, "", func(_ *pgSession, server string, end int64, has history) error {
		var err error
		halt, err = p.identity.look(was, server, end, has)
		return err
	})
	if err != nil && halt == nil {
		halt = p.identity.halted()
	}
	if halt == nil {
		p.leaveAside()
	}
	return halt, err
}

// aside is a connection beside the pools, which refuse what is not accepted. It is
// kept from one question to the next: where the first of several hosts is frozen, a
// new one takes long.
type aside struct {
	mu   sync.Mutex // held for as long as the connection is used
	conn *pgconn.PgConn
}

func (a *aside) close() {
	if a.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = a.conn.Close(ctx)
		a.conn = nil
	}
}

// apart runs do in a transaction on the connection aside. do is told what the server
// is.
func (p *pgEngine) apart(ctx context.Context, begin, lock string, do func(t *pgSession, server string, end int64, has history) error) (err error) {
	p.aside.mu.Lock()
	defer p.aside.mu.Unlock()
	defer func() {
		if err != nil {
			p.aside.close() // which rolls back
		}
	}()
	if p.aside.conn == nil {
		if p.aside.conn, err = pgconn.ConnectConfig(ctx, p.forAside()); err != nil {
			p.aside.conn = nil
			return fmt.Errorf("no connection to the database: %w", err)
		}
	}
	conn := p.aside.conn
	link, _ := conn.CustomData()[linkKey].(*pgLink)
	if link == nil {
		link = p.link(conn, "")
	}
	link.doubtful = false
	t := &pgSession{ctx: ctx, conn: conn, link: link, queued: []*pgStatement{pgQuery(begin, nil)}}
	server, end, has, err := p.self(t, selectSelf+lock)
	if err != nil {
		return err
	}
	if err := do(t, server, end, has); err != nil {
		return err
	}
	commit := pgQuery(pgStatements.commit, nil)
	if err := t.send(commit); err != nil {
		return fmt.Errorf("the outcome of the commit is unknown: %w", err)
	}
	if commit.tag != pgStatements.commit || t.link.doubtful {
		return fmt.Errorf("COMMIT was answered with %s", commit.tag)
	}
	return nil
}

// forAside connects as the pools do, and passes over an older primary that has come
// back: of several hosts the next one may be its successor.
func (p *pgEngine) forAside() *pgconn.Config {
	cfg := p.bare.Copy()
	attrs := cfg.ValidateConnect
	cfg.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if attrs != nil {
			if err := attrs(ctx, conn); err != nil {
				return err
			}
		}
		server, _, _, err := p.self(&pgSession{ctx: ctx, conn: conn, link: &pgLink{}}, selectSelf)
		if err != nil {
			return err
		}
		return p.identity.older(server)
	}
	return cfg
}

// leaveAside ends the connection aside.
func (p *pgEngine) leaveAside() {
	p.aside.mu.Lock()
	defer p.aside.mu.Unlock()
	p.aside.close()
}

// another is the error for a server that is not the one that halt is about.
func another(server string, halt *store.Halt) error {
	return fmt.Errorf("the database's history is %s now, and not %s: look again", server, halt.Now.Incarnation)
}

// missing implements [engine].
func (p *pgEngine) missing(ctx context.Context, halt *store.Halt, promises []store.Promise) (out []store.Promise, err error) {
	err = p.apart(ctx, pgStatements.snapshot, "", func(t *pgSession, server string, _ int64, _ history) error {
		if server != halt.Now.Incarnation {
			return another(server, halt)
		}
		out = out[:0]
		for len(promises) > 0 {
			some := promises[:min(len(promises), promisesAtOnce)]
			promises = promises[len(some):]
			asks := make([]ask, len(some))
			for i := range some {
				asks[i] = askFor(&some[i])
			}
			t.known = nil
			if err := t.prefetch(asks); err != nil {
				return err
			}
			for i := range some {
				kept := false
				err := t.query(asks[i].query, func(row) error { kept = true; return nil }, asks[i].args...)
				if err != nil {
					return err
				}
				if !kept {
					out = append(out, some[i])
				}
			}
		}
		t.known = nil
		return nil
	})
	return out, err
}

// promisesAtOnce is how many promises are looked up in one round trip.
const promisesAtOnce = 256

// askFor is a query that finds a row if the promise is kept.
func askFor(p *store.Promise) ask {
	switch p.What {
	case store.PromisedMessage, store.PromisedShown:
		return ask{"SELECT 1 FROM conversations WHERE conv_id = ? AND (floor >= ?::bigint OR EXISTS" +
			" (SELECT 1 FROM events WHERE conv_id = ? AND seq = ? AND mid = ?))", []any{p.Conv, p.Seq, p.Conv, p.Seq, p.MID}}
	case store.PromisedCursor:
		return ask{"SELECT 1 FROM device_cursors WHERE user_id = ? AND device_id = ? AND conv_id = ?" +
			" AND (install_epoch, epoch, delivered_seq) >= (?::bigint, ?::bigint, ?::bigint)", []any{p.User, p.Device, p.Conv, p.Install, p.Epoch, p.Seq}}
	case store.PromisedRead:
		return ask{"SELECT 1 FROM read_cursors WHERE user_id = ? AND conv_id = ? AND (epoch, read_seq) >= (?::bigint, ?::bigint)",
			[]any{p.User, p.Conv, p.Epoch, p.Seq}}
	case store.PromisedSession:
		return ask{"SELECT 1 FROM devices WHERE user_id = ? AND device_id = ? AND session >= ?::bigint", []any{p.User, p.Device, p.Number}}
	case store.PromisedChange:
		return ask{"SELECT 1 FROM conversations WHERE conv_id = ? AND next_seq > ?::bigint", []any{p.Conv, p.Seq}}
	case store.PromisedBeat:
		return ask{"SELECT 1 FROM nodes WHERE node = ? AND beat >= ?::bigint", []any{p.Node, p.Number}}
	}
	return ask{"SELECT 1 WHERE false", nil} // nobody knows: not kept
}

// judge implements [engine]: one transaction that locks the row of meta.
func (p *pgEngine) judge(ctx context.Context, halt *store.Halt, given store.Verdict, rule store.Rule) (out store.Judgement, err error) {
	was := p.identity.before()
	var after history
	err = p.apart(ctx, pgStatements.begin, pgStatements.forUpdate, func(t *pgSession, server string, _ int64, has history) error {
		if server != halt.Now.Incarnation {
			return another(server, halt)
		}
		var now impart.Millis
		if err := t.query("SELECT "+pgClock, func(r row) error { now = impart.Millis(r.num(0)); return nil }); err != nil {
			return err
		}
		j := judging{t: t, row: has, server: server, given: given, now: now}
		var err error
		if physical(has.incarnation) == server && has.judged > was.judged {
			out, err = j.afterwards()
		} else if change := changeOf(server, has); change != halt.Change {
			err = fmt.Errorf("the change is %s now, and not %s: look again", change, halt.Change)
		} else {
			out, err = j.decide(change, max(has.judged, was.judged), rule)
		}
		after = j.row
		return err
	})
	if err != nil || out.Waiting {
		return store.Judgement{Waiting: out.Waiting}, err
	}
	p.leaveAside()
	p.identity.adopt(after)
	p.writers.Reset()
	p.readers.Reset()
	return out, nil
}

// judging is a change in the transaction that judges it.
type judging struct {
	t      *pgSession
	row    history
	server string
	given  store.Verdict
	now    impart.Millis
}

func (j *judging) meta() store.Meta {
	return store.Meta{Epoch: j.row.epoch, Incarnation: j.row.incarnation}
}

// record writes the verdict; judged 0 means that it waits for the others.
func (j *judging) record(change string, judged int64) {
	v := &j.given
	j.t.later("INSERT INTO verdicts (change, node, name, checked, missing, lost, epoch, behind, vouched, given_at, judged)"+
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (change, node) DO UPDATE SET checked = excluded.checked, missing = excluded.missing,"+
		" lost = excluded.lost, epoch = excluded.epoch, behind = excluded.behind, vouched = excluded.vouched",
		change, v.Node.ID, v.Node.Name, int64(v.Checked), int64(v.Missing), int64(v.Lost), v.Epoch, flag(v.Behind), flag(v.Vouched), j.now, judged)
}

// decide is step 1 of [store.Failover.Judge]; known is the highest number of a
// judgement that is known.
func (j *judging) decide(change string, known int64, rule store.Rule) (store.Judgement, error) {
	j.record(change, 0)
	bench := store.Bench{Now: j.now, First: j.now}
	err := j.t.query("SELECT node, name, beat_at FROM nodes ORDER BY node", func(r row) error {
		bench.Nodes = append(bench.Nodes, store.Seen{Node: store.Node{ID: r.str(0), Name: r.str(1)}, At: impart.Millis(r.num(2))})
		return nil
	})
	if err != nil {
		return store.Judgement{}, err
	}
	epoch := j.row.epoch
	err = j.t.query("SELECT node, name, checked, missing, lost, epoch, behind, vouched, given_at FROM verdicts WHERE change = ? ORDER BY node", func(r row) error {
		bench.Verdicts = append(bench.Verdicts, store.Verdict{
			Node: store.Node{ID: r.str(0), Name: r.str(1)}, Checked: int(r.num(2)), Missing: int(r.num(3)), Lost: int(r.num(4)),
			Epoch: impart.Epoch(r.num(5)), Behind: r.num(6) != 0, Vouched: r.num(7) != 0,
		})
		epoch, bench.First = max(epoch, impart.Epoch(r.num(5))), min(bench.First, impart.Millis(r.num(8)))
		return nil
	}, change)
	if err != nil {
		return store.Judgement{}, err
	}
	ruling := rule(bench)
	if ruling == store.Wait {
		return store.Judgement{Waiting: true}, nil
	}
	if ruling == store.Raise {
		j.row.epoch = max(epoch+1, impart.Epoch(j.now))
	}
	again := physical(j.row.incarnation) == j.server
	j.row.judged = max(known+1, int64(j.now))
	j.row.incarnation = j.server
	if again {
		j.row.incarnation = fmt.Sprintf("%s/%d", j.server, j.row.judged)
	}
	j.t.later("UPDATE meta SET incarnation = ?, judged = ?, epoch = ?", j.row.incarnation, j.row.judged, j.row.epoch)
	j.t.later("UPDATE verdicts SET judged = ? WHERE change = ?", j.row.judged, change)
	j.t.later("UPDATE nodes SET beat_at = CASE WHEN node IN (SELECT node FROM verdicts WHERE change = ?) THEN ?::bigint ELSE ?::bigint END",
		change, j.now, j.now-impart.Millis(store.DeadFor.Milliseconds()))
	return store.Judgement{Meta: j.meta(), Decided: true, Raised: ruling == store.Raise}, nil
}

// afterwards are steps 2 and 3.
func (j *judging) afterwards() (store.Judgement, error) {
	counted := false
	err := j.t.query("SELECT 1 FROM verdicts WHERE node = ? AND judged = ?::bigint", func(row) error { counted = true; return nil }, j.given.Node.ID, j.row.judged)
	if err != nil {
		return store.Judgement{}, err
	}
	out := store.Judgement{Late: !counted}
	if !counted {
		j.record(changeOf(j.server, j.row), j.row.judged)
		if out.Raised = (j.given.Missing > 0 || j.given.Behind || j.given.Epoch > j.row.epoch) && !fault.Planted(fault.KeepsEpoch); out.Raised {
			j.row.epoch = max(j.row.epoch+1, j.given.Epoch+1, impart.Epoch(j.now))
			j.t.later("UPDATE meta SET epoch = ?", j.row.epoch)
		}
	}
	out.Meta = j.meta()
	return out, nil
}
