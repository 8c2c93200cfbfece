package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
)

// composed is what a compose file says of the services that are of this binary.
type composed struct {
	Services map[string]struct {
		Command     []string          `yaml:"command"`
		Environment map[string]string `yaml:"environment"`
	} `yaml:"services"`
}

var composeFolder = filepath.Join("..", "..", "deploy", "compose")

func readDeployed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(composeFolder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// readCompose reads the compose file with the variables of an environment file.
func readCompose(t *testing.T, envFile string) composed {
	t.Helper()
	variables := map[string]string{}
	reference := regexp.MustCompile(`\$\{([A-Z_]+)(?::?([-?])([^}]*))?\}`)
	fill := func(text string) string {
		return reference.ReplaceAllStringFunc(text, func(found string) string {
			parts := reference.FindStringSubmatch(found)
			switch value := variables[parts[1]]; {
			case value != "":
				return value
			case parts[2] == "-":
				return parts[3]
			default:
				// Compose asks for what has no default only where it is used.
				return "MISSING-" + parts[1]
			}
		})
	}
	for line := range strings.Lines(readDeployed(t, envFile)) {
		if name, value, is := strings.Cut(strings.TrimSpace(line), "="); is && !strings.HasPrefix(line, "#") {
			variables[name] = fill(value)
		}
	}
	var c composed
	if err := yaml.Unmarshal([]byte(fill(readDeployed(t, "compose.yaml"))), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// variables are the environment of a service, with addresses of this machine.
func (c *composed) variables(t *testing.T, service string, other map[string]string) (list []string) {
	t.Helper()
	for name, value := range c.Services[service].Environment {
		if strings.Contains(value, "MISSING-") {
			t.Errorf("%s: %s has no value: %s", service, name, value)
		}
		if instead, is := other[name]; is && value != "" {
			value = instead
		}
		list = append(list, name+"="+value)
	}
	return list
}

// TestComposeUsesSettingsThatRolesHave: a variable that a role does not know would
// say something in the file and nothing to the process.
func TestComposeUsesSettingsThatRolesHave(t *testing.T) {
	known := map[string]bool{}
	for _, s := range settings(&config{}) {
		known[s.name] = true
	}
	for _, envFile := range []string{"postgres.env", "mysql.env"} {
		c := readCompose(t, envFile)
		seen := map[role]int{}
		for name, service := range c.Services {
			if len(service.Command) != 1 || service.Command[0] != "gateway" && service.Command[0] != "logic" {
				continue
			}
			as := role(service.Command[0])
			seen[as]++
			loadFor(t, name, as, service.Environment)
			for variable := range service.Environment {
				if !known[variable] || !as.uses(variable) {
					t.Errorf("%s: %s is no setting of impart %s", name, variable, as)
				}
			}
		}
		if seen[roleGateway] != 3 || seen[roleLogic] != 2 {
			t.Errorf("%v", seen)
		}
	}
}

// loadFor reads variables as the process of a role does, and wants them to be right.
func loadFor(t *testing.T, name string, as role, variables map[string]string) *loaded {
	t.Helper()
	env := streams{environ: func() []string { return nil }, env: func(name string) (string, bool) { v, is := variables[name]; return v, is }}
	l, err := loadAs(map[role]func(streams) *cobra.Command{roleGateway: gatewayCommand, roleLogic: logicCommand}[as](env), env, as)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return &loaded{config: &config{role: as}}
	}
	return l
}

// TestUnitsStartWhatTheirFilesSay: the settings that come with the systemd units are
// ones that their roles take, and the units give a drain the time that it needs.
func TestUnitsStartWhatTheirFilesSay(t *testing.T) {
	folder := filepath.Join("..", "..", "deploy", "systemd")
	for as, file := range map[role]string{roleGateway: "gateway.env", roleLogic: "logic.env"} {
		text, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Fatal(err)
		}
		variables := map[string]string{}
		for line := range strings.Lines(string(text)) {
			if name, value, is := strings.Cut(strings.TrimSpace(line), "="); is && !strings.HasPrefix(line, "#") {
				variables[name] = value
			}
		}
		l := loadFor(t, file, as, variables)
		if unused := l.unused(); len(unused) > 0 || len(variables) < 5 {
			t.Errorf("%s: impart %s has no use for %v", file, as, unused)
		}
		for name := range variables {
			if !slices.ContainsFunc(l.values, func(e effective) bool { return e.name == name }) {
				t.Errorf("%s: %s is no setting", file, name)
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(folder, "impart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readFile("impart.yaml", text, settings(&config{})); err != nil {
		t.Error(err)
	}
	units, err := filepath.Glob(filepath.Join(folder, "*.service"))
	if err != nil || len(units) != 3 {
		t.Fatalf("%v, %v", units, err)
	}
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"KillSignal=SIGTERM\n", "TimeoutStopSec=15s\n", "RestartPreventExitStatus=2\n", "LimitNOFILE="} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s has no %q", unit, want)
			}
		}
	}
	if exitTime >= 15*time.Second {
		t.Error("TimeoutStopSec is shorter than a drain may take")
	}
}

