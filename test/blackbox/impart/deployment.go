package impart

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/impart-im/impart/internal/lab/mysql"
	"github.com/impart-im/impart/internal/lab/postgres"
)

// What IMPART_STORE may name; anything else is SQLite in the folder of each server.
const (
	onPostgres = "postgres"
	onMySQL    = "mysql"  // MariaDB
	onGalera   = "galera" // three servers of MariaDB
)

// engine is what the stories of one server run on, where that is a database server.
var engine = os.Getenv("IMPART_STORE")

func onDatabase() bool { return engine == onPostgres || engine == onMySQL || engine == onGalera }

// Deployment is what the servers of one story have in common: an empty database, and a Redis of their own where there
// is to be one.
type Deployment struct {
	// Store is the database's address, as a server takes it.
	Store string
	// Redis is nil where there is none.
	Redis *Redis

	hold  func(t testing.TB) (release func())
	crash []crashing // what KillDatabase kills, in turn; none where others use it too
	dead  crashing
	ends  []func() error // the last one first
}

// crashing is a database server, as one that is killed.
type crashing interface {
	Kill() error
	Start(ctx context.Context) error
}

// Deploy is an empty database on the server that all tests of this process share, as IMPART_STORE names it, or
// PostgreSQL; with a Redis where IMPART_REDIS asks for one. It goes with the test.
func Deploy(t testing.TB) *Deployment {
	return forStory(t, func(d *Deployment, ctx context.Context) error { return d.add(ctx, d.fresh, redisKind != "") })
}

// Fresh is Deploy, with a Redis in any case.
func Fresh(t testing.TB) *Deployment {
	return forStory(t, func(d *Deployment, ctx context.Context) error { return d.add(ctx, d.fresh, true) })
}

// Own is Fresh on a database server of its own, which the story may kill.
func Own(t testing.TB) *Deployment {
	return forStory(t, func(d *Deployment, ctx context.Context) error { return d.add(ctx, d.own, true) })
}

func forStory(t testing.TB, fill func(*Deployment, context.Context) error) *Deployment {
	t.Helper()
	needBinary(t)
	d := &Deployment{}
	t.Cleanup(func() {
		if err := d.close(); err != nil {
			t.Error(err)
		}
	})
	if err := fill(d, context.Background()); err != nil {
		t.Fatal(err)
	}
	return d
}

// add adds a database, and a Redis if there is to be one.
func (d *Deployment) add(ctx context.Context, database func(context.Context) error, withRedis bool) error {
	err := database(ctx)
	if err != nil || !withRedis {
		return err
	}
	d.Redis, err = newRedis(ctx)
	if err == nil {
		d.ends = append(d.ends, d.Redis.close)
	}
	return err
}

