package postgres

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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

func start(t *testing.T, o Options) *Server {
	t.Helper()
	needed(t)
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// needed leaves a story out of a quick run; in any other a missing PostgreSQL fails it.
func needed(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: needs PostgreSQL")
	}
}

// must stops the test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ask[T any](t *testing.T, s *Server, db, sql string, args ...any) T {
	t.Helper()
	answer, err := Ask[T](t.Context(), s, db, sql, args...)
	must(t, err)
	return answer
}

func TestAServerKeepsItsWordAndItsRoleHasNoPower(t *testing.T) {
	needed(t)
	s, db, drop, err := FreshDatabase(t.Context())
	must(t, err)
	for _, setting := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		if got := ask[string](t, s, db, "SELECT current_setting($1)", setting); got != "on" {
			t.Errorf("%s is %s", setting, got)
		}
	}
	conn, err := pgx.Connect(t.Context(), s.DSN(db))
	must(t, err)
	_, err = conn.Exec(t.Context(), "CREATE TABLE here (a int)")
	must(t, err)
	for _, sql := range []string{"CREATE DATABASE other", "CREATE ROLE other", "ALTER SYSTEM SET fsync = off", "COPY here TO '/tmp/there'"} {
		var refused *pgconn.PgError
		if _, err := conn.Exec(t.Context(), sql); !errors.As(err, &refused) || refused.Code != "42501" {
			t.Errorf("%s: %v, want a refusal", sql, err)
		}
	}
	conn.Close(t.Context())
	if _, err := pgx.Connect(t.Context(), strings.Replace(s.DSN(db), s.secrets.role, "guess", 1)); err == nil {
		t.Error("a wrong password opens the door")
	}
	must(t, drop(t.Context()))
	if n := ask[int](t, s, admin, "SELECT count(*) FROM pg_database WHERE datname = $1", db); n != 0 {
		t.Error("the database is still there")
	}
}

func TestADatabaseCanSortAsPeopleDo(t *testing.T) {
	needed(t)
	s, db, drop, err := FreshDatabase(t.Context(), "TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'")
	must(t, err)
	if !ask[bool](t, s, db, "SELECT 'a' < 'B' AND 'b' > 'A'") {
		t.Error("it compares byte by byte")
	}
	must(t, drop(t.Context()))
}

func TestAServerStopsAndStartsOnTheSameDataAndPort(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	must(t, s.CreateDatabase(t.Context(), "kept"))
	must(t, s.Exec(t.Context(), "kept", "CREATE TABLE t (a int)"))
	dsn := s.DSN("kept")
	for i, down := range []func() error{
		func() error { return s.Stop(t.Context(), Smart) },
		func() error { return s.Stop(t.Context(), Fast) },
		func() error { return s.Stop(t.Context(), Immediate) },
		s.Kill,
	} {
		must(t, s.Exec(t.Context(), "kept", "INSERT INTO t VALUES (1)"))
		must(t, down())
		if s.Running() || s.Exec(t.Context(), "kept", "SELECT 1") == nil {
			t.Fatalf("%d: it still answers", i)
		}
		must(t, s.Start(t.Context()))
		must(t, s.Start(t.Context())) // one that runs is left alone
		if n := ask[int](t, s, "kept", "SELECT count(*)::int FROM t"); n != i+1 {
			t.Errorf("%d: %d rows of %d are there", i, n, i+1)
		}
	}
	if s.DSN("kept") != dsn {
		t.Error("it has another address")
	}
	if !strings.Contains(s.Log(), "was not properly shut down") {
		t.Error("it never had to recover: the crashes were none")
	}
}

func TestACopyPutsTheDataBack(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	must(t, s.Exec(t.Context(), admin, "CREATE TABLE t (a int)"))
	restore, err := s.Copy(t.Context())
	must(t, err)
	for range 2 {
		must(t, s.Exec(t.Context(), admin, "INSERT INTO t VALUES (1)"))
		must(t, restore(t.Context()))
		if n := ask[int](t, s, admin, "SELECT count(*)::int FROM t"); n != 0 {
			t.Errorf("%d rows from after the copy are there", n)
		}
	}
}

