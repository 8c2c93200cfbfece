package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// role is which part of a server a process is.
type role string

// The roles.
const (
	roleAll     role = "" // of a command that reads settings and serves nothing
	roleServe   role = "serve"
	roleGateway role = "gateway"
	roleLogic   role = "logic"
)

// Settings by the roles that have a use for them; what is in neither list is for all.
var (
	// Of the hop: the whole server calls the rules directly.
	forRoles = map[role][]string{
		roleGateway: {"IM_LOGIC", "IM_LOGIC_TLS_CERT", "IM_LOGIC_TLS_KEY", "IM_LOGIC_TLS_CA", "IM_LOGIC_TLS_NAME"},
		roleLogic:   {"IM_LOGIC_LISTEN", "IM_LOGIC_TLS_CERT", "IM_LOGIC_TLS_KEY", "IM_LOGIC_TLS_CA"},
	}
	// Of one side alone.
	notForRole = map[role][]string{
		roleGateway: {
			"IM_STORE", "IM_REPLICATION", "IM_RETENTION", "IM_DEDUP_RETENTION", "IM_ALLOW_UNSAFE_DURABILITY",
			"IM_RATE_SEND", "IM_RATE_SEND_BURST", "IM_RECALL_WINDOW",
		},
		roleLogic: {
			"IM_ORIGINS", "IM_AUTH_HMAC_SECRET", "IM_AUTH_PUBLIC_KEY", "IM_AUTH_JWKS_URL", "IM_AUTH_ISSUER", "IM_AUTH_AUDIENCE", "IM_ADMIN_TOKEN",
			"IM_MAX_INFLIGHT", "IM_MAX_CONNS", "IM_SWEEP_MS", "IM_RETRY_MS", "IM_HEARTBEAT_MS",
		},
	}
)

// uses reports whether the role has a use for a setting.
func (r role) uses(name string) bool {
	if r == roleAll {
		return true
	}
	if strings.HasPrefix(name, "IM_LOGIC") {
		return slices.Contains(forRoles[r], name)
	}
	return !slices.Contains(notForRole[r], name)
}

// used are the settings that the role has a use for.
func (l *loaded) used() []effective {
	var used []effective
	for _, e := range l.values {
		if l.config.role.uses(e.name) {
			used = append(used, e)
		}
	}
	return used
}

// unused lists the settings that were given and mean nothing to the role.
func (l *loaded) unused() []string {
	var names []string
	for _, e := range l.values {
		if e.from != "default" && !l.config.role.uses(e.name) {
			names = append(names, e.name)
		}
	}
	return names
}

// readRole reads the value of a --role flag.
func readRole(text string) (role, error) {
	switch r := role(text); r {
	case roleServe, roleGateway, roleLogic:
		return r, nil
	default:
		return "", errors.New("--role: should be serve, gateway or logic")
	}
}

func gatewayCommand(env streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Run a gateway: connections and the HTTP API, without the rules and the store",
		Long: "Runs the edge of a server alone: WebSocket connections, the HTTP API, the admin API and the web page. The rules and the store are at the logic nodes that IM_LOGIC names (impart logic); " +
			"any number of gateways share any number of them. A call goes to another node when one dies, hangs or drains.\n\n" +
			"News comes over the bus: with PostgreSQL, IM_LISTEN_STORE is the database of the logic nodes, of which this process listens to notifications and reads nothing.\n\n" +
			"Off loopback the two roles know each other by certificates: IM_LOGIC_TLS_CERT, IM_LOGIC_TLS_KEY and IM_LOGIC_TLS_CA on both sides.\n\n" +
			"Once it can serve it prints one line, `ready http://ADDRESS`. SIGTERM or Ctrl-C says goodbye to every client and ends within 10 seconds; a second one ends at once.",
		Example: "# one gateway and one logic node on this machine\nimpart logic --store postgres://impart@127.0.0.1/impart\nimpart gateway --logic 127.0.0.1:9090 --listen-store postgres://impart@127.0.0.1/impart\n\n" +
			"# every address that a name leads to, now and later\nIM_LOGIC=dns:///logic.internal:9090 impart gateway --config gateway.yaml",
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runServe(cmd, env, roleGateway, false) },
	}
	addSettingsOf(cmd, roleGateway)
	return cmd
}

func logicCommand(env streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "logic",
		Short: "Run a logic node: the rules and the store, for gateways",
		Long: "Runs the rules of a server alone, on a store that other logic nodes may share, and serves them to gateways over gRPC (impart gateway). No device and no token comes here.\n\n" +
			"IM_LOGIC_LISTEN is for gateways, IM_LISTEN for /livez, /readyz and /metrics. Off loopback the two roles know each other by certificates: IM_LOGIC_TLS_CERT, IM_LOGIC_TLS_KEY and IM_LOGIC_TLS_CA on both sides.\n\n" +
			"Once it can serve it prints one line, `ready http://ADDRESS grpc://ADDRESS`. SIGTERM or Ctrl-C sends every gateway to the other nodes, lets commits finish, and ends within 10 seconds; a second one ends at once.",
		Example: "impart logic --store postgres://impart@127.0.0.1/impart --listen 127.0.0.1:8081 --logic-listen 127.0.0.1:9090\n\n" +
			"# for gateways on other machines\nimpart logic --config logic.yaml --logic-listen :9090 --logic-tls-cert node.pem --logic-tls-key node.key --logic-tls-ca ca.pem",
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runServe(cmd, env, roleLogic, false) },
	}
	addSettingsOf(cmd, roleLogic)
	return cmd
}
