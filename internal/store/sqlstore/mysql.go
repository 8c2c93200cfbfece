package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/impart-im/impart/internal/store"
)

// myLanes are as on PostgreSQL.
var myLanes = pgLanes

// A transaction says itself how it is isolated: what a session is set to is nobody's
// to rely on behind a pooler.
const (
	myCommitted = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
	myBegin     = "START TRANSACTION"
	mySnapshot  = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;\nSTART TRANSACTION WITH CONSISTENT SNAPSHOT"
)

var myStatements = statements{
	begin:     myCommitted + ";\n" + myBegin,
	snapshot:  mySnapshot,
	commit:    "COMMIT",
	rollback:  "ROLLBACK",
	forUpdate: " FOR UPDATE",
	clock:     "SELECT " + myClock,
	written: "SELECT conv_id, next_seq, members_version, updated_at FROM conversations FORCE INDEX (conversations_by_second)" +
		" WHERE updated_second >= $1 DIV 1000 AND updated_at >= $1 ORDER BY updated_at LIMIT $2",
	// Not IGNORE, which takes a value that does not fit for one that does.
	newUser: "INSERT INTO users (user_id) VALUES (?) ON DUPLICATE KEY UPDATE disabled = disabled",
	putCursor: `INSERT INTO device_cursors (user_id, device_id, conv_id, install_epoch, epoch, start_seq, delivered_seq, n, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)` + replaceCursor,
	putRead: "INSERT INTO read_cursors (user_id, conv_id, epoch, read_seq, updated_at) VALUES (?, ?, ?, ?, ?)" + mergeRead,
}

// myEngine is the engine of MySQL and MariaDB, which other nodes write too. It takes
// what they have in common, with the databases that speak their protocol; [myFlavour]
// is what they have not.
type myEngine struct {
	s        *Store
	servers  *myServers
	flavour  *myFlavour
	writers  *myPool
	readers  *myPool
	shortage shortage
	identity identity
	aside    myAside
	windows  windows
	places   places
	succession
}

// places say when it was last looked where the log ends, which costs.
type places struct {
	mu sync.Mutex
	at time.Time
}

// placeEvery is how often that is looked at.
const placeEvery = 100 * time.Millisecond

// due reports whether the caller is to look.
func (p *places) due() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Sub(p.at) < placeEvery {
		return false
	}
	p.at = now
	return true
}

// openMySQL opens the database that dsn names.
func openMySQL(ctx context.Context, dsn string, s *Store) (_ *myEngine, err error) {
	address, err := parseMySQL(dsn)
	if err != nil {
		return nil, err
	}
	m := &myEngine{s: s, shortage: shortage{is: myShort, log: s.opts.Log, patience: s.opts.Patience}}
	m.succession = succession{known: &m.identity, by: m, sql: &myJudging, clock: myStatements.clock}
	if m.servers, err = newServers(address); err != nil {
		return nil, err
	}
	if err := m.migrate(ctx, address); err != nil {
		return nil, err
	}
	conns := pgConns
	if address.conns > 0 {
		conns = max(address.conns, 2)
	}
	m.writers, m.readers = m.newPool(conns-conns/2, myRowWait), m.newPool(conns/2, "")
	m.writers.other, m.readers.other = m.readers, m.writers
	return m, nil
}

// settings implements [engine].
func (m *myEngine) settings(s session) ([]store.Setting, error) { return mySettings(s, m.flavour) }

// close implements [engine].
func (m *myEngine) close() error {
	err := m.writers.Close()
	if end := m.readers.Close(); err == nil {
		err = end
	}
	m.leaveAside()
	return err
}

// reset implements [beside].
func (m *myEngine) reset() {
	m.writers.reset()
	m.readers.reset()
}

// idle implements [engine].
func (*myEngine) idle(*writer) {}

// read implements [engine].
func (m *myEngine) read(ctx context.Context, look func(c session) error) error {
	return m.again(ctx, func(within time.Duration) error { return m.readOnce(ctx, within, look) })
}

func (m *myEngine) again(ctx context.Context, once func(within time.Duration) error) error {
	return readAgain(ctx, once, myPasses, func(error) { m.readers.reset() }) // what is idle died with it, most likely
}

func (m *myEngine) readOnce(ctx context.Context, within time.Duration, look func(c session) error) error {
	ctx, done := m.identity.within(ctx)
	defer done()
	if err := m.identity.refusal(); err != nil {
		return err
	}
	return m.readers.with(ctx, func(c *myConn) error {
		ctx, cancel := bounded(ctx, within)
		defer cancel()
		t := &mySession{ctx: ctx, conn: c}
		t.later(m.flavour.snapshot)
		m.s.reads.Add(1)
		if h := m.s.opts.look; h != nil {
			if err := h(m.flavour.snapshot, nil); err != nil {
				return err
			}
		}
		err := look(t)
		if len(t.queued) == 0 { // otherwise nothing was asked
			_, end := t.exec(myStatements.rollback)
			c.broken = c.broken || end != nil
			if err == nil {
				err = end
			}
		}
		c.broken = c.broken || err != nil && myBreaks(err) && !refused(err)
		return err
	})
}

// tuples is a list of keys, as in (x'61', x'62'), (x'63', x'64').
func tuples[T any](items []T, columns ...func(*T) string) string {
	b := make([]byte, 0, 64*len(items))
	for i := range items {
		if i > 0 {
			b = append(b, ", "...)
		}
		if len(columns) > 1 {
			b = append(b, '(')
		}
		for j, of := range columns {
			if j > 0 {
				b = append(b, ", "...)
			}
			b = appendText(b, of(&items[i]))
		}
		if len(columns) > 1 {
			b = append(b, ')')
		}
	}
	return string(b)
}

// myListed is how many keys a statement lists at most: from a thousand on MariaDB
// makes a table of them.
const myListed = 500

// chunks cuts items into parts of at most myListed.
func chunks[T any](items []T, do func(part []T)) {
	for len(items) > 0 {
		n := min(myListed, len(items))
		do(items[:n])
		items = items[n:]
	}
}

// unknownStore is the error for a DSN of no engine.
func unknownStore(dsn string) error {
	return fmt.Errorf("store %q: this binary knows sqlite:PATH, as in sqlite:impart-data/impart.db, and postgres:// or mysql://USER@HOST/DATABASE", redact(dsn))
}

// release is a version without what a packager has added to it.
func release(version string) string {
	short, _, _ := strings.Cut(version, "-")
	return short
}