func TestAPausedServerIsSilentAndGoesOn(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	conn, err := s.Connect(t.Context(), admin)
	must(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	must(t, s.Pause())
	must(t, s.Pause())
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.Exec(ctx, admin, "SELECT 1"); err == nil {
		t.Error("a paused server answers a new session")
	}
	answered := make(chan error, 1)
	go func() { _, err := conn.Exec(t.Context(), "SELECT 1"); answered <- err }()
	select {
	case err := <-answered:
		t.Errorf("a paused server answers an old session: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	must(t, s.Resume())
	must(t, <-answered)
	must(t, s.Resume())
	must(t, s.Pause())
	must(t, s.Stop(t.Context(), Fast)) // it goes on first
	must(t, s.Start(t.Context()))
	must(t, s.Pause())
	must(t, s.Kill())
}

func TestAFaultNeedsAServerThatRuns(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	must(t, s.Stop(t.Context(), Fast))
	must(t, s.Stop(t.Context(), Fast))
	if s.Kill() == nil || s.Pause() == nil {
		t.Error("a fault that hit nothing is no error")
	}
	must(t, s.Close())
	must(t, s.Close())
	if s.Start(t.Context()) == nil {
		t.Error("a closed server starts")
	}
	if _, err := os.Stat(s.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder is still there: %v", err)
	}
}

func TestSessionsEndAndSettingsChange(t *testing.T) {
	needed(t)
	s, db, drop, err := FreshDatabase(t.Context())
	must(t, err)
	conn, err := pgx.Connect(t.Context(), s.DSN(db)+"&application_name=one")
	must(t, err)
	if n, err := s.Terminate(t.Context(), db, "two"); n != 0 || err != nil {
		t.Errorf("ended %d sessions of nobody, %v", n, err)
	}
	if n, err := s.Terminate(t.Context(), db, "o%"); n != 1 || err != nil {
		t.Errorf("ended %d sessions, %v", n, err)
	}
	if _, err := conn.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Error("the session goes on")
	}
	must(t, s.Set(t.Context(), map[string]string{"work_mem": "7MB"}))
	if got := ask[string](t, s, db, "SHOW work_mem"); got != "7MB" {
		t.Errorf("work_mem is %s", got)
	}
	must(t, drop(t.Context()))
}

func TestAStandbyFollowsAndTakesOver(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "deep", "primary") // a test's folder is closed to others
	primary := start(t, Options{Dir: dir})
	must(t, primary.CreateDatabase(t.Context(), "im"))
	standby, err := primary.Standby(t.Context(), "s1", Options{})
	must(t, err)
	t.Cleanup(func() { standby.Close() })
	must(t, primary.Synchronous(t.Context(), "s1"))
	must(t, primary.Exec(t.Context(), "im", "CREATE TABLE t (a int)")) // waits for the standby
	if !ask[bool](t, standby, "im", "SELECT pg_is_in_recovery()") {
		t.Error("the standby is none")
	}
	must(t, standby.Pause())
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := primary.Exec(ctx, "im", "INSERT INTO t VALUES (1)"); err == nil {
		t.Error("a commit does not wait for the standby")
	}
	must(t, standby.Resume())
	must(t, primary.Kill())
	must(t, standby.Promote(t.Context()))
	conn, err := pgx.Connect(t.Context(), standby.DSN("im"))
	must(t, err)
	_, err = conn.Exec(t.Context(), "CREATE TABLE u (a int)") // waits for nobody
	must(t, err)
	must(t, conn.Close(t.Context()))
	must(t, primary.Close())
	if _, err := os.Stat(filepath.Join(dir, "data", "PG_VERSION")); err != nil {
		t.Errorf("a folder that was named is gone: %v", err)
	}
}

func TestTheNewestCompleteVersionIsFound(t *testing.T) {
	root := t.TempDir()
	make := func(version string, names ...string) {
		bin := filepath.Join(root, version, "bin")
		must(t, os.MkdirAll(bin, 0o755))
		for _, name := range names {
			must(t, os.WriteFile(filepath.Join(bin, name), nil, 0o755))
		}
	}
	if _, err := newest(root); !errors.Is(err, ErrNotFound) {
		t.Errorf("found in an empty folder: %v", err)
	}
	make("9.6", programs...)
	make("15", programs...)
	make("17", "initdb") // the client's packages bring a part
	if got, err := newest(root); err != nil || got != filepath.Join(root, "15", "bin") {
		t.Errorf("%s, %v", got, err)
	}
}

// careless starts a server, pauses it, tells where it is, and dies.
func careless() {
	s, err := Start(context.Background(), Options{})
	if err == nil {
		err = s.Pause()
	}
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString(s.Dir())
	s.mu.Lock()
	for _, pid := range s.paused {
		os.Stdout.WriteString(" " + strconv.Itoa(pid))
	}
	os.Exit(0)
}

func TestNothingIsLeftOfAServerWhoseTestDied(t *testing.T) {
	needed(t)
	t.Parallel()
	cmd := exec.Command(os.Args[0], "careless")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	must(t, err)
	words := strings.Fields(string(out))
	if len(words) < 5 {
		t.Fatalf("it said %q", out)
	}
	late := time.After(20 * time.Second)
	for {
		left := 0
		for _, word := range words[1:] {
			pid, err := strconv.Atoi(word)
			must(t, err)
			if stateOf(pid) != gone {
				left++
			}
		}
		_, err := os.Stat(words[0])
		if left == 0 && errors.Is(err, os.ErrNotExist) {
			return
		}
		select {
		case <-late:
			t.Fatalf("%d processes of %s are left, and the folder: %v", left, words[0], err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
