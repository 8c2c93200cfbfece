package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/pgdial"
	"github.com/impart-im/impart/internal/store"
)

const (
	// pgConns is how many connections a store has unless the DSN says pool_max_conns:
	// half of them for reads. On a small machine more made everything slower.
	pgConns = 16
	// lockTimeout bounds the wait for what another transaction holds, where nobody else
	// waits meanwhile (else see rowWait), and
	// idleTimeout how long a node that froze in a transaction, or was cut off in it, holds
	// its own: long for a node that is only busy, and short for those who wait meanwhile.
	lockTimeout = 5 * time.Second
	idleTimeout = 3 * time.Second
	// minServer is the oldest release whose functions are enough.
	minServer = 130000
)

// pgLanes: two transactions of messages, so that one plans while the other waits
// for the disk; two of cursors; and the rest side by side.
var pgLanes = laneCounts{appends: 2, cursors: 2, direct: 4}

var pgStatements = statements{
	begin:     "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
	snapshot:  "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
	commit:    "COMMIT",
	rollback:  "ROLLBACK",
	forUpdate: " FOR UPDATE",
	clock:     "SELECT " + pgClock,
	written: "SELECT conv_id, next_seq, members_version, updated_at FROM conversations" +
		" WHERE updated_second >= $1::bigint / 1000 AND updated_at >= $1::bigint ORDER BY updated_at LIMIT $2",
	newUser:   sqliteStatements.newUser,
	putCursor: sqliteStatements.putCursor,
	putRead:   sqliteStatements.putRead,
}

// pgEngine is PostgreSQL's engine, which other nodes write too: what a transaction
// has read is worth nothing after it, and every row that it goes by is locked.
type pgEngine struct {
	s        *Store
	writers  *pgxpool.Pool
	readers  *pgxpool.Pool
	pooled   bool
	shortage shortage
	hosts    pgdial.Hosts
	bare     *pgconn.Config // of connections that are not checked
	identity identity
	aside    aside
	windows  windows
	succession
}

// openPostgres opens the database that dsn names.
func openPostgres(ctx context.Context, dsn string, s *Store) (_ *pgEngine, err error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err) // it is told without the password
	}
	p := &pgEngine{s: s, pooled: s.opts.Pooled}
	p.shortage = shortage{is: isShort, log: s.opts.Log, patience: s.opts.Patience}
	p.succession = succession{known: &p.identity, by: p, sql: &pgJudging, clock: pgStatements.clock}
	p.prepare(cfg.ConnConfig)
	p.bare = cfg.ConnConfig.Config.Copy()
	if err := p.migrate(ctx, cfg.ConnConfig); err != nil {
		return nil, err
	}
	conns := int32(pgConns)
	if strings.Contains(dsn, "pool_max_conns") {
		conns = max(cfg.MaxConns, 2)
	}
	writing := cfg.Copy()
	if set := writing.ConnConfig.RuntimeParams; set["lock_timeout"] == millis(lockTimeout) {
		set["lock_timeout"] = millis(rowWait)
	}
	if p.writers, err = p.pool(ctx, writing, conns-conns/2, p.check); err != nil {
		return nil, err
	}
	if p.readers, err = p.pool(ctx, cfg, conns/2, p.check); err != nil {
		p.writers.Close()
		return nil, err
	}
	return p, nil
}

// isPostgres reports whether a DSN is of this engine.
func isPostgres(kind string) bool { return kind == "postgres" || kind == "postgresql" }

