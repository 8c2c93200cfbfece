package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"
)

// schemaWithin is how long a node waits for another one that makes the tables.
const schemaWithin = 5 * time.Minute

// migrate finds out what the server is and brings the schema up to date. Nodes that
// start at once do it one after the other, by a lock of the server's; on the servers
// of a cluster, where each has locks of its own, by statements that may be repeated.
func (m *myEngine) migrate(ctx context.Context, address *myAddress) error {
	c, err := m.servers.connect(ctx, m.examine)
	if err != nil {
		return cannotConnect(err)
	}
	defer c.Close()
	t := &mySession{ctx: ctx, conn: c}
	mine := false
	err = t.query("SELECT GET_LOCK(LEFT(CONCAT('impart schema ', DATABASE()), 64), ?)", func(r row) error {
		mine = r.num(0) == 1
		return nil
	}, int64(schemaWithin.Seconds()))
	if err == nil && !mine {
		err = errors.New("another node has it")
	}
	if err != nil {
		return fmt.Errorf("store: cannot take the lock for its schema: %w", err)
	}
	defer func() { _ = t.query("SELECT RELEASE_LOCK(LEFT(CONCAT('impart schema ', DATABASE()), 64))", nothing) }()
	// goose reads the times of its table.
	cfg := address.cfg.Clone()
	cfg.ParseTime = true
	cfg.Addr = address.hosts[m.servers.last.Load()]
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	db := sql.OpenDB(connector)
	if err := migrate(ctx, db, "mysql"); err != nil {
		if number(err) == myRights {
			err = fmt.Errorf("%w: grant the user all rights in the database", err)
		}
		return errors.Join(told(err), db.Close())
	}
	if err := db.Close(); err != nil {
		return err
	}
	return m.found(t)
}

func cannotConnect(err error) error {
	if errors.Is(err, errUnusable) {
		return err
	}
	return fmt.Errorf("store: cannot connect: %w", err)
}

// errUnusable marks a server that cannot hold a store.
var errUnusable = errors.New("store")

// examine finds the flavour of a server, and refuses one that cannot hold a store.
func (m *myEngine) examine(ctx context.Context, c *myConn) error {
	t := &mySession{ctx: ctx, conn: c}
	f, err := flavourOf(t)
	if err != nil {
		return err
	}
	readOnly, packet := false, int64(0)
	err = t.query("SELECT "+f.readOnly+", @@max_allowed_packet", func(r row) error {
		readOnly, packet = r.num(0) != 0, r.num(1)
		return nil
	})
	switch least := f.tooOld(); {
	case err != nil:
		return fmt.Errorf("cannot ask the database what it is: %w", err)
	case least != "":
		return fmt.Errorf("%w: the server is %s; %s or later is needed", errUnusable, f, least)
	case readOnly:
		return errReadOnly
	case packet < minPacket:
		return fmt.Errorf("%w: the server's max_allowed_packet is %d; it should be %d or more", errUnusable, packet, minPacket)
	}
	m.flavour = f
	_, err = t.exec(f.setup)
	return err
}

// found notes the incarnation of a new database, and reads what was accepted.
func (m *myEngine) found(t *mySession) error {
	if _, err := t.exec("UPDATE meta SET incarnation = " + m.flavour.name + " WHERE incarnation = ''"); err != nil {
		return fmt.Errorf("store: cannot name the database's incarnation: %w", err)
	}
	_, _, row, err := m.self(t, "")
	if err != nil {
		return fmt.Errorf("store: cannot read its meta row: %w", told(err))
	}
	m.identity.open(row)
	return nil
}
