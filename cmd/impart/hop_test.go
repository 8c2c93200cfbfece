package main

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/lab/authority"
	"github.com/impart-im/impart/internal/rpc"
)

// noRules are asked nothing.
type noRules struct {
	impart.Logic
	impart.Admin
}

// meet lets a gateway and a logic node with these settings connect; "" is success,
// otherwise what both say.
func meet(t *testing.T, node, gateway config) string {
	t.Helper()
	var told strings.Builder // read once the server is closed
	said := meetIn(t, node, gateway, slog.New(slog.NewTextHandler(&told, nil)))
	return said + told.String()
}

func meetIn(t *testing.T, node, gateway config, tells *slog.Logger) string {
	t.Helper()
	addr, end := serveHop(t, secretsOf(t, roleLogic, node), tells)
	defer end()
	client := dialHop(t, addr, secretsOf(t, roleGateway, gateway))
	defer client.Close()
	return outcome(t, client)
}

func secretsOf(t *testing.T, as role, c config) *hopSecrets {
	t.Helper()
	c.role = as
	secrets, err := hopSecretsOf(&c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return secrets
}

// secure is how connections are made by these secrets, nil by none.
func secure(secrets *hopSecrets) func() *tls.Config {
	if secrets == nil {
		return nil
	}
	return secrets.config
}

// serveHop runs a logic node until end is called.
func serveHop(t *testing.T, secrets *hopSecrets, tells *slog.Logger) (addr string, end func()) {
	t.Helper()
	server, err := rpc.NewServer(rpc.ServerConfig{Logic: noRules{}, Admin: noRules{}, TLS: secure(secrets), Log: tells})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	return ln.Addr().String(), func() { _ = server.Close(); <-served }
}

func dialHop(t *testing.T, addr string, secrets *hopSecrets) *rpc.Client {
	t.Helper()
	client, err := rpc.NewClient(rpc.ClientConfig{Nodes: []string{addr}, TLS: secure(secrets)})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// outcome is why the client gets nowhere, "" once it is connected.
func outcome(t *testing.T, client *rpc.Client) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		if fit, _, _ := client.Nodes(); fit == 1 {
			return ""
		}
		if err := client.Health(); err != nil && !strings.Contains(err.Error(), "not connected yet") && !strings.Contains(err.Error(), "no address") {
			return err.Error()
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("neither connected nor refused")
		}
	}
}

// TestTheRolesKnowEachOtherByCertificate: who has none, an expired one, or one of
// another authority, gets nowhere, on either side.
func TestTheRolesKnowEachOtherByCertificate(t *testing.T) {
	ours, others := authority.New(t, "ours"), authority.New(t, "others")
	with := func(a *authority.Authority, name, host string, ends time.Duration, trusts *authority.Authority) config {
		cert, key := a.Issue(name, host, ends)
		return config{LogicCert: cert, LogicKey: key, LogicCA: trusts.File}
	}
	const host = "127.0.0.1"
	node, gateway := with(ours, "node", host, time.Hour, ours), with(ours, "gateway", "gw", time.Hour, ours)
	named := with(ours, "gateway", "gw", time.Hour, ours)
	named.LogicName = "logic.example"
	for name, story := range map[string]struct {
		node, gateway config
		refusal       string // in what the gateway says; "": they connect
	}{
		"both are ours":                             {node, gateway, ""},
		"plain text on both sides":                  {config{}, config{}, ""},
		"the gateway speaks plain text":             {node, config{}, "first record does not look like a TLS handshake"},
		"the node speaks plain text":                {config{}, gateway, "first record does not look like a TLS handshake"},
		"the gateway's certificate is of others":    {node, with(others, "thief", "gw", time.Hour, ours), "certificate signed by unknown authority"},
		"the node's certificate is of others":       {with(others, "thief", host, time.Hour, ours), gateway, "certificate signed by unknown authority"},
		"the gateway's certificate has expired":     {node, with(ours, "old", "gw", -time.Minute, ours), "certificate has expired"},
		"the node's certificate has expired":        {with(ours, "oldnode", host, -time.Minute, ours), gateway, "certificate has expired"},
		"the node's certificate is for elsewhere":   {with(ours, "else", "10.9.9.9", time.Hour, ours), gateway, "certificate is valid for 10.9.9.9, not 127.0.0.1"},
		"the node has the name that is asked for":   {with(ours, "named", "logic.example", time.Hour, ours), named, ""},
		"the node lacks the name that is asked for": {node, named, "wanted to match logic.example"},
	} {
		t.Run(name, func(t *testing.T) {
			said := meet(t, story.node, story.gateway)
			if story.refusal == "" && said != "" || !strings.Contains(said, story.refusal) {
				t.Errorf("they say %q, want %q", said, story.refusal)
			}
		})
	}
}

