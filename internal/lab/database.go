package lab

import (
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/impart-im/impart/internal/lab/mysql"
	"github.com/impart-im/impart/internal/lab/postgres"
)

// databaseName is the one database of a [Database].
const databaseName = "impart"

// Database is a database server of a check's own, which it may stop, kill, freeze
// and replace by a standby. What is done to it is on the timeline.
type Database struct {
	b     *Bench
	name  string // on the timeline, and as a standby
	place *place

	mu      sync.Mutex // guards what follows
	current databaseServer
	before  databaseServer // in whose place current was promoted; nil: none was
	hosts   []string       // where servers look for it
}

// Database starts a server with these settings beyond the usual ones, and those of
// the sabotage.
func (b *Bench) Database(settings Settings) *Database { return b.database("", settings) }

func (b *Bench) database(dir string, settings Settings) *Database {
	all := map[string]string{}
	maps.Copy(all, settings[b.Engine])
	maps.Copy(all, b.Sabotage.Settings[b.Engine])
	server, err := startDatabase(b.ctx, b.Engine, databaseOptions{dir: dir, settings: all, log: filepath.Join(b.Dir, "database.log")})
	b.mustServe(err)
	b.Cleanup(func() { _ = server.Close() }) // what there is to find was found
	b.Must(server.CreateDatabase(b.ctx, databaseName))
	d := b.adopt("database", server)
	b.Note(d.name, "started", "%s", settingsText(all))
	return d
}

// adopt makes a server known to the bench.
func (b *Bench) adopt(name string, server databaseServer) *Database {
	d := &Database{b: b, name: name, current: server, hosts: []string{server.Addr()}}
	d.place = &place{dsn: d.dsn, look: func() string { return d.server().AdminDSN(databaseName) }}
	b.Cleanup(d.place.close)
	return d
}

func settingsText(settings map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		parts = append(parts, name+"="+settings[name])
	}
	return strings.Join(parts, " ")
}

// DatabaseOn is [Bench.Database] with its data on a disk that can lose power.
func (b *Bench) DatabaseOn(disk *Disk, settings Settings) *Database {
	// The disk has no sockets, and one of the two servers insists on having one.
	sockets := filepath.Join(b.Data, "sockets")
	b.Must(os.MkdirAll(sockets, 0o755))
	b.Must(os.Chmod(sockets, 0o777)) // it runs as another user
	all := Settings{PostgreSQL: {"unix_socket_directories": ""}, MySQL: {"socket": filepath.Join(sockets, "db")}}
	for engine, more := range settings {
		maps.Copy(all[engine], more)
	}
	return b.database(filepath.Join(disk.Dir(), "database"), all)
}

// server is the one that rows are looked at in.
func (d *Database) server() databaseServer {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.current
}

// Server is the PostgreSQL server that rows are looked at in.
func (d *Database) Server() *postgres.Server {
	s, is := d.server().(postgresServer)
	if !is {
		d.b.Broken("this is about PostgreSQL, and the database is %T", d.server())
	}
	return s.Server
}

// Running reports whether its main process is there.
func (d *Database) Running() bool { return d.server().Running() }

// dsn is the address for nodes: all hosts, of which the one that takes writes counts.
func (d *Database) dsn() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.hosts) == 1 {
		return d.current.DSNAt(d.hosts[0], databaseName)
	}
	u, err := url.Parse(d.current.DSNAt(d.hosts[0], databaseName))
	d.b.Must(err)
	query := u.Query()
	query.Set("connect_timeout", "2")
	if d.b.Engine == PostgreSQL { // elsewhere, who takes no writes is passed over anyway
		query.Set("target_session_attrs", "read-write")
	}
	u.Host, u.RawQuery = strings.Join(d.hosts, ","), query.Encode()
	return u.String()
}

// At lets servers that are started from now on look for it at these addresses.
func (d *Database) At(hosts ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hosts = hosts
}

// ListenAt is the setting of a node that listens at another address than it stores.
func (d *Database) ListenAt(addr string) string {
	return listenStore + d.Server().DSNAt(addr, databaseName)
}

// listenStore begins a setting with a password in it, which is not told.
const listenStore = "IM_LISTEN_STORE="

// NewNode is a server on this database that has not been started.
func (d *Database) NewNode(env ...string) *Server {
	return d.b.newServer("", env).on(d.place)
}

