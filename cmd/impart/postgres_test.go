package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/impart-im/impart/internal/lab/postgres"
)

// database is a fresh one on the shared server.
func database(t *testing.T) (server *postgres.Server, dsn, password string) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: needs PostgreSQL")
	}
	server, name, drop, err := postgres.FreshDatabase(t.Context())
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

func passwordOf(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	password, set := u.User.Password()
	if !set {
		t.Fatal("the address has no password")
	}
	return password
}

// impartCommand runs the binary to its end, and gives what it said.
func impartCommand(t *testing.T, variables []string, args ...string) (code int, out string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Args[0] = "impart"
	cmd.Dir, cmd.Env = t.TempDir(), append([]string{endAtOnce}, variables...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), said.String()
}

func get(t *testing.T, address string) string {
	t.Helper()
	answer, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func contains(t *testing.T, what, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%s lacks %q:\n%s", what, want, text)
		}
	}
}

func TestServersShareADatabase(t *testing.T) {
	server, dsn, password := database(t)
	store := []string{"IM_STORE=" + dsn}
	code, before := impartCommand(t, store, "doctor")
	if code != 0 {
		t.Errorf("the doctor of an empty database ends with %d", code)
	}
	contains(t, "the doctor", before, "none yet; the first start makes it", "fsync", "it hears itself", "clock of the store")
	nodes := []*serverProcess{launch(t, store), launch(t, store)}
	for _, n := range nodes {
		ready := get(t, n.url+"/readyz?verbose")
		contains(t, "readiness", ready, `"name":"bus","state":"ok"`, `"name":"clock"`, "full_page_writes on")
		contains(t, "the metrics", get(t, n.url+"/metrics"), "im_bus_up 1", "im_store_unsafe_settings 0", "im_store_clock_offset_seconds")
	}
	code, after := impartCommand(t, store, "doctor", "--json")
	if code != 0 {
		t.Errorf("the doctor beside two servers ends with %d", code)
	}
	contains(t, "the doctor", after, `"able": true`, "version ")
	// A bus that is down is told, and takes no node out of service.
	if err := server.Exec(t.Context(), "postgres", "ALTER ROLE impart CONNECTION LIMIT 0"); err != nil {
		t.Fatal(err)
	}
	name := dsn[strings.LastIndexByte(dsn, '/')+1 : strings.IndexByte(dsn, '?')]
	if _, err := server.Terminate(t.Context(), name, "impart-listen"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a warning of the bus", func() bool {
		return strings.Contains(get(t, nodes[0].url+"/readyz"), "ready\nwarn: bus: wake-ups between the nodes do not flow")
	})
	if err := server.Exec(t.Context(), "postgres", "ALTER ROLE impart CONNECTION LIMIT -1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the warning", func() bool { return get(t, nodes[0].url+"/readyz") == "ready\n" })
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

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for late := time.After(time.Minute); !is(); {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-late:
			t.Fatal("no " + what)
		}
	}
}

func TestADatabaseThatDoesNotOpenIsExplained(t *testing.T) {
	t.Parallel()
	server, dsn, password := database(t)
	for name, c := range map[string]struct {
		store string
		code  int
		want  string
	}{
		"no such database": {server.DSN("nowhere"), 1, "has no such database"},
		"wrong password":   {strings.Replace(dsn, password, "hunter2", 1), 1, "does not let the role in"},
		"wrong parameter":  {dsn + "&connect_timeout=soon", 2, "the address cannot be read"},
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
	// What listens elsewhere than it is told hears nothing.
	code, out := impartCommand(t, []string{"IM_STORE=" + dsn, "IM_LISTEN_STORE=" + server.DSN("nowhere")}, "serve", "--listen", "127.0.0.1:0")
	if code != 1 || !strings.Contains(out, "IM_LISTEN_STORE") {
		t.Errorf("ends with %d and says %s", code, out)
	}
	_, elsewhere, _ := database(t)
	for _, other := range []string{elsewhere, server.DSN("postgres")} { // in which the role may make no tables
		code, out = impartCommand(t, []string{"IM_STORE=" + dsn, "IM_LISTEN_STORE=" + other}, "serve", "--listen", "127.0.0.1:0")
		if code != 2 || !strings.Contains(out, "another database") {
			t.Errorf("listening to another database ends with %d and says %s", code, out)
		}
	}
	code, out = impartCommand(t, []string{"IM_STORE=" + dsn, "IM_LISTEN_STORE=" + elsewhere}, "doctor")
	if code != 1 || !strings.Contains(out, "another database") {
		t.Errorf("the doctor ends with %d and says %s", code, out)
	}
	code, out = impartCommand(t, []string{"IM_STORE=" + dsn, "IM_REPLICATION=sync"}, "doctor")
	if code != 1 || !strings.Contains(out, "no commit waits for a standby") || !strings.Contains(out, "does not count") {
		t.Errorf("vouching for what is not there ends with %d and says %s", code, out)
	}
}

func TestADatabaseThatCanLoseMessagesIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: needs PostgreSQL")
	}
	t.Parallel()
	server, err := postgres.Start(t.Context(), postgres.Options{Settings: map[string]string{"fsync": "off"}})
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
	contains(t, "the refusal", out, "fsync is off and should be on", "IM_ALLOW_UNSAFE_DURABILITY=true")
	if code, out := impartCommand(t, []string{store}, "doctor"); code != 1 || !strings.Contains(out, "NOT able") {
		t.Errorf("the doctor ends with %d and says %s", code, out)
	}
	n := launch(t, []string{store, "IM_ALLOW_UNSAFE_DURABILITY=true"})
	contains(t, "readiness", get(t, n.url+"/readyz"), "warn: durability: sent messages can be lost: the store's fsync is off")
	contains(t, "the metrics", get(t, n.url+"/metrics"), "im_store_unsafe_settings 1")
	contains(t, "the log", n.log(), "the store can lose messages")
}

// A server that is told to stop while it waits for its database does so.
func TestAStartThatWaitsCanBeStopped(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0], "serve", "--listen", "127.0.0.1:0", "--store", "postgres://im@127.0.0.1:1/im")
	cmd.Args[0] = "impart"
	cmd.Dir, cmd.Env = t.TempDir(), []string{endAtOnce}
	log := filepath.Join(cmd.Dir, "log")
	file, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd.Stderr = file
	said := func() string {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "word of the wait", func() bool { return strings.Contains(said(), "the database is not up; trying again") })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ends with %v:\n%s", err, said())
	}
	contains(t, "the log", said(), "stopped before it was ready")
}
