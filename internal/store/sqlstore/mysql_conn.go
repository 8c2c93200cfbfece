package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/impart-im/impart"
)

// myConn is a connection with what is kept of it as long as it lives.
type myConn struct {
	driver.Conn
	pool     *myPool // nil for one that is in none
	physical string  // the history of the server behind it
	adopted  int64   // the state of the identity that it was checked against
	round    int64   // of the pool when it was made
	packet   int     // the longest packet that the server takes, in bytes, with some room
	single   bool    // each statement goes by itself
	broken   bool
}

// IsValid implements [driver.Validator].
func (c *myConn) IsValid() bool {
	v, ok := c.Conn.(driver.Validator)
	return !c.broken && c.pool.keeps(c) && (!ok || v.IsValid())
}

// ResetSession implements [driver.SessionResetter]: it looks whether the connection
// has died while it was idle, and costs no round trip.
func (c *myConn) ResetSession(ctx context.Context) error {
	if !c.IsValid() {
		return driver.ErrBadConn
	}
	if r, ok := c.Conn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

// myPool are connections that were found to lead to what was accepted.
type myPool struct {
	*sql.DB
	engine *myEngine
	other  *myPool
	conns  int    // how many it may have
	setup  string // what its sessions are set to beside what all are; "": nothing
	round  atomic.Int64
}

func (m *myEngine) newPool(conns int, setup string) *myPool {
	p := &myPool{engine: m, conns: conns, setup: setup}
	p.DB = sql.OpenDB(p)
	p.SetMaxOpenConns(conns)
	p.SetMaxIdleConns(conns)
	return p
}

// keeps reports whether a connection may be used again.
func (p *myPool) keeps(c *myConn) bool {
	return p != nil && c.round == p.round.Load() && p.engine.identity.current(c.adopted)
}

// reset gives up the connections that are idle, and the others when they come back.
func (p *myPool) reset() { p.round.Add(1) }

// thin closes connections that are idle, but one.
func (p *myPool) thin() {
	p.SetMaxIdleConns(1)
	p.SetMaxIdleConns(p.conns)
}

// Connect implements [driver.Connector].
func (p *myPool) Connect(ctx context.Context) (driver.Conn, error) {
	if err := p.engine.shortage.rest(); err != nil {
		return nil, err
	}
	round := p.round.Load()
	c, err := p.engine.connect(ctx, p.engine.check)
	if err != nil {
		return nil, err
	}
	if p.setup != "" {
		if err := (&mySession{ctx: ctx, conn: c}).send(&myStatement{text: p.setup}); err != nil {
			_ = c.Close()
			return nil, err
		}
	}
	c.pool, c.round = p, round
	return c, nil
}

// Driver implements [driver.Connector].
func (*myPool) Driver() driver.Driver { return mysql.MySQLDriver{} }

// with takes a connection of the pool and runs f with it.
func (p *myPool) with(ctx context.Context, f func(c *myConn) error) error {
	var held *sql.Conn
	err := p.engine.shortage.wait(ctx, func() (err error) {
		held, err = p.Conn(ctx)
		return err
	}, func() int { return p.Stats().OpenConnections }, p.other.thin)
	if err != nil {
		return haltedOr(err)
	}
	err = held.Raw(func(driverConn any) error {
		c, _ := driverConn.(*myConn)
		return f(c)
	})
	_ = held.Close() // it only goes back to the pool
	return err
}

// myServers are the servers of an address, of which one is connected to: the one that
// answered last, or the next one after it.
type myServers struct {
	connectors []driver.Connector
	timeout    time.Duration
	last       atomic.Int64
}

func newServers(a *myAddress) (*myServers, error) {
	s := &myServers{timeout: a.cfg.Timeout}
	for _, host := range a.hosts {
		cfg := a.cfg.Clone()
		cfg.Addr = host
		if cfg.TLS != nil {
			cfg.TLS = cfg.TLS.Clone()
		}
		c, err := mysql.NewConnector(cfg)
		if err != nil {
			return nil, fmt.Errorf("store: %w", err)
		}
		s.connectors = append(s.connectors, c)
	}
	return s, nil
}

// connect makes a connection to the first server that passes check. One that is
// frozen holds up the others for as long as the address allows.
func (s *myServers) connect(ctx context.Context, check func(ctx context.Context, c *myConn) error) (*myConn, error) {
	first := s.last.Load()
	var faults []error
	for i := range s.connectors {
		n := (int(first) + i) % len(s.connectors)
		c, err := s.connectTo(ctx, n, check)
		if err == nil {
			s.last.Store(int64(n))
			return c, nil
		}
		var halted *impart.Error
		if errors.As(err, &halted) && halted.RetryAfter != 0 {
			return nil, err // a history that waits for its judgement: the next host may not be asked instead
		}
		faults = append(faults, err)
	}
	if len(faults) == 1 {
		return nil, faults[0]
	}
	return nil, errors.Join(faults...)
}

func (s *myServers) connectTo(ctx context.Context, n int, check func(ctx context.Context, c *myConn) error) (*myConn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	raw, err := s.connectors[n].Connect(ctx)
	if err != nil {
		return nil, told(err)
	}
	c := &myConn{Conn: raw, packet: minPacket}
	if err := check(ctx, c); err != nil {
		_ = raw.Close()
		return nil, told(err)
	}
	return c, nil
}

// minPacket is the least max_allowed_packet of a server that can hold a store, in
// bytes: the longest text of one message, and some.
const minPacket = 4 << 20

// connect makes a connection whose session is set as the store needs it.
func (m *myEngine) connect(ctx context.Context, check func(ctx context.Context, c *myConn, server string, end int64, has history) error) (*myConn, error) {
	return m.servers.connect(ctx, func(ctx context.Context, c *myConn) error {
		c.single = m.flavour.single
		t := &mySession{ctx: ctx, conn: c}
		t.later(m.flavour.setup)
		server, end, has, err := m.self(t, "")
		if err != nil {
			return err
		}
		c.physical = server
		return check(ctx, c, server, end, has)
	})
}

// self asks a server for what it is, and where its log ends.
func (m *myEngine) self(t *mySession, lock string) (server string, end int64, has history, err error) {
	readOnly := false
	err = t.query("SELECT "+m.flavour.name+", "+m.flavour.place+", epoch, incarnation, judged, @@max_allowed_packet, "+m.flavour.readOnly+", store FROM meta"+lock, func(r row) error {
		server, end = r.str(0), r.num(1)
		has = history{epoch: impart.Epoch(r.num(2)), incarnation: r.str(3), judged: r.num(4), store: r.str(7)}
		t.conn.packet = max(int(r.num(5)), minPacket) * 7 / 8
		readOnly = r.num(6) != 0
		return nil
	})
	if err == nil && readOnly {
		err = errReadOnly
	}
	return server, end, has, err
}

var errReadOnly = errors.New("the server is read only: it is a replica, or a primary that was put down; name the primary, or all hosts")

// check refuses a server whose history nobody has accepted.
func (m *myEngine) check(_ context.Context, c *myConn, server string, end int64, has history) (err error) {
	c.adopted, err = m.identity.meet(m.identity.before(), server, m.comparable(server, end), has)
	return err
}

// comparable is where a log ends, if that can be compared with where the accepted
// server's did: each counts for itself.
func (m *myEngine) comparable(server string, end int64) int64 {
	if m.identity.isOn(server) {
		return end
	}
	return math.MaxInt64
}