// NewNodeAt is NewNode that finds the database at another address alone, as of a
// [Database.Link]. Rows are looked at past it.
func (d *Database) NewNodeAt(addr string, env ...string) *Server {
	p := &place{dsn: func() string { return d.server().DSNAt(addr, databaseName) }, look: d.place.look}
	d.b.Cleanup(p.close)
	return d.b.newServer("", env).on(p)
}

// Node starts a server on this database.
func (d *Database) Node(env ...string) *Server {
	s := d.NewNode(env...)
	s.Start()
	return s
}

// Stop stops it without a checkpoint, in its clients' midst (immediate); one that has
// no such stop is killed.
func (d *Database) Stop() {
	if d.b.Engine != PostgreSQL {
		d.Kill()
		return
	}
	d.b.Must(d.Server().Stop(d.b.ctx, postgres.Immediate))
	d.b.Note(d.name, "stopped", "immediate: no checkpoint, the next start recovers")
}

// Kill kills all its processes (SIGKILL).
func (d *Database) Kill() {
	d.b.Must(d.server().Kill())
	d.b.Note(d.name, "killed", "SIGKILL, all processes")
}

// Crashed kills what is left of it, if anything is.
func (d *Database) Crashed() {
	if d.Running() {
		d.Kill()
	}
}

// Answers reports whether it takes sessions.
func (d *Database) Answers() bool {
	d.place.close() // what was open may be gone
	return d.server().Exec(d.b.ctx, databaseName, "SELECT 1") == nil
}

// Start starts it again and waits until it has recovered.
func (d *Database) Start() {
	d.place.close()
	began := time.Now()
	d.b.Must(d.server().Start(d.b.ctx))
	d.b.Note(d.name, "started", "after %d ms", time.Since(began).Milliseconds())
}

// TryStart is Start for a database that may not come back.
func (d *Database) TryStart() error {
	d.place.close()
	err := d.server().Start(d.b.ctx)
	if err != nil {
		d.b.Note(d.name, "failed", "%s", clip(err.Error()))
		return err
	}
	d.b.Note(d.name, "started", "")
	return nil
}

// Pause freezes all its processes (SIGSTOP).
func (d *Database) Pause() {
	d.b.Must(d.server().Pause())
	d.b.Note(d.name, "paused", "SIGSTOP, all processes")
}

// Resume lets a frozen one go on.
func (d *Database) Resume() {
	d.b.Must(d.server().Resume())
	d.b.Note(d.name, "resumed", "SIGCONT")
}

// Terminate ends the sessions whose application_name is like the pattern, and gives
// how many.
func (d *Database) Terminate(application string) int {
	n, err := d.Server().Terminate(d.b.ctx, databaseName, application)
	d.b.Must(err)
	d.b.Note(d.name, "cut", "%d session(s) of %s ended", n, application)
	return n
}

// Recoveries is how often it had to recover from a crash at a start.
func (d *Database) Recoveries() int { return d.server().recoveries() }

// Panics is how often it gave up by itself because it could not write.
func (d *Database) Panics() int { return d.server().panics() }

// FillsLog reports whether it has found no room for its log.
func (d *Database) FillsLog() bool { return d.server().fillsLog(d.b.ctx) }

// Checkpoint is where in its log a recovery would begin, on MariaDB.
func (d *Database) Checkpoint() int64 {
	at, err := d.mariaDB().Checkpoint(d.b.ctx)
	d.b.Must(err)
	return at
}

// CheckpointPast makes MariaDB's next checkpoint, the first after that place in its log.
func (d *Database) CheckpointPast(place int64) {
	ctx, cancel := d.b.within(20 * time.Second)
	defer cancel()
	d.b.Must(d.mariaDB().CheckpointPast(ctx, place))
	d.b.Note(d.name, "checkpoint", "at %d", d.Checkpoint())
}

func (d *Database) mariaDB() *mysql.Server {
	s, is := d.server().(mysqlServer)
	if !is {
		d.b.Broken("this is about MariaDB, and the database is %T", d.server())
	}
	return s.Server
}

// Recovers waits until it answers after it gave up. PostgreSQL starts again by itself;
// MariaDB ends, and is started here as by whatever watches over a service.
func (d *Database) Recovers(within time.Duration) bool {
	if d.b.Engine == MySQL {
		if !d.b.Eventually(within, func() bool { return !d.Running() }) {
			return false
		}
		return d.TryStart() == nil
	}
	return d.b.Eventually(within, d.Answers)
}

// Link puts a network between nodes and the database: see [Database.NewNodeAt].
func (d *Database) Link() *Net {
	return d.b.LinkTo("link to the "+d.name, func() string { return d.server().Addr() })
}