// prepare sets what every session needs.
func (p *pgEngine) prepare(cfg *pgx.ConnConfig) {
	set := func(name, value string) {
		if _, there := cfg.RuntimeParams[name]; !there && !p.pooled {
			cfg.RuntimeParams[name] = value
		}
	}
	p.hosts.Watch(&cfg.Config)
	set("application_name", "impart")
	set("lock_timeout", millis(lockTimeout))
	set("idle_in_transaction_session_timeout", millis(idleTimeout))
	// Every statement is planned once a connection, and goes by an index: the sizes of
	// the tables at that moment, and of the first arrays, say nothing about later ones.
	// A plan that was right for an empty table read all of it for each key later.
	for _, name := range []string{"enable_seqscan", "enable_hashjoin", "enable_mergejoin", "enable_material", "jit"} {
		set(name, "off")
	}
	set("plan_cache_mode", "force_generic_plan")
	cfg.RuntimeParams["client_encoding"] = "UTF8"
	cfg.OnNotice = func(conn *pgconn.PgConn, notice *pgconn.Notice) {
		link, _ := conn.CustomData()[linkKey].(*pgLink)
		if link != nil && notice.SeverityUnlocalized == "WARNING" && (notice.Code == codeWarning || notice.Code == codeShutdown) {
			link.doubtful = true
		}
	}
}

func millis(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }

// linkKey is where a connection keeps its [pgLink].
const linkKey = "impart"

// pool makes a pool whose connections pass check before anything is done on them.
func (p *pgEngine) pool(ctx context.Context, from *pgxpool.Config, conns int32, check pgconn.ValidateConnectFunc) (*pgxpool.Pool, error) {
	cfg := from.Copy()
	cfg.MaxConns = conns
	cfg.MinConns, cfg.MinIdleConns = 0, 0
	// A connection that died while idle is found out by its first statement, which is
	// then done again: cheaper than a ping before each.
	cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	cfg.BeforeConnect = func(_ context.Context, cfg *pgx.ConnConfig) error {
		p.hosts.Arrange(&cfg.Config)
		return p.shortage.rest()
	}
	cfg.PrepareConn = func(_ context.Context, conn *pgx.Conn) (bool, error) {
		link := linkOf(conn)
		return link != nil && p.identity.current(link.adopted), nil
	}
	attrs := cfg.ConnConfig.ValidateConnect
	cfg.ConnConfig.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if attrs != nil {
			if err := attrs(ctx, conn); err != nil {
				return err
			}
		}
		return check(ctx, conn)
	}
	return pgxpool.NewWithConfig(ctx, cfg)
}

func linkOf(conn *pgx.Conn) *pgLink {
	link, _ := conn.PgConn().CustomData()[linkKey].(*pgLink)
	return link
}

// serverName is an incarnation as the server gives it: its system and timeline, and
// where in it the store stands, which tells a copy from what it was made of.
const serverName = "(SELECT system_identifier::text FROM pg_control_system()) || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)" +
	" || '.' || (SELECT oid::text FROM pg_database WHERE datname = current_database()) || '.' || 'meta'::regclass::oid::text"

// flushed is what synchronous_commit has to be for the promise of a commit: on, unless
// the operator asks for more.
const flushed = "CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END"

// selectSelf is what a server says of itself. In a session it sets synchronous_commit
// to what the promise of a commit needs, even where it is that already: what a session
// has set for itself is not undone when the server reloads its configuration.
const selectSelf = `SELECT ` + serverName + `,
	(pg_current_wal_insert_lsn() - '0/0')::bigint, epoch, incarnation, judged, store,
	CASE WHEN $1::bigint = 0 THEN set_config('synchronous_commit', ` + flushed + `, false) END
	FROM meta`

// check refuses a server whose history nobody has accepted.
func (p *pgEngine) check(ctx context.Context, conn *pgconn.PgConn) error {
	was := p.identity.before()
	t := &pgSession{ctx: ctx, conn: conn, link: &pgLink{}}
	server, end, row, err := p.self(t, selectSelf)
	if err != nil {
		return err
	}
	link := p.link(conn, server)
	link.adopted, err = p.identity.meet(was, server, end, row)
	return err
}

func (p *pgEngine) link(conn *pgconn.PgConn, server string) *pgLink {
	link := &pgLink{physical: server}
	if !p.pooled {
		link.prepared = map[string]string{}
	}
	conn.CustomData()[linkKey] = link
	return link
}

