package sqlstore

import (
	"context"
	"errors"
	goflag "flag"
	"fmt"
	"strings"
	"testing"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/conformance"
	"github.com/impart-im/impart/internal/lab/mysql"
	"github.com/impart-im/impart/internal/store"
)

// TestMySQLConformance runs the suite on MariaDB. With -short it is left out; else a
// machine without MariaDB fails it.
func TestMySQLConformance(t *testing.T) {
	needMySQL(t)
	server := startMySQL(t, mysql.Options{Settings: hasty})
	opts := Options{Patience: shortPatience}
	// A quarter of the random runs: each one empties a dozen tables and opens the store.
	few, all := "25", goflag.Lookup("rapid.checks").Value.String()
	if err := goflag.Set("rapid.checks", few); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := goflag.Set("rapid.checks", all); err != nil {
			t.Error(err)
		}
	})
	var model *mySubject // the comparison with the model wants a hundred stores, one after the other
	conformance.SharedStore(t, func(t *testing.T) conformance.Subject {
		if !strings.HasSuffix(t.Name(), "/model") {
			return newMySubject(t, newMyPlaceOn(t, server), opts).subject()
		}
		if model == nil {
			model = newMySubject(t, newMyPlaceOn(t, server), opts)
			return model.subject()
		}
		model.empty(t)
		model.now = model.open(t)
		return model.subject()
	})
}

// hasty are settings of a server that nobody crashes, so that it need not wait for the
// disk, and makes hundreds of tables.
var hasty = map[string]string{
	"innodb_flush_log_at_trx_commit": "0", "innodb_doublewrite": "OFF", "innodb_flush_method": "nosync", "innodb_file_per_table": "OFF", "sync_frm": "OFF",
}

// startMySQL is a server of the test's own.
func startMySQL(t testing.TB, o mysql.Options) *mysql.Server {
	t.Helper()
	server, err := mysql.Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

func needMySQL(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs MariaDB")
	}
}

// myPlace is a database of its own on a server.
type myPlace struct {
	server *mysql.Server
	name   string

	cluster *mysql.Cluster // of which server is a member; nil: it is alone
}

func newMyPlace(t testing.TB, clauses ...string) myPlace {
	t.Helper()
	server, err := mysql.Shared(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return newMyPlaceOn(t, server, clauses...)
}

func newMyPlaceOn(t testing.TB, server *mysql.Server, clauses ...string) myPlace {
	t.Helper()
	p := myPlace{server: server, name: fmt.Sprintf("story_%d", stories.Add(1))}
	if err := server.CreateDatabase(context.Background(), p.name, clauses...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.DropDatabase(context.Background(), p.name); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p myPlace) exec(t testing.TB, sql string) {
	t.Helper()
	if err := p.server.Exec(context.Background(), p.name, sql); err != nil {
		t.Fatal(err)
	}
}

func (p myPlace) dsn() string { return p.dsnFrom(0) }

// dsnFrom is a DSN that leads to member i of the cluster first.
func (p myPlace) dsnFrom(i int) string {
	var hosts []string
	for j := range p.members() {
		hosts = append(hosts, p.members()[(i+j)%len(p.members())].Addr())
	}
	return p.server.DSNAt(strings.Join(hosts, ","), p.name)
}

// members are all the servers of the place.
func (p myPlace) members() []*mysql.Server {
	if p.cluster == nil {
		return []*mysql.Server{p.server}
	}
	return p.cluster.Members()
}

// terminate ends all sessions in the database.
func (p myPlace) terminate(t testing.TB) (ended int) {
	t.Helper()
	for _, server := range p.members() {
		n, err := server.Terminate(context.Background(), p.name)
		if err != nil {
			t.Fatal(err)
		}
		ended += n
	}
	return ended
}

// empty makes the tables as they are in a new database.
func (p myPlace) empty(t testing.TB) {
	t.Helper()
	var all strings.Builder
	for _, table := range []string{"users", "devices", "conversations", "members", "events", "msg_dedup", "device_cursors", "read_cursors"} {
		all.WriteString("DELETE FROM " + table + "; ")
	}
	p.exec(t, all.String()+"UPDATE meta SET epoch = 1, judged = 0, cleaned = 0")
}

// mySubject is a store in a place of its own, as the suite wants to handle it.
type mySubject struct {
	myPlace
	opts Options
	now  *Store

	replaced int
}

func newMySubject(t *testing.T, p myPlace, opts Options) *mySubject {
	t.Helper()
	s := &mySubject{myPlace: p, opts: opts}
	s.now = s.open(t)
	return s
}

func (s *mySubject) open(t *testing.T) *Store { return s.openFrom(t, 0) }

// openFrom opens the store of a node that is at member i of the cluster.
func (s *mySubject) openFrom(t *testing.T, i int) *Store {
	t.Helper()
	opts := s.opts
	opts.around = new(around)
	opened, err := open(t.Context(), s.dsnFrom(i), opts)
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

func (s *mySubject) subject() conformance.Subject {
	return conformance.Subject{
		Store: s.now,
		Reopen: func(t *testing.T) store.Store {
			if err := s.now.Close(); err != nil {
				t.Fatal(err)
			}
			s.now = s.open(t)
			return s.now
		},
		// Every session of the store ends at once, as in a crash of the server, which
		// rolls back what has not committed; and nothing of the old store can commit any
		// more. That a commit outlives the server's crash is for
		// TestMySQLCrashKeepsWhatWasAnswered, which crashes one.
		Crash: func(t *testing.T) store.Store {
			off := func() error { return errors.New("the machine is off") }
			s.now.opts.around.before.Store(&off)
			s.terminate(t)
			s.now = s.open(t)
			return s.now
		},
		DedupWrites: func(user impart.UserID, cmid impart.CMID) (n int64, err error) {
			err = s.now.read(context.Background(), func(c session) error {
				return c.query("SELECT seen FROM msg_dedup WHERE user_id = ? AND cmid = ?", func(r row) error {
					n = r.num(0)
					return nil
				}, user, cmid)
			})
			return n, err
		},
		// The server stays, and the row of meta names another: that is what a store
		// sees of a promoted replica. A real one is promoted in mysql_failover_test.go.
		Replace: func(t *testing.T) {
			s.replaced++
			s.exec(t, fmt.Sprintf("UPDATE meta SET incarnation = 'other-%d/0', judged = judged - 1", s.replaced))
			s.terminate(t)
		},
		Second: func(t *testing.T) store.Store { return s.openFrom(t, 1) },
		OnCommit: func(before, after func() error) {
			set(&s.now.opts.around.before, before)
			set(&s.now.opts.around.after, after)
		},
	}
}

// lax are settings under which a server takes what does not fit for what does, and
// times are those of a zone with a summer time.
var lax = mysql.Options{Settings: map[string]string{
	"sql_mode": "", "character_set_server": "latin1", "collation_server": "latin1_swedish_ci", "default_time_zone": "-03:30",
	"transaction_isolation": "SERIALIZABLE", "autocommit": "0", "innodb_snapshot_isolation": "OFF",
}}

// packets is a server whose max_allowed_packet is size.
func packets(size string) mysql.Options {
	return mysql.Options{Settings: map[string]string{"max_allowed_packet": size}}
}