// TestComposeAsProcesses runs what the compose file describes as processes of this
// machine: the same roles with the same variables and the same file for the balancer,
// but for addresses and secrets of databases. Devices are spread over the gateways;
// a gateway and a logic node that are killed, and one that drains, take nothing along.
func TestComposeAsProcesses(t *testing.T) {
	t.Parallel()
	_, dsn, _ := database(t)
	composeAsProcesses(t, "postgres.env", dsn)
}

// TestComposeAsProcessesOnMySQL is the same with the other database.
func TestComposeAsProcessesOnMySQL(t *testing.T) {
	t.Parallel()
	_, dsn, _ := mysqlDatabase(t)
	composeAsProcesses(t, "mysql.env", dsn)
}

func composeAsProcesses(t *testing.T, envFile, dsn string) {
	redis := redisServer(t)
	c := readCompose(t, envFile)
	here := map[string]string{"IM_STORE": dsn, "IM_REDIS": redis.URL(), "IM_LISTEN": "127.0.0.1:0", "IM_LOGIC_LISTEN": "127.0.0.1:0"}
	nodes := []*serverProcess{launchRole(t, "logic", c.variables(t, "logic-1", here)), launchRole(t, "logic", c.variables(t, "logic-2", here))}
	here["IM_LOGIC"] = nodes[0].hop + "," + nodes[1].hop
	gateways := map[string]*serverProcess{}
	for _, name := range []string{"gateway-1", "gateway-2", "gateway-3"} {
		gateways[name] = launchRole(t, "gateway", c.variables(t, name, here))
	}
	front := balance(t, gateways)
	admin := []string{"IM_URL=" + gateways["gateway-2"].url, "IM_ADMIN_TOKEN=" + c.Services["gateway-2"].Environment["IM_ADMIN_TOKEN"]}
	if code, said := impartCommand(t, admin, "ready"); code != exitDone {
		t.Errorf("the health check of a gateway ends with %d: %s", code, said)
	}
	for _, path := range []string{"/metrics", "/readyz", "/livez", "/admin/v1/epoch"} {
		if said := get(t, front+path); !strings.Contains(said, "404") || strings.Contains(said, "im_") {
			t.Errorf("the balancer answers to %s: %s", path, said)
		}
	}
	if code, said := impartCommand(t, admin, "admin", "conv", "put", "c-abc", "--kind", "group", "--member", "u-0", "--member", "u-1", "--member", "u-2"); code != exitDone {
		t.Fatal(said)
	}
	group := newTalkers(t, front, c.Services["gateway-1"].Environment["IM_AUTH_HMAC_SECRET"], 3)
	eventually(t, "one device at each gateway", func() bool {
		return !slices.ContainsFunc(slices.Collect(mapValues(gateways)), func(g *serverProcess) bool {
			return !strings.Contains(get(t, g.url+"/metrics"), "im_connections 1\n")
		})
	})
	group.say(t, 0, "hi")
	group.heard(t, "hi")
	// It is the gateway of somebody, whoever that is.
	if err := gateways["gateway-1"].end(syscall.SIGKILL, -1); err != nil {
		t.Error(err)
	}
	group.say(t, 1, "still here?")
	if err := nodes[0].end(syscall.SIGKILL, -1); err != nil {
		t.Error(err)
	}
	group.say(t, 2, "yes")
	// An upgrade takes its leave: the last gateway has them all.
	if err := gateways["gateway-2"].end(syscall.SIGTERM, 0); err != nil {
		t.Error(err)
	}
	group.say(t, 0, "and now?")
	group.heard(t, "hi", "still here?", "yes", "and now?")
	eventually(t, "all devices at the last gateway", func() bool {
		return strings.Contains(get(t, gateways["gateway-3"].url+"/metrics"), "im_connections 3\n")
	})
	for _, p := range []*serverProcess{gateways["gateway-3"], nodes[1]} {
		if err := p.end(syscall.SIGTERM, 0); err != nil {
			t.Error(err)
		}
	}
}

