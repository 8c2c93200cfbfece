package mysql

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"
)

// TestMain is also the process that dies without closing its server.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "careless" {
		careless()
		return
	}
	goleak.VerifyTestMain(Tests(m))
}

// needed leaves a story out of a quick run; in any other a missing MariaDB fails it.
func needed(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: needs MariaDB")
	}
}

func start(t *testing.T, o Options) *Server {
	t.Helper()
	needed(t)
	s, err := Start(t.Context(), o)
	must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ask[T any](t *testing.T, s *Server, db, sql string) T {
	t.Helper()
	answer, err := Ask[T](t.Context(), s, db, sql)
	must(t, err)
	return answer
}

func TestAServerKeepsItsWordAndItsRoleHasNoPower(t *testing.T) {
	needed(t)
	s, db, drop, err := FreshDatabase(t.Context())
	must(t, err)
	for setting, want := range map[string]string{"innodb_flush_log_at_trx_commit": "1", "innodb_doublewrite": "1"} {
		if got := ask[string](t, s, db, "SELECT @@"+setting); got != want {
			t.Errorf("%s is %s", setting, got)
		}
	}
	pool, err := s.OpenAs(db)
	must(t, err)
	defer pool.Close()
	_, err = pool.Exec("CREATE TABLE here (a int)")
	must(t, err)
	for _, sql := range []string{"CREATE DATABASE other", "CREATE USER other", "SET GLOBAL sync_binlog = 0", "SELECT * FROM mysql.global_priv"} {
		var refused *driver.MySQLError
		if _, err := pool.Exec(sql); !errors.As(err, &refused) {
			t.Errorf("%s: %v", sql, err)
		}
	}
	must(t, drop(context.Background()))
}

func TestAKillKeepsWhatWasCommittedAndAStopToo(t *testing.T) {
	s := start(t, Options{})
	must(t, s.CreateDatabase(t.Context(), "im"))
	must(t, s.Exec(t.Context(), "im", "CREATE TABLE kept (n int PRIMARY KEY) ENGINE=InnoDB; INSERT INTO kept VALUES (1)"))
	port := s.Port()
	must(t, s.Kill())
	if s.Running() {
		t.Error("it runs after the kill")
	}
	must(t, s.Start(t.Context()))
	must(t, s.Exec(t.Context(), "im", "INSERT INTO kept VALUES (2)"))
	must(t, s.Restart(t.Context()))
	if n := ask[int](t, s, "im", "SELECT COUNT(*) FROM kept"); n != 2 || s.Port() != port {
		t.Errorf("%d rows, port %d", n, s.Port())
	}
}

func TestAPausedServerAnswersLater(t *testing.T) {
	s := start(t, Options{})
	must(t, s.Pause())
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.Exec(short, "", "SELECT 1"); err == nil {
		t.Error("a paused server answers")
	}
	must(t, s.Resume())
	must(t, s.Exec(t.Context(), "", "SELECT 1"))
}

func TestACopyIsPutBack(t *testing.T) {
	s := start(t, Options{})
	must(t, s.CreateDatabase(t.Context(), "im"))
	must(t, s.Exec(t.Context(), "im", "CREATE TABLE kept (n int PRIMARY KEY) ENGINE=InnoDB; INSERT INTO kept VALUES (1)"))
	restore, err := s.Copy(t.Context())
	must(t, err)
	must(t, s.Exec(t.Context(), "im", "INSERT INTO kept VALUES (2)"))
	must(t, restore(t.Context()))
	if n := ask[int](t, s, "im", "SELECT COUNT(*) FROM kept"); n != 1 {
		t.Errorf("%d rows", n)
	}
}

func TestTerminateEndsTheRolesSessions(t *testing.T) {
	needed(t)
	s, db, drop, err := FreshDatabase(t.Context())
	must(t, err)
	defer drop(context.Background())
	pool, err := s.OpenAs(db)
	must(t, err)
	defer pool.Close()
	conn, err := pool.Conn(t.Context())
	must(t, err)
	defer conn.Close()
	must(t, conn.PingContext(t.Context()))
	n, err := s.Terminate(t.Context(), db)
	must(t, err)
	if err := conn.PingContext(t.Context()); n != 1 || err == nil {
		t.Errorf("%d sessions ended, and the ping says %v", n, err)
	}
}

// careless starts a server, tells where, and dies without closing it.
func careless() {
	s, err := Start(context.Background(), Options{})
	if err != nil {
		panic(err)
	}
	if _, err := os.Stdout.WriteString(s.Dir() + "\n"); err != nil {
		panic(err)
	}
	p, err := os.FindProcess(os.Getpid())
	if err != nil {
		panic(err)
	}
	_ = p.Kill()
	select {}
}

func TestAServerEndsWithTheProcessThatStartedIt(t *testing.T) {
	needed(t)
	out, err := exec.CommandContext(t.Context(), os.Args[0], "careless").Output()
	dir := strings.TrimSpace(string(out))
	if err == nil || dir == "" {
		t.Fatalf("it did not die: %v, %q", err, dir)
	}
	for end := time.Now().Add(10 * time.Second); ; {
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s is still there", dir)
		}
	}
}

