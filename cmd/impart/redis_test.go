package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/impart-im/impart/internal/lab/authority"
	"github.com/impart-im/impart/internal/lab/redis"
)

const redisPassword = "open-sesame"

func redisServer(t *testing.T) *redis.Server {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: needs Redis")
	}
	server, err := redis.Start(t.Context(), redis.Options{Password: redisPassword})
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

// Redis may be down at the start, come, go and come back: nobody is refused, and
// whoever asks is told.
func TestAServerGoesOnWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redisServer(t)
	server.Kill()
	variables := []string{"IM_REDIS=" + server.URL(), "IM_GATEWAY_ID=gw-1"}
	code, down := impartCommand(t, variables, "doctor")
	if code != 0 {
		t.Errorf("the doctor ends with %d", code)
	}
	contains(t, "the doctor", down, "warn", "cannot be reached", "would start, and go on without it")
	bus := busFinding(t.Context(), &config{Bus: "auto", Redis: server.URL()})
	if bus.Verdict != warn || !strings.Contains(bus.Advice, "no wake-ups flow") {
		t.Errorf("the doctor says of the bus: %+v", bus)
	}
	n := launch(t, variables)
	contains(t, "readiness", get(t, n.url+"/readyz"), "ready\nwarn: bus: ", "warn: redis: does not answer")
	contains(t, "the metrics", get(t, n.url+"/metrics"), "im_redis_up 0")
	for range 2 {
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the end of the warning", func() bool { return get(t, n.url+"/readyz") == "ready\n" })
		contains(t, "readiness", get(t, n.url+"/readyz?verbose"), `"name":"redis","state":"ok"`, "one server")
		eventually(t, "a lease", func() bool {
			keys, err := server.Do(t.Context(), "KEYS", "*")
			return err == nil && strings.Contains(keys, "{ack:pending:gw-1}:lease")
		})
		server.Kill()
		eventually(t, "a warning", func() bool { return strings.Contains(get(t, n.url+"/readyz"), "warn: redis") })
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the last warning", func() bool { return get(t, n.url+"/readyz") == "ready\n" })
	code, up := impartCommand(t, variables, "doctor")
	if code != 0 {
		t.Errorf("the doctor ends with %d", code)
	}
	contains(t, "the doctor", up, "one server at "+server.Addr(), "version 7")
	second := launch(t, variables)
	eventually(t, "both telling that their name was given twice", func() bool {
		const told = "give each its own IM_GATEWAY_ID"
		return strings.Contains(get(t, n.url+"/readyz?verbose"), told) && strings.Contains(get(t, second.url+"/readyz?verbose"), told)
	})
	if err := second.end(syscall.SIGTERM, 0); err != nil {
		t.Error(err)
	}
	eventually(t, "the end of that", func() bool { return get(t, n.url+"/readyz") == "ready\n" })
	_, shown := impartCommand(t, variables, "config")
	if err := n.end(syscall.SIGTERM, 0); err != nil {
		t.Error(err)
	}
	if keys, err := server.Do(t.Context(), "KEYS", "*pending*"); err != nil || keys != "" {
		t.Errorf("it leaves %q: %v", keys, err)
	}
	if strings.Contains(down+up+shown+n.log(), redisPassword) {
		t.Error("the password is shown")
	}
}

func TestARedisThatRefusesIsExplained(t *testing.T) {
	t.Parallel()
	server := redisServer(t)
	for address, c := range map[string]struct {
		code int
		want string
	}{
		strings.Replace(server.URL(), redisPassword, "hunter2", 1):        {1, "refuses the user or the password"},
		"redis://" + server.Addr():                                        {1, "refuses the user or the password"},
		server.URL() + "/99":                                              {1, "does not have the database of the address: DB index is out of range"},
		"redis://:hunter2#@" + server.Addr():                              {2, "the address cannot be read; it should be redis://"},
		"http://:hunter2@" + server.Addr():                                {2, "the address cannot be read; it should be redis://"},
		strings.Replace(server.URL(), redisPassword, "hunter2", 1) + "/x": {2, "the address cannot be read; it should be redis://"},
	} {
		code, out := impartCommand(t, []string{"IM_REDIS=" + address}, "serve", "--listen", "127.0.0.1:0")
		if code != c.code || strings.Count(out, "\n") != 1 {
			t.Errorf("%s: ends with %d and says %q", address, code, out)
		}
		contains(t, address, out, "impart: IM_REDIS (--redis)", c.want)
		if strings.Contains(out, "hunter2") {
			t.Errorf("%s: shows the password: %s", address, out)
		}
	}
	ours, others := authority.New(t, "ours"), authority.New(t, "others")
	cert, key := ours.Issue("redis", "127.0.0.1", time.Hour)
	secure, err := redis.Start(t.Context(), redis.Options{Password: redisPassword, TLS: redis.TLS{CA: ours.File, Cert: cert, Key: key}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = secure.Close() })
	shown := "&tls_cert=" + cert + "&tls_key=" + key
	wrong := "IM_REDIS=" + secure.TLSURL("tls_ca="+others.File+shown)
	for _, command := range [][]string{{"serve", "--listen", "127.0.0.1:0"}, {"doctor"}} {
		code, out := impartCommand(t, []string{wrong}, command...)
		if code != 1 || strings.Contains(out, redisPassword) {
			t.Errorf("%s with another authority ends with %d and says %s", command[0], code, out)
		}
		contains(t, command[0], out, "redis at 127.0.0.1:", "do not trust each other", "certificate signed by unknown authority")
	}
	if _, out := impartCommand(t, []string{wrong}, "doctor"); !strings.Contains(out, "a server would not start: tls_ca in the address should name") {
		t.Errorf("the doctor advises %s", out)
	}
	code, out := impartCommand(t, []string{"IM_REDIS=" + secure.TLSURL("tls_ca="+ours.File+shown)}, "doctor")
	if code != 0 || !strings.Contains(out, "one server at 127.0.0.1:") {
		t.Errorf("the doctor of a Redis with TLS ends with %d and says %s", code, out)
	}
	code, out = impartCommand(t, []string{"IM_REDIS=redis://" + server.Addr()}, "doctor")
	if code != 1 || !strings.Contains(out, "a server would not start") {
		t.Errorf("the doctor ends with %d and says %s", code, out)
	}
}
