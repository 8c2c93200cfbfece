package main

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/impart-im/impart/internal/lab/mysql"
)

// mysqlDatabase is a fresh one on the shared server.
func mysqlDatabase(t *testing.T) (server *mysql.Server, dsn, password string) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: needs MariaDB")
	}
	server, name, drop, err := mysql.FreshDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := drop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return server, server.DSN(name), passwordOf(t, server.DSN(name))
}

func TestServersShareAMySQLDatabase(t *testing.T) {
	t.Parallel()
	_, dsn, password := mysqlDatabase(t)
	store := []string{"IM_STORE=" + dsn}
	code, before := impartCommand(t, store, "doctor")
	if code != 0 {
		t.Errorf("the doctor of an empty database ends with %d", code)
	}
	contains(t, "the doctor", before, "none yet; the first start makes it", "innodb_flush_log_at_trx_commit", "MariaDB 10.", "clock of the store")
	nodes := []*serverProcess{launch(t, store), launch(t, store)}
	for _, n := range nodes {
		ready := get(t, n.url+"/readyz?verbose")
		contains(t, "readiness", ready, `"name":"store","state":"ok"`, `"name":"clock"`, `"name":"history"`, "innodb_flush_log_at_trx_commit 1")
		contains(t, "the metrics", get(t, n.url+"/metrics"), "im_store_unsafe_settings 0")
	}
	const ana = "/admin/v1/users/ana"
	if code, out := impartCommand(t, nil, "admin", "--url", nodes[0].url, "user", "put", "ana"); code != 0 {
		t.Errorf("making a user ends with %d: %s", code, out)
	}
	contains(t, "what the other node knows", get(t, nodes[1].url+ana), "ana")
	code, after := impartCommand(t, store, "doctor", "--json")
	if code != 0 {
		t.Errorf("the doctor beside two servers ends with %d", code)
	}
	contains(t, "the doctor", after, `"able": true`, "version ")
	for _, n := range nodes {
		if err := n.end(syscall.SIGTERM, 0); err != nil {
			t.Error(err)
		}
		if strings.Contains(n.log(), password) {
			t.Errorf("the log shows the password:\n%s", n.log())
		}
	}
	if strings.Contains(before+after, password) {
		t.Error("the doctor shows the password")
	}
}

func TestAMySQLDatabaseThatDoesNotOpenIsExplained(t *testing.T) {
	t.Parallel()
	server, dsn, password := mysqlDatabase(t)
	if err := server.Exec(t.Context(), "", "CREATE DATABASE IF NOT EXISTS forbidden"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		store string
		code  int
		want  string
	}{
		"another's database": {server.DSN("forbidden"), 1, "GRANT ALL ON the database"},
		"wrong password":     {strings.Replace(dsn, password, "hunter2", 1), 1, "does not let the user in"},
		"wrong parameter":    {dsn + "?connect_timeout=soon", 2, "the address has connect_timeout=soon"},
	} {
		code, out := impartCommand(t, []string{"IM_STORE=" + c.store}, "serve", "--listen", "127.0.0.1:0")
		if code != c.code || strings.Count(out, "\n") != 1 {
			t.Errorf("%s: ends with %d and says %q", name, code, out)
		}
		contains(t, name, out, "impart: IM_STORE (--store)", c.want)
		if strings.Contains(out, password) || strings.Contains(out, "hunter2") {
			t.Errorf("%s: shows the password: %s", name, out)
		}
	}
	code, out := impartCommand(t, []string{"IM_STORE=" + dsn, "IM_REPLICATION=sync"}, "doctor")
	if code != 1 || !strings.Contains(out, "no commit waits for a standby") {
		t.Errorf("vouching for what is not there ends with %d and says %s", code, out)
	}
}

func TestAMySQLDatabaseThatCanLoseMessagesIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: needs MariaDB")
	}
	t.Parallel()
	server, err := mysql.Start(t.Context(), mysql.Options{Settings: map[string]string{"innodb_flush_log_at_trx_commit": "2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	if err := server.CreateDatabase(t.Context(), "im"); err != nil {
		t.Fatal(err)
	}
	store := "IM_STORE=" + server.DSN("im")
	code, out := impartCommand(t, []string{store}, "serve", "--listen", "127.0.0.1:0")
	if code != 1 {
		t.Errorf("ends with %d", code)
	}
	contains(t, "the refusal", out, "innodb_flush_log_at_trx_commit is 2 and should be 1", "IM_ALLOW_UNSAFE_DURABILITY=true")
	if code, out := impartCommand(t, []string{store}, "doctor"); code != 1 || !strings.Contains(out, "NOT able") {
		t.Errorf("the doctor ends with %d and says %s", code, out)
	}
	n := launch(t, []string{store, "IM_ALLOW_UNSAFE_DURABILITY=true"})
	contains(t, "readiness", get(t, n.url+"/readyz"), "warn: durability: sent messages can be lost: the store's innodb_flush_log_at_trx_commit is 2")
}

// TestBenchOnMySQL: the servers and the yardstick are on a private MariaDB, which the
// report names and counts, and nothing of it is left behind.
func TestBenchOnMySQL(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: needs MariaDB")
	}
	folder := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "bench", "send", "--store", "mysql", "--dir", folder, "--senders", "4", "--conversations", "2",
		"--turns", "5", "--duration", "200ms", "--rounds", "1", "--compare", "naive")
	cmd.Args[0] = "impart"
	cmd.Env = []string{endAtOnce, "HOME=" + t.TempDir(), "TMPDIR=" + os.TempDir(), "PATH=" + os.Getenv("PATH")}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	contains(t, "the report", string(out), "with its defaults and MariaDB 1", "CPU of the database", "× one transaction per message", "ok  no message lost")
	nothingLeft(t, folder)
}