func TestAReplicaHasWhatItsPrimaryHas(t *testing.T) {
	primary := start(t, Options{Settings: Primary()})
	must(t, primary.CreateDatabase(t.Context(), "im"))
	replica, err := primary.Replica(t.Context(), Options{})
	must(t, err)
	t.Cleanup(func() { must(t, replica.Close()) })
	must(t, primary.Synchronous(t.Context()))
	must(t, primary.Exec(t.Context(), "im", "CREATE TABLE kept (n int PRIMARY KEY) ENGINE=InnoDB; INSERT INTO kept VALUES (1)"))
	must(t, primary.Kill())
	must(t, replica.Promote(t.Context()))
	if n := ask[int](t, replica, "im", "SELECT COUNT(*) FROM kept"); n != 1 {
		t.Errorf("%d rows", n)
	}
	pool, err := replica.OpenAs("im")
	must(t, err)
	defer pool.Close()
	_, err = pool.Exec("INSERT INTO kept VALUES (2)")
	must(t, err)
}

// What waits for a replica that hears no more is committed when it is ended, and on the
// primary alone.
func TestWhatWaitedForADeafReplicaIsOnThePrimaryAlone(t *testing.T) {
	primary := start(t, Options{Settings: Primary()})
	must(t, primary.CreateDatabase(t.Context(), "im"))
	replica, err := primary.Replica(t.Context(), Options{})
	must(t, err)
	t.Cleanup(func() { must(t, replica.Close()) })
	must(t, primary.Synchronous(t.Context()))
	must(t, primary.Exec(t.Context(), "im", "CREATE TABLE kept (n int PRIMARY KEY) ENGINE=InnoDB"))
	until(t, "the replica has all of it", func() bool { caught, err := replica.Caught(t.Context(), primary); return err == nil && caught })
	must(t, replica.Deafen(t.Context()))
	until(t, "the replica is gone", func() bool { n, err := primary.Followers(t.Context()); return err == nil && n == 0 })
	outcome := make(chan error, 1)
	go func() { outcome <- primary.Exec(t.Context(), "im", "INSERT INTO kept VALUES (1)") }()
	ended := 0
	until(t, "somebody waits", func() bool { n, err := primary.EndWaiters(t.Context()); ended += n; return err != nil || ended > 0 })
	if err := <-outcome; err == nil {
		t.Error("a session that was ended has an answer")
	}
	there, lacks := ask[int](t, primary, "im", "SELECT COUNT(*) FROM kept"), ask[int](t, replica, "im", "SELECT COUNT(*) FROM kept")
	if there != 1 || lacks != 0 {
		t.Errorf("%d rows on the primary, %d on the replica", there, lacks)
	}
	must(t, primary.Asynchronous(t.Context()))
	must(t, primary.Exec(t.Context(), "im", "INSERT INTO kept VALUES (2)"))
}

// until waits for something to become true.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	every := time.NewTicker(readyEvery)
	defer every.Stop()
	for overdue := time.Now().Add(20 * time.Second); !ok(); <-every.C {
		if time.Now().After(overdue) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}
