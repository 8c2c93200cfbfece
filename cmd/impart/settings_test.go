package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// samples has, for every setting, a value that is right and not the default,
// and one that is wrong. Text that may be anything has no wrong value.
var samples = map[string]struct{ right, wrong string }{
	"IM_LISTEN":                  {"127.0.0.1:9999", "8080"},
	"IM_TLS_CERT":                {"cert.pem", ""},
	"IM_TLS_KEY":                 {"key.pem", ""},
	"IM_ALLOW_PLAINTEXT":         {"true", "maybe"},
	"IM_ORIGINS":                 {"https://a.example,http://b.example:8000", "https://a.example/path"},
	"IM_AUTH_HMAC_SECRET":        {"0123456789abcdef0123456789abcdef", ""},
	"IM_AUTH_PUBLIC_KEY":         {"key.pub", ""},
	"IM_AUTH_JWKS_URL":           {"https://issuer.example/jwks", ""},
	"IM_AUTH_ISSUER":             {"issuer", ""},
	"IM_AUTH_AUDIENCE":           {"audience", ""},
	"IM_ADMIN_TOKEN":             {"a token for administrators", ""},
	"IM_LOGIC":                   {"127.0.0.1:9090,dns:///logic.example:9090", "logic.example"},
	"IM_LOGIC_LISTEN":            {"127.0.0.1:9091", "9091"},
	"IM_LOGIC_TLS_CERT":          {"node.pem", ""},
	"IM_LOGIC_TLS_KEY":           {"node.key", ""},
	"IM_LOGIC_TLS_CA":            {"ca.pem", ""},
	"IM_LOGIC_TLS_NAME":          {"logic.example", ""},
	"IM_REDIS":                   {"redis://:secret@127.0.0.1:6379", ""},
	"IM_STORE":                   {"sqlite:elsewhere/x.db", ""},
	"IM_LISTEN_STORE":            {"postgres://im@db/im", ""},
	"IM_BUS":                     {"redis", "nats"},
	"IM_REPLICATION":             {"sync", "async"},
	"IM_RETENTION":               {"30d", "30"},
	"IM_DEDUP_RETENTION":         {"1d12h", "-1h"},
	"IM_ALLOW_UNSAFE_DURABILITY": {"true", "2"},
	"IM_MAX_BODY":                {"1024", "163841"},
	"IM_MAX_INFLIGHT":            {"16", "0"},
	"IM_MAX_CONNS":               {"500", "many"},
	"IM_RATE_SEND":               {"5", "-1"},
	"IM_RATE_SEND_BURST":         {"50", "0"},
	"IM_RECALL_WINDOW":           {"90m", "1y"},
	"IM_SWEEP_MS":                {"500", "9"},
	"IM_RETRY_MS":                {"100,200,300,400", "100,200,300"},
	"IM_HEARTBEAT_MS":            {"1000", "99"},
	"IM_GATEWAY_ID":              {"gw-1", ""},
	"IM_LOG_LEVEL":               {"debug", "DEBUG+1"},
	"IM_LOG_FORMAT":              {"json", "xml"},
	"IM_PPROF":                   {"127.0.0.1:6060", ""},
	"IM_FAULT":                   {"gw.push:drop", ""},
}

// world is a process with its own variables and files.
type world struct {
	variables map[string]string
}

func (w world) streams() streams {
	return streams{
		env: func(name string) (string, bool) { v, ok := w.variables[name]; return v, ok },
		environ: func() []string {
			var pairs []string
			for name, value := range w.variables {
				pairs = append(pairs, name+"="+value)
			}
			return pairs
		},
	}
}