// TestWhoRefusedIsToldByTheNode: a node that turns a client away, and one that is turned
// away by it, give the advice for the side that has to be mended, once for a client that
// dials again and again.
func TestWhoRefusedIsToldByTheNode(t *testing.T) {
	ours, others := authority.New(t, "ours"), authority.New(t, "others")
	with := func(a *authority.Authority, host string, trusts *authority.Authority) config {
		cert, key := a.Issue("for-"+host, host, time.Hour)
		return config{LogicCert: cert, LogicKey: key, LogicCA: trusts.File}
	}
	const away, refused = "a client was turned away", "a client refused this node's certificate"
	node := with(ours, "127.0.0.1", ours)
	for name, story := range map[string]struct {
		gateway    config
		says, lies string
	}{
		"the gateway trusts another authority":    {with(ours, "gw", others), refused, away},
		"the gateway's certificate is of another": {with(others, "gw", ours), away, refused},
	} {
		t.Run(name, func(t *testing.T) {
			var told strings.Builder // read once the server is closed
			addr, end := serveHop(t, secretsOf(t, roleLogic, node), slog.New(slog.NewTextHandler(&told, nil)))
			secrets := secretsOf(t, roleGateway, story.gateway)
			for range 3 {
				client := dialHop(t, addr, secrets)
				_ = outcome(t, client)
				_ = client.Close()
			}
			end()
			if strings.Count(told.String(), story.says) != 1 || strings.Contains(told.String(), story.lies) {
				t.Errorf("the node says %s", told.String())
			}
		})
	}
}

// TestAnAuthorityIsReadAgain: when the authority is replaced, each side takes the new
// one's certificates as soon as its file names it, in the running process.
func TestAnAuthorityIsReadAgain(t *testing.T) {
	ours, next := authority.New(t, "ours"), authority.New(t, "next")
	named := func(a *authority.Authority, host string) (string, string) { return a.Issue("it", host, time.Hour) }
	nodeCert, nodeKey := named(ours, "127.0.0.1")
	newCert, newKey := named(next, "127.0.0.1")
	both := filepath.Join(t.TempDir(), "ca.pem")
	trust := func(authorities ...*authority.Authority) {
		t.Helper()
		var text []byte
		for _, a := range authorities {
			one, err := os.ReadFile(a.File)
			if err != nil {
				t.Fatal(err)
			}
			text = append(text, one...)
		}
		if err := os.WriteFile(both, text, 0o600); err != nil {
			t.Fatal(err)
		}
		later := time.Now().Add(time.Duration(len(text)) * time.Second) // another time than before, on every file system
		if err := os.Chtimes(both, later, later); err != nil {
			t.Fatal(err)
		}
	}
	trust(ours)
	for name, story := range map[string]struct{ node, gateway config }{
		"at the logic node": {config{LogicCert: nodeCert, LogicKey: nodeKey, LogicCA: both}, config{LogicCert: newCert, LogicKey: newKey, LogicCA: ours.File}},
		"at the gateway":    {config{LogicCert: newCert, LogicKey: newKey, LogicCA: ours.File}, config{LogicCert: nodeCert, LogicKey: nodeKey, LogicCA: both}},
	} {
		t.Run(name, func(t *testing.T) {
			trust(ours)
			node, gateway := secretsOf(t, roleLogic, story.node), secretsOf(t, roleGateway, story.gateway)
			addr, end := serveHop(t, node, slog.New(slog.DiscardHandler))
			defer end()
			client := dialHop(t, addr, gateway)
			defer client.Close()
			if said := outcome(t, client); said == "" {
				t.Fatal("a certificate of an authority that is not named is taken")
			}
			trust(ours, next)
			for _, secrets := range []*hopSecrets{node, gateway} {
				secrets.authorities.mu.Lock()
				secrets.authorities.checked = time.Time{} // half a minute has passed
				secrets.authorities.mu.Unlock()
			}
			eventually(t, "a connection", func() bool { fit, _, _ := client.Nodes(); return fit == 1 })
		})
	}
}