// self asks a server for what it is.
func (p *pgEngine) self(t *pgSession, query string) (server string, end int64, has history, err error) {
	pooled := int64(0)
	if p.pooled {
		pooled = 1
	}
	err = t.query(query, func(r row) error {
		server, end = r.str(0), r.num(1)
		has = history{epoch: impart.Epoch(r.num(2)), incarnation: r.str(3), judged: r.num(4), store: r.str(5)}
		return nil
	}, pooled)
	return server, end, has, err
}

// settings implements [engine].
func (p *pgEngine) settings(s session) ([]store.Setting, error) { return pgSettings(s) }

// settingsApart are the settings while the store is halted.
func (p *pgEngine) settingsApart(ctx context.Context) (out []store.Setting, err error) {
	err = p.apart(ctx, false, func(t deferring, _ string, _ int64, _ history) error {
		out, err = pgSettings(t)
		return err
	})
	return out, err
}

// close implements [engine].
func (p *pgEngine) close() error {
	p.writers.Close()
	p.readers.Close()
	p.leaveAside()
	return nil
}

// read implements [engine].
func (p *pgEngine) read(ctx context.Context, look func(c session) error) error {
	once := func(within time.Duration) error { return p.readOnce(ctx, within, look) }
	return readAgain(ctx, once, passes, func(err error) {
		if breaks(err) {
			p.readers.Reset() // what is idle died with it, most likely
		}
	})
}

func (p *pgEngine) readOnce(ctx context.Context, within time.Duration, look func(c session) error) error {
	ctx, done := p.identity.within(ctx)
	defer done()
	if err := p.identity.refusal(); err != nil {
		return err
	}
	held, err := p.acquire(ctx, p.readers, p.writers)
	if err != nil {
		return haltedOr(err)
	}
	defer held.Release()
	ctx, cancel := bounded(ctx, within)
	defer cancel()
	t := newSession(ctx, held, pgStatements.snapshot)
	p.s.reads.Add(1)
	met := p.expectSame(t)
	if h := p.s.opts.look; h != nil {
		if err := h(pgStatements.snapshot, nil); err != nil {
			return err
		}
	}
	err = look(t)
	if len(t.queued) == 0 { // otherwise nothing was asked, or the answer is lost
		if end := t.send(pgQuery(pgStatements.rollback, nil)); err == nil {
			err = end
		}
	}
	if err == nil {
		err = met()
	}
	return err
}

// expectSame asks, behind a pooler, with a read's first query for the server that
// answers it: it may be another one than that of the read before. What it returns is
// asked once the read has been made.
func (p *pgEngine) expectSame(t *pgSession) func() error {
	if !p.pooled {
		return func() error { return nil }
	}
	was := p.identity.before()
	var met error
	t.queued = append(t.queued, pgQuery(selectSelf, func(r row) error {
		has := history{epoch: impart.Epoch(r.num(2)), incarnation: r.str(3), judged: r.num(4), store: r.str(5)}
		met = p.identity.still(was, r.str(0), r.num(1), has)
		return nil
	}, int64(1)))
	return func() error { return met }
}

// newSession begins a transaction on a connection, with its first statement.
func newSession(ctx context.Context, held *pgxpool.Conn, begin string) *pgSession {
	conn := held.Conn()
	return &pgSession{ctx: ctx, conn: conn.PgConn(), link: linkOf(conn), queued: []*pgStatement{pgQuery(begin, nil)}}
}

// acquire takes a connection from a pool; other is the engine's other one.
func (p *pgEngine) acquire(ctx context.Context, from, other *pgxpool.Pool) (held *pgxpool.Conn, err error) {
	err = p.shortage.wait(ctx, func() error {
		held, err = from.Acquire(ctx)
		return err
	}, func() int { return int(from.Stat().TotalConns()) }, other.Reset)
	return held, err
}

// haltedOr is the refusal inside a failure to connect, if there is one.
func haltedOr(err error) error {
	var e *impart.Error
	if errors.As(err, &e) {
		return e
	}
	return fmt.Errorf("no connection to the database: %w", err)
}
