package sqlstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// beat implements [engine].
func (p *pgEngine) beat(ctx context.Context, of store.Node) (store.Beat, error) {
	var beat store.Beat
	err := p.s.direct(ctx, func(tx *txn) error {
		beat = store.Beat{}
		err := tx.query("INSERT INTO nodes (node, name, beat, beat_at) VALUES (?, ?, 1, ?)"+
			" ON CONFLICT (node) DO UPDATE SET beat = nodes.beat + 1, beat_at = excluded.beat_at RETURNING beat,"+
			" (SELECT count(*) FROM nodes o WHERE o.name = ? AND o.node <> ? AND o.beat_at > ?)", func(r row) error {
			beat.Number, beat.Namesakes = r.num(0), int(r.num(1))
			return nil
		}, of.ID, of.Name, tx.now, of.Name, of.ID, tx.now-impart.Millis(store.FreshBeat.Milliseconds()))
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

// apart implements [beside].
func (p *pgEngine) apart(ctx context.Context, judges bool, do func(t deferring, server string, end int64, has history) error) (err error) {
	begin, lock := pgStatements.snapshot, ""
	if judges {
		begin, lock = pgStatements.begin, pgStatements.forUpdate
	}
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
	p.hosts.Arrange(cfg)
	attrs := cfg.ValidateConnect
	cfg.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if attrs != nil {
			if err := attrs(ctx, conn); err != nil {
				return err
			}
		}
		server, _, has, err := p.self(&pgSession{ctx: ctx, conn: conn, link: &pgLink{}}, selectSelf)
		if err != nil {
			return err
		}
		return p.identity.older(server, has)
	}
	return cfg
}

// vouchQuery is what identity.vouch goes by, in one text.
const vouchQuery = "SELECT " + serverName + " || ' ' || judged || ' ' || store || ' ' || incarnation FROM meta"

// Vouch tells somebody else, such as the bus, whether a PostgreSQL server is the one
// that the store is at: the accepted one, and no other store beside it. query gives a
// text there, and judge is nil for the right one and asks nobody. Both are zero for a
// store that is elsewhere. UNAVAILABLE.
func (s *Store) Vouch() (query string, judge func(says string) error) {
	p, is := s.engine.(*pgEngine)
	if !is {
		return "", nil
	}
	return vouchQuery, func(says string) error {
		part := strings.SplitN(says, " ", 4)
		if len(part) != 4 {
			return impart.Errorf(impart.Unavailable, "the server says nothing of the store")
		}
		judged, err := strconv.ParseInt(part[1], 10, 64)
		if err != nil {
			return impart.Errorf(impart.Unavailable, "the server says %q of the store", says)
		}
		return p.identity.vouch(part[0], history{judged: judged, store: part[2], incarnation: part[3]})
	}
}

// leaveAside implements [beside].
func (p *pgEngine) leaveAside() {
	p.aside.mu.Lock()
	defer p.aside.mu.Unlock()
	p.aside.close()
}

// reset implements [beside].
func (p *pgEngine) reset() {
	p.writers.Reset()
	p.readers.Reset()
}

var pgJudging = judgingStatements{
	record: "INSERT INTO verdicts (change, node, name, checked, missing, lost, epoch, behind, vouched, given_at, judged)" +
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (change, node) DO UPDATE SET checked = excluded.checked, missing = excluded.missing," +
		" lost = excluded.lost, epoch = excluded.epoch, behind = excluded.behind, vouched = excluded.vouched",
	verdicts:   "SELECT " + verdictColumns + " FROM verdicts WHERE change = ? ORDER BY node",
	counted:    "UPDATE verdicts SET judged = ? WHERE change = ?",
	wasCounted: "SELECT " + verdictColumns + " FROM verdicts WHERE judged = ?::bigint ORDER BY node",
	buried:     "UPDATE nodes SET beat_at = CASE WHEN node IN (SELECT node FROM verdicts WHERE change = ?) THEN ?::bigint ELSE ?::bigint END",
}