// read loads the settings of a command line, without the rules across settings.
func (w world) read(t *testing.T, args ...string) (*loaded, error) {
	t.Helper()
	cmd := &cobra.Command{Use: "serve"}
	addSettings(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return loadRaw(cmd, w.streams())
}

func (w world) mustRead(t *testing.T, args ...string) *loaded {
	t.Helper()
	l, err := w.read(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "impart.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func from(l *loaded, name string) effective {
	for _, e := range l.values {
		if e.name == name {
			return e
		}
	}
	return effective{}
}

func TestEverySettingIsAFlagAVariableAndAKey(t *testing.T) {
	standard := world{}.mustRead(t)
	table := settings(&config{})
	if len(table) != len(samples) {
		t.Errorf("%d settings, %d samples", len(table), len(samples))
	}
	for _, s := range table {
		t.Run(s.name, func(t *testing.T) {
			sample, found := samples[s.name]
			if !found {
				t.Fatal("has no sample")
			}
			byFlag := world{}.mustRead(t, "--"+s.flag()+"="+sample.right)
			byVariable := world{map[string]string{s.name: sample.right}}.mustRead(t)
			file := writeFile(t, fmt.Sprintf("%s: %q\n", s.key(), sample.right))
			byFile := world{}.mustRead(t, "--config", file)
			for how, l := range map[string]*loaded{"flag --" + s.flag(): byFlag, "variable " + s.name: byVariable, "file " + file + ":1": byFile} {
				e := from(l, s.name)
				if e.text != sample.right || e.from != how {
					t.Errorf("%s: is %q from %q", how, e.text, e.from)
				}
				if reflect.DeepEqual(l.config, standard.config) {
					t.Errorf("%s: the config does not change", how)
				}
				if !reflect.DeepEqual(l.config, byFlag.config) {
					t.Errorf("%s: gives %+v, the flag gives %+v", how, l.config, byFlag.config)
				}
			}
			if s.help == "" || strings.HasSuffix(s.help, ".") {
				t.Errorf("help %q should be one line without a full stop", s.help)
			}
		})
	}
}

func TestWrongValuesSayWhatTheyShouldBe(t *testing.T) {
	for _, s := range settings(&config{}) {
		wrong := samples[s.name].wrong
		if wrong == "" {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			_, err := world{map[string]string{s.name: wrong}}.read(t)
			if err == nil {
				t.Fatalf("%q is taken", wrong)
			}
			line := err.Error()
			for _, want := range []string{s.name, "--" + s.flag(), fmt.Sprintf("%q", wrong), "should be " + s.value.want} {
				if !strings.Contains(line, want) {
					t.Errorf("%q does not contain %q", line, want)
				}
			}
			if strings.Contains(line, "\n") {
				t.Errorf("more than one line: %q", line)
			}
		})
	}
}

func TestFlagsWinOverVariablesOverTheFile(t *testing.T) {
	file := writeFile(t, "sweep_ms: 100\nmax_body: 100\nlog_level: debug\n")
	w := world{map[string]string{"IM_CONFIG": file, "IM_SWEEP_MS": "200", "IM_MAX_BODY": "200"}}
	l := w.mustRead(t, "--sweep-ms", "300")
	for name, want := range map[string]string{
		"IM_SWEEP_MS":  "300 flag --sweep-ms",
		"IM_MAX_BODY":  "200 variable IM_MAX_BODY",
		"IM_LOG_LEVEL": "debug file " + file + ":3",
		"IM_STORE":     "sqlite:impart-data/impart.db default",
	} {
		if e := from(l, name); e.text+" "+e.from != want {
			t.Errorf("%s is %q from %q, want %q", name, e.text, e.from, want)
		}
	}
	if l := w.mustRead(t, "--config", writeFile(t, "log_level: error\n")); from(l, "IM_LOG_LEVEL").text != "error" {
		t.Error("--config does not win over IM_CONFIG")
	}
}

func TestAnEmptyVariableIsNotSet(t *testing.T) {
	l := world{map[string]string{"IM_LISTEN": "", "IM_SWEEP_MS": ""}}.mustRead(t)
	if e := from(l, "IM_LISTEN"); e.from != "default" {
		t.Errorf("IM_LISTEN is from %s", e.from)
	}
}

func TestAllFaultsAreToldAtOnce(t *testing.T) {
	_, err := world{map[string]string{"IM_SWEEP_MS": "x", "IM_MAX_BODY": "y"}}.read(t, "--log-level", "z")
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Fatalf("want three lines, got %v", err)
	}
}

func TestSecretsAreNeverShown(t *testing.T) {
	const secret = "hunter2-hunter2-hunter2-hunter2-h"
	var names []string
	for _, s := range settings(&config{}) {
		if s.secret {
			names = append(names, s.name)
		}
	}
	if len(names) < 2 {
		t.Fatalf("only %v are secret", names)
	}
	for _, name := range names {
		l := world{map[string]string{name: secret}}.mustRead(t)
		if e := from(l, name); strings.Contains(e.shown(), "hunter2") || e.shown() == "" {
			t.Errorf("%s is shown as %q", name, e.shown())
		}
		if err := from(l, name).fault("something else"); strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s stands in an error: %v", name, err)
		}
	}
}

func TestUnknownVariablesAreTold(t *testing.T) {
	l := world{map[string]string{"IM_SWEEPMS": "5", "IM_BUG": "x", "IMAGE": "y"}}.mustRead(t)
	if !reflect.DeepEqual(l.unknown, []string{"IM_SWEEPMS"}) {
		t.Fatalf("unknown: %q", l.unknown)
	}
	if note := unknownNote("IM_SWEEPMS"); !strings.Contains(note, "IM_SWEEP_MS") {
		t.Errorf("no suggestion: %s", note)
	}
}