func mapValues[K comparable, V any](m map[K]V) func(yield func(V) bool) {
	return func(yield func(V) bool) {
		for _, v := range m {
			if !yield(v) {
				return
			}
		}
	}
}

// balance starts haproxy with the compose file's configuration, and returns its address.
func balance(t *testing.T, gateways map[string]*serverProcess) string {
	t.Helper()
	exe, err := exec.LookPath("haproxy")
	if err != nil {
		if exe = "/usr/sbin/haproxy"; !isFile(exe) {
			t.Fatal("haproxy is missing: scripts/find-haproxy.sh installs it, or says how to")
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	text := readDeployed(t, "haproxy.cfg")
	replace := func(old, new string) {
		if strings.Count(text, old) != 1 {
			t.Fatalf("%q is not once in haproxy.cfg", old)
		}
		text = strings.Replace(text, old, new, 1)
	}
	replace("bind :8080\n", "bind "+address+"\n")
	for name, g := range gateways {
		replace(" "+name+":8080\n", " "+g.address()+"\n")
	}
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.CommandContext(t.Context(), exe, "-c", "-f", file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	// -db: in the foreground.
	cmd := exec.Command(exe, "-db", "-f", file)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the balancer says:\n%s", said.String())
		}
	})
	front := "http://" + address
	eventually(t, "balancer with a gateway behind it", func() bool {
		nc, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		_ = nc.Close()
		return strings.Contains(get(t, front+"/openapi.json"), "openapi")
	})
	return front
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// talkers are devices of a group that keep what they hear.
type talkers struct {
	clients []*client.Client
	mu      sync.Mutex // guards log
	log     map[int][]string
}

func newTalkers(t *testing.T, url, secret string, n int) *talkers {
	t.Helper()
	g := &talkers{log: map[int][]string{}}
	for i := range n {
		user := fmt.Sprintf("u-%d", i)
		code, token := impartCommand(t, []string{"IM_AUTH_HMAC_SECRET=" + secret}, "admin", "token", "make", user)
		if code != exitDone {
			t.Fatal(token)
		}
		c, err := client.Open(t.Context(), client.Config{
			URL: url, User: impart.UserID(user), Device: impart.DeviceID("d-" + user), Token: client.StaticToken(strings.TrimSpace(token)),
			Handler: client.Handler{Event: func(_ context.Context, ev impart.Event) error {
				if ev.Kind == impart.KindMsg {
					g.mu.Lock()
					g.log[i] = append(g.log[i], ev.Body)
					g.mu.Unlock()
				}
				return nil
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		g.clients = append(g.clients, c)
		t.Cleanup(func() { _ = c.Close() })
	}
	return g
}

func (g *talkers) say(t *testing.T, who int, text string) {
	t.Helper()
	if _, err := g.clients[who].Send(t.Context(), client.Draft{Conv: "c-abc", Body: text}); err != nil {
		t.Fatal(err)
	}
	// In the order in which it is told here, whoever says it.
	eventually(t, fmt.Sprintf("%q at its own sender", text), func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return slices.Contains(g.log[who], text)
	})
}

// heard wants each device to have heard just that.
func (g *talkers) heard(t *testing.T, want ...string) {
	t.Helper()
	for i := range g.clients {
		eventually(t, fmt.Sprintf("whole log at device %d", i), func() bool {
			g.mu.Lock()
			defer g.mu.Unlock()
			return len(g.log[i]) >= len(want)
		})
		g.mu.Lock()
		if !slices.Equal(g.log[i], want) {
			t.Errorf("device %d heard %q, want %q", i, g.log[i], want)
		}
		g.mu.Unlock()
	}
}