// TestTheHopIsDescribedByItsSettings holds the rules across the settings of the roles.
func TestTheHopIsDescribedByItsSettings(t *testing.T) {
	const db = "postgres://im@127.0.0.1/im"
	for name, story := range map[string]struct {
		role      role
		variables map[string]string
		want      []string // each in one fault; none: valid
	}{
		"a gateway": {roleGateway, map[string]string{"IM_LOGIC": "127.0.0.1:9090", "IM_LISTEN_STORE": db}, nil},
		"a gateway without anything": {roleGateway, nil, []string{
			"IM_LOGIC (--logic): impart gateway should have the addresses of its logic nodes", "IM_LISTEN_STORE (--listen-store): impart gateway should have the address",
		}},
		"a gateway that reaches over the network in plain text": {roleGateway, map[string]string{"IM_LOGIC": "127.0.0.1:9090,10.0.0.1:9090", "IM_LISTEN_STORE": db},
			[]string{`IM_LOGIC (--logic): "10.0.0.1:9090" should have IM_LOGIC_TLS_CERT, IM_LOGIC_TLS_KEY and IM_LOGIC_TLS_CA`}},
		"by a name":         {roleGateway, map[string]string{"IM_LOGIC": "dns:///logic:9090", "IM_LISTEN_STORE": db}, []string{`"dns:///logic:9090" should have`}},
		"knowingly":         {roleGateway, map[string]string{"IM_LOGIC": "dns:///logic:9090", "IM_LISTEN_STORE": db, "IM_ALLOW_PLAINTEXT": "true"}, nil},
		"with certificates": {roleGateway, map[string]string{"IM_LOGIC": "logic:9090", "IM_LISTEN_STORE": db, "IM_LOGIC_TLS_CERT": "a", "IM_LOGIC_TLS_KEY": "b", "IM_LOGIC_TLS_CA": "c"}, nil},
		"with half of them": {roleGateway, map[string]string{"IM_LOGIC": "127.0.0.1:9090", "IM_LISTEN_STORE": db, "IM_LOGIC_TLS_CERT": "a", "IM_LOGIC_TLS_KEY": "b"},
			[]string{"IM_LOGIC_TLS_CERT, IM_LOGIC_TLS_KEY and IM_LOGIC_TLS_CA (--logic-tls-cert, --logic-tls-key, --logic-tls-ca): all three or none should be set"}},
		"a logic node":             {roleLogic, map[string]string{"IM_STORE": db}, nil},
		"a logic node with a file": {roleLogic, nil, []string{"IM_STORE (--store): impart logic should have postgres://"}},
		"a logic node for the network in plain text": {roleLogic, map[string]string{"IM_STORE": db, "IM_LOGIC_LISTEN": ":9090"},
			[]string{`IM_LOGIC_LISTEN (--logic-listen): ":9090" should have IM_LOGIC_TLS_CERT`}},
		"a logic node has no login to protect": {roleLogic, map[string]string{"IM_STORE": db, "IM_LISTEN": ":8081", "IM_ALLOW_PLAINTEXT": "true"}, nil},
		"the whole server needs none of it":    {roleServe, map[string]string{"IM_LOGIC": "10.0.0.1:9090"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := world{story.variables}.mustRead(t)
			l.config.role = story.role
			faults := l.config.validate()
			if len(faults) != len(story.want) {
				t.Errorf("%d faults, want %d: %v", len(faults), len(story.want), faults)
			}
			for _, want := range story.want {
				found := false
				for _, fault := range faults {
					found = found || strings.Contains(fault.Error(), want)
				}
				if !found {
					t.Errorf("no fault says %q: %v", want, faults)
				}
			}
		})
	}
}

// TestSettingsOfTheOtherRoleAreTold: they have no effect, and flags of them are none.
func TestSettingsOfTheOtherRoleAreTold(t *testing.T) {
	l := world{map[string]string{"IM_STORE": "postgres://im@127.0.0.1/im", "IM_LOGIC": "127.0.0.1:9090", "IM_SWEEP_MS": "500"}}.mustRead(t)
	for as, want := range map[role]string{roleGateway: "IM_STORE", roleLogic: "IM_LOGIC IM_SWEEP_MS", roleServe: "IM_LOGIC", roleAll: ""} {
		l.config.role = as
		if got := strings.Join(l.unused(), " "); got != want {
			t.Errorf("%q has no use for %q, want %q", as, got, want)
		}
	}
	known := map[string]bool{}
	for _, s := range settings(&config{}) {
		known[s.name] = true
	}
	for _, table := range []map[role][]string{forRoles, notForRole} {
		for as, names := range table {
			for _, name := range names {
				if !known[name] {
					t.Errorf("%s of %s is no setting", name, as)
				}
			}
		}
	}
}

// TestTheDoctorLooksAtTheHop from both roles, with what a deployment gets wrong.
func TestTheDoctorLooksAtTheHop(t *testing.T) {
	ours := authority.New(t, "ours")
	old, oldKey := ours.Issue("old", "gw", -time.Minute)
	soon, soonKey := ours.Issue("soon", "gw", 24*time.Hour)
	for name, story := range map[string]struct {
		c    config
		want verdict
		says string
	}{
		"none":       {config{}, good, "plain text"},
		"expired":    {config{LogicCert: old, LogicKey: oldKey, LogicCA: ours.File}, fail, "has expired"},
		"soon":       {config{LogicCert: soon, LogicKey: soonKey, LogicCA: ours.File}, warn, "renew it"},
		"not theirs": {config{LogicCert: old, LogicKey: soonKey, LogicCA: ours.File}, fail, "would not start"},
		"no CA":      {config{LogicCert: soon, LogicKey: soonKey, LogicCA: soonKey}, fail, "holds no certificate"},
	} {
		f := certificateFindings(&story.c, time.Now())[0]
		if f.Verdict != story.want || !strings.Contains(f.Found+f.Advice, story.says) {
			t.Errorf("%s: %+v", name, f)
		}
	}
	f := nodesFinding(t.Context(), &config{role: roleGateway, Logic: []string{"127.0.0.1:1"}})
	if f.Verdict != fail || !strings.Contains(f.Found, "127.0.0.1:1: ") || !strings.Contains(f.Found, "refused") {
		t.Errorf("no node: %+v", f)
	}
}