// unnamed is what a server gets that a story starts without naming what it needs.
func unnamed(ctx context.Context) (*Deployment, error) {
	d := &Deployment{}
	if err := d.add(ctx, d.fresh, redisKind != ""); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// fresh adds an empty database.
func (d *Deployment) fresh(ctx context.Context) error {
	switch engine {
	case onMySQL:
		s, name, drop, err := mysql.FreshDatabase(ctx)
		if err != nil {
			return err
		}
		d.ends = append(d.ends, func() error { return drop(context.Background()) })
		d.Store, d.hold = s.DSN(name), func(t testing.TB) func() { return holdMySQL(t, name, s) }
	case onGalera:
		c, name, err := galeraDatabase(ctx)
		if err != nil {
			return err
		}
		d.ends = append(d.ends, func() error { return c.Members()[0].DropDatabase(context.Background(), name) })
		d.Store, d.hold = c.DSN(name), func(t testing.TB) func() { return holdMySQL(t, name, c.Members()...) }
	default:
		s, name, drop, err := postgres.FreshDatabase(ctx)
		if err != nil {
			return err
		}
		d.ends = append(d.ends, func() error { return drop(context.Background()) })
		d.Store, d.hold = s.DSN(name), Database{s, name}.HoldWrites
	}
	return nil
}

// own adds a database server that nobody else uses.
func (d *Deployment) own(ctx context.Context) error {
	const name = "im"
	switch engine {
	case onMySQL:
		s, err := mysql.Start(ctx, mysql.Options{})
		if err != nil {
			return err
		}
		d.ends = append(d.ends, s.Close)
		d.Store, d.crash = s.DSN(name), []crashing{s}
		return s.CreateDatabase(ctx, name)
	case onGalera:
		c, err := mysql.StartCluster(ctx, galeraMembers, mysql.Options{})
		if err != nil {
			return err
		}
		d.ends = append(d.ends, c.Close)
		d.Store = c.DSN(name)
		for _, member := range c.Members() {
			d.crash = append(d.crash, member)
		}
		return c.Members()[0].CreateDatabase(ctx, name)
	default:
		s, err := postgres.Start(ctx, postgres.Options{})
		if err != nil {
			return err
		}
		d.ends = append(d.ends, s.Close)
		d.Store, d.crash = s.DSN(name), []crashing{s}
		return s.CreateDatabase(ctx, name)
	}
}

func (d *Deployment) close() error {
	var errs []error
	for i := len(d.ends) - 1; i >= 0; i-- {
		errs = append(errs, d.ends[i]())
	}
	return errors.Join(errs...)
}

// Env are the settings of a server that uses it.
func (d *Deployment) Env() []string {
	if d.Redis == nil {
		return nil
	}
	return []string{"IM_REDIS=" + d.Redis.URL()}
}

// KillDatabase ends a database server of its own as a crash does: the primary, or one of a cluster, in turn.
func (d *Deployment) KillDatabase(t testing.TB) {
	t.Helper()
	d.dead = d.crash[0]
	d.crash = append(d.crash[1:], d.dead)
	if err := d.dead.Kill(); err != nil {
		t.Error(err)
	}
}

// StartDatabase starts the one that was killed, on the same data.
func (d *Deployment) StartDatabase(t testing.TB) {
	t.Helper()
	if err := d.dead.Start(context.Background()); err != nil {
		t.Error(err)
	}
}

// holdMySQL locks the tables that messages are written to, on every server of a cluster.
func holdMySQL(t testing.TB, name string, servers ...*mysql.Server) (release func()) {
	t.Helper()
	var releases []func()
	for _, server := range servers {
		releases = append(releases, holdServer(t, server, name))
	}
	return func() {
		for _, release := range releases {
			release()
		}
	}
}

func holdServer(t testing.TB, server *mysql.Server, name string) (release func()) {
	t.Helper()
	db, err := server.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(context.Background())
	if err == nil {
		_, err = conn.ExecContext(context.Background(), "LOCK TABLES conversations READ, events READ, msg_dedup READ")
	}
	if err != nil {
		t.Fatal(err)
	}
	release = sync.OnceFunc(func() {
		_, _ = conn.ExecContext(context.Background(), "UNLOCK TABLES")
		_ = conn.Close()
		_ = db.Close()
	})
	t.Cleanup(release)
	return release
}

// galeraMembers are as many as it takes for one to be lost.
const galeraMembers = 3

// galera is the cluster that the stories of this process share.
var galera struct {
	sync.Mutex
	cluster *mysql.Cluster
	err     error // of the start, told to everybody who asks
	made    int
}

// galeraDatabase makes an empty database on it. The first caller starts it.
func galeraDatabase(ctx context.Context) (*mysql.Cluster, string, error) {
	galera.Lock()
	defer galera.Unlock()
	if galera.cluster == nil && galera.err == nil {
		galera.cluster, galera.err = mysql.StartCluster(ctx, galeraMembers, mysql.Options{})
	}
	if galera.err != nil {
		return nil, "", galera.err
	}
	galera.made++
	name := fmt.Sprintf("test_%d", galera.made)
	return galera.cluster, name, galera.cluster.Members()[0].CreateDatabase(ctx, name)
}

func closeGalera() error {
	galera.Lock()
	defer galera.Unlock()
	if galera.cluster == nil {
		return nil
	}
	defer func() { galera.cluster = nil }()
	return galera.cluster.Close()
}
