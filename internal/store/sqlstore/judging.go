package sqlstore

import (
	"fmt"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/store"
)

// forgetNodes is the age, in ms, at which a node that never left is forgotten.
const forgetNodes = 24 * 60 * 60 * 1000

// another is the error for a server that is not the one that halt is about.
func another(server string, halt *store.Halt) error {
	return fmt.Errorf("the database's history is %s now, and not %s: look again", server, halt.Now.Incarnation)
}

// unkept are those of the promises that are not kept.
func unkept(s deferring, promises []store.Promise) ([]store.Promise, error) {
	var out []store.Promise
	for len(promises) > 0 {
		some := promises[:min(len(promises), promisesAtOnce)]
		promises = promises[len(some):]
		asks := make([]ask, len(some))
		for i := range some {
			asks[i] = askFor(&some[i])
		}
		s.forget()
		if err := s.prefetch(asks); err != nil {
			return nil, err
		}
		for i := range some {
			kept := false
			err := s.query(asks[i].query, func(row) error { kept = true; return nil }, asks[i].args...)
			if err != nil {
				return nil, err
			}
			if !kept {
				out = append(out, some[i])
			}
		}
	}
	s.forget()
	return out, nil
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
	return ask{"SELECT 1 FROM meta WHERE 1 = 0", nil} // nobody knows: not kept
}

// deferring is a session that can send a statement with the next one that is waited
// for.
type deferring interface {
	session
	later(query string, args ...any)
	forget() // drops what was read ahead
}

// judgingStatements are those of a judgement that are not written in the same way
// everywhere.
type judgingStatements struct {
	record     string // writes a node's verdict on a change, whether there is one or not
	verdicts   string // of a change
	counted    string // notes the judgement with the verdicts of a change
	wasCounted string // those that were counted in a judgement
	buried     string // sets when nodes have beaten: those with a verdict on a change, and the others
}

// verdictColumns are those that [scanVerdict] takes, and when the verdict was given.
const verdictColumns = "node, name, checked, missing, lost, epoch, behind, vouched, given_at"

func scanVerdict(r row) store.Verdict {
	return store.Verdict{
		Node: store.Node{ID: r.str(0), Name: r.str(1)}, Checked: int(r.num(2)), Missing: int(r.num(3)), Lost: int(r.num(4)),
		Epoch: impart.Epoch(r.num(5)), Behind: r.num(6) != 0, Vouched: r.num(7) != 0,
	}
}

// judging is a change in the transaction that judges it.
type judging struct {
	t      deferring
	sql    *judgingStatements
	row    history
	server string
	given  store.Verdict
	now    impart.Millis
}

// judge is [store.Failover.Judge] inside the transaction that has locked the row of
// meta.
func (j *judging) judge(halt *store.Halt, was accepted, rule store.Rule) (store.Judgement, error) {
	if physical(j.row.incarnation) == j.server && j.row.judged > was.judged {
		return j.afterwards()
	}
	change := changeOf(j.server, j.row)
	if change != halt.Change {
		return store.Judgement{}, fmt.Errorf("the change is %s now, and not %s: look again", change, halt.Change)
	}
	return j.decide(change, max(j.row.judged, was.judged), rule)
}

func (j *judging) meta() store.Meta {
	return store.Meta{Epoch: j.row.epoch, Incarnation: j.row.incarnation}
}

// record writes the verdict; judged 0 means that it waits for the others.
func (j *judging) record(change string, judged int64) {
	v := &j.given
	j.t.later(j.sql.record,
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
	err = j.t.query(j.sql.verdicts, func(r row) error {
		bench.Verdicts = append(bench.Verdicts, scanVerdict(r))
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
	j.t.later(j.sql.counted, j.row.judged, change)
	j.t.later(j.sql.buried,
		change, j.now, j.now-impart.Millis(store.DeadFor.Milliseconds()))
	return store.Judgement{Meta: j.meta(), Decided: true, Raised: ruling == store.Raise}, nil
}

// afterwards are steps 2 and 3.
func (j *judging) afterwards() (store.Judgement, error) {
	out := store.Judgement{Late: true}
	err := j.t.query(j.sql.wasCounted, func(r row) error {
		v := scanVerdict(r)
		out.Counted = append(out.Counted, v)
		out.Late = out.Late && v.Node.ID != j.given.Node.ID
		return nil
	}, j.row.judged)
	if err != nil {
		return store.Judgement{}, err
	}
	if out.Late {
		j.record(changeOf(j.server, j.row), j.row.judged)
		if out.Raised = (j.given.Missing > 0 || j.given.Behind || j.given.Epoch > j.row.epoch) && !fault.Planted(fault.KeepsEpoch); out.Raised {
			j.row.epoch = max(j.row.epoch+1, j.given.Epoch+1, impart.Epoch(j.now))
			j.t.later("UPDATE meta SET epoch = ?", j.row.epoch)
		}
	}
	out.Meta = j.meta()
	return out, nil
}
