package lab

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/impart-im/impart/internal/lab/mysql"
)

// BinaryLog is a setting without which there can be no standby of a MariaDB server.
// Each commit is flushed into that log too.
func BinaryLog() Settings { return Settings{MySQL: mysql.Primary()} }

// Primary is a [Bench.Database] of which there can be standbys.
func (b *Bench) Primary() *Database { return b.Database(BinaryLog()) }

// Standby makes a standby of a [Bench.Primary] that follows it, which nodes that are
// started from now on know of too.
func (d *Database) Standby(name string) *Database {
	server, err := d.server().standby(d.b.ctx, name, filepath.Join(d.b.Dir, name+".log"))
	d.b.Must(err)
	d.b.Cleanup(func() { _ = server.Close() })
	d.mu.Lock()
	d.hosts = append(d.hosts, server.Addr())
	d.mu.Unlock()
	d.b.Note(name, "started", "a standby of %s", d.name)
	return d.b.adopt(name, server)
}

// Synchronous makes every commit wait for one of these standbys; for none without.
func (d *Database) Synchronous(standbys ...*Database) {
	var names []string
	for _, s := range standbys {
		names = append(names, s.name)
	}
	d.b.Must(d.server().synchronous(d.b.ctx, names...))
	d.b.Note(d.name, "set", "commits wait for: %s", strings.Join(names, ", "))
}

// Promote makes a standby the primary, and the database in which rows are looked at.
func (d *Database) Promote(standby *Database) {
	began := time.Now()
	d.b.Must(standby.server().Promote(d.b.ctx))
	d.b.Note(standby.name, "promoted", "after %d ms", time.Since(began).Milliseconds())
	d.mu.Lock()
	d.before, d.current = d.current, standby.server()
	d.mu.Unlock()
}

// Deafen makes a standby lose its primary for good, as behind a network that is cut.
func (d *Database) Deafen(standby *Database) {
	d.b.Must(standby.server().deafen(d.b.ctx))
	gone := d.b.Eventually(10*time.Second, func() bool {
		n, err := d.server().followers(d.b.ctx)
		return err == nil && n == 0
	})
	if !gone {
		d.b.Broken("%s still hears its primary", standby.name)
	}
	d.b.Note(standby.name, "cut", "from its primary")
}

// Waiters ends the sessions that wait for a standby, and gives how many: their
// transactions are committed here and nowhere else.
func (d *Database) Waiters() int {
	n, err := d.server().endWaiters(d.b.ctx)
	d.b.Must(err)
	d.b.Note(d.name, "cut", "%d session(s) that waited for a standby ended", n)
	return n
}

// Caught waits until a standby that follows has all of it.
func (d *Database) Caught(within time.Duration, standby *Database) bool {
	return d.b.Eventually(within, func() bool {
		has, err := d.server().caught(d.b.ctx, standby.server(), standby.name)
		return err == nil && has
	})
}

// OldThaws lets a primary go on that was frozen when another one took its place.
func (d *Database) OldThaws() {
	d.mu.Lock()
	old := d.before
	d.mu.Unlock()
	if old == nil {
		d.b.Broken("no standby was promoted")
	}
	d.b.Must(old.Resume())
	d.b.Note(d.name, "resumed", "the old primary thaws")
}
