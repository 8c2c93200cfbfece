package main

import (
	"slices"
	"strings"
	"time"

	"github.com/impart-im/impart/internal/logic"
)

// setting is one row of the table of all settings. Flags, variables, the keys
// of the file, `impart config`, the help texts and the table in
// docs/operations.md are all made from it.
type setting struct {
	name   string // IM_SWEEP_MS
	def    string // default as text; "" means none
	value  reader // reads the text into the config
	help   string // one line, without a full stop
	secret bool   // the value is never printed
}

// flag is the name of the setting's flag: IM_SWEEP_MS gives sweep-ms.
func (s setting) flag() string {
	return strings.ReplaceAll(s.key(), "_", "-")
}

// key is the name of the setting in the file: IM_SWEEP_MS gives sweep_ms.
func (s setting) key() string {
	return strings.ToLower(strings.TrimPrefix(s.name, "IM_"))
}

// configVariable names the file of settings; it is not itself a setting.
const configVariable = "IM_CONFIG"

// settings is the table, bound to c. The order is the one people read it in.
func settings(c *config) []setting {
	return slices.Concat(listening(c), between(c), keeping(c), limits(c), delivering(c))
}

// between are the settings of the hop between impart gateway and impart logic.
func between(c *config) []setting {
	return []setting{
		{"IM_LOGIC", "", logicNodes(&c.Logic), "addresses of the logic nodes, for impart gateway: host:port by comma, or dns:///name:port for all that a name leads to", false},
		{"IM_LOGIC_LISTEN", "127.0.0.1:9090", address(&c.LogicListen), "address where impart logic serves gateways (gRPC); port 0 picks a free one", false},
		{"IM_LOGIC_TLS_CERT", "", text(&c.LogicCert, "path of a PEM file"), "certificate chain that this process shows to the other role; read again when the file changes", false},
		{"IM_LOGIC_TLS_KEY", "", text(&c.LogicKey, "path of a PEM file"), "private key of that certificate", false},
		{"IM_LOGIC_TLS_CA", "", text(&c.LogicCA, "path of a PEM file"), "certificates of the authorities that the other role's certificate must come from; read again when the file changes", false},
		{"IM_LOGIC_TLS_NAME", "", text(&c.LogicName, "a host name"), "name that the certificate of every logic node is for, where it is not the host of its address", false},
	}
}

func listening(c *config) []setting {
	return []setting{
		{"IM_LISTEN", "127.0.0.1:8080", address(&c.Listen), "address for HTTP, WebSocket and web pages; port 0 picks a free one", false},
		{"IM_TLS_CERT", "", text(&c.TLSCert, "path of a PEM file"), "certificate chain; read again when the file changes", false},
		{"IM_TLS_KEY", "", text(&c.TLSKey, "path of a PEM file"), "private key of the certificate", false},
		{"IM_ALLOW_PLAINTEXT", "false", boolean(&c.AllowPlaintext), "listen off loopback without TLS, because a proxy in front ends it", false},
		{"IM_ORIGINS", "", list(&c.Origins, checkOrigin), "web origins that may connect besides the server's own, such as https://chat.example.com, by comma", false},
		{"IM_AUTH_HMAC_SECRET", "", text(&c.Auth.HMACSecret, "at least 32 bytes"), "secret that tokens are signed with (HS256, HS384, HS512), at least 32 bytes", true},
		{"IM_AUTH_PUBLIC_KEY", "", text(&c.Auth.PublicKey, "PEM text, or the path of a PEM file"), "public key of the tokens: RSA, ECDSA or Ed25519, as PEM or the path of a PEM file", false},
		{"IM_AUTH_JWKS_URL", "", text(&c.Auth.JWKSURL, "an https URL"), "address where the issuer of tokens publishes its keys (JWKS)", false},
		{"IM_AUTH_ISSUER", "", text(&c.Auth.Issuer, "text"), "issuer that every token must name", false},
		{"IM_AUTH_AUDIENCE", "", text(&c.Auth.Audience, "text"), "audience that every token must name", false},
		{"IM_ADMIN_TOKEN", "", text(&c.AdminToken, "text"), "token of the admin API; without one it is closed, except in the dev login", true},
	}
}

func keeping(c *config) []setting {
	return []setting{
		{"IM_STORE", "sqlite:impart-data/impart.db", storeReader(&c.Store), "where messages are kept: sqlite:PATH for one process, or postgres:// or mysql://ROLE:PASSWORD@HOST:PORT/DATABASE for any number of them", false},
		{"IM_LISTEN_STORE", "", storeReader(&c.ListenStore), "the PostgreSQL database's own address, for LISTEN, where IM_STORE leads through a pooler", false},
		{"IM_REDIS", "", redisReader(&c.Redis), "Redis that speeds things up, and that nothing depends on: redis://USER:PASSWORD@HOST:PORT/DB, rediss:// for TLS, with ?addr=HOST:PORT for more servers of a Cluster, or for Sentinels with &master_set=NAME; more parameters: sentinel_user, sentinel_password, tls_ca, tls_cert, tls_key, tls_name", false},
		{"IM_BUS", "auto", choice(&c.Bus, "auto", "local", "postgres", "redis"), "what carries wake-ups between the processes of one store: redis, postgres (LISTEN and NOTIFY), local (there is one process), or auto: redis with IM_REDIS, else as IM_STORE has it; the same for all", false},
		{"IM_REPLICATION", "none", choice(&c.Replication, "none", "sync"), "sync vouches that the database answers a commit only once a synchronous standby has it, so that a failover loses nothing", false},
		{"IM_RETENTION", "0", duration(&c.Retention, 0, 100*365*day), "age after which events are removed, such as 30d; 0 keeps them for ever", false},
		{"IM_DEDUP_RETENTION", "0", duration(&c.DedupRetention, 0, 100*365*day), "how long a retry is still known by its cmid, such as 90d; 0 is for ever", false},
		{"IM_ALLOW_UNSAFE_DURABILITY", "false", boolean(&c.AllowUnsafe), "start although the store is set so that a sent message can be lost", false},
	}
}

func limits(c *config) []setting {
	return []setting{
		{"IM_MAX_BODY", "65536", number(&c.MaxBody, 1, logic.HighestMaxBody), "largest body of a message, in bytes", false},
		{"IM_MAX_INFLIGHT", "1024", number(&c.MaxInflight, 1, 65536), "requests of one connection that may wait for their replies", false},
		{"IM_MAX_CONNS", "0", number(&c.MaxConns, 0, 10_000_000), "connections at once; 0 is as many as there are file descriptors for", false},
		{"IM_RATE_SEND", "10000", number(&c.RateSend, 0, 1_000_000), "messages a second that one user may send on average; 0 is no limit", false},
		{"IM_RATE_SEND_BURST", "20000", number(&c.RateBurst, 1, 1_000_000), "messages that one user may send at once", false},
		{"IM_RECALL_WINDOW", "24h", duration(&c.RecallWindow, 0, 100*365*day), "how long after it was sent a message may be recalled; 0 is for ever", false},
	}
}

func delivering(c *config) []setting {
	return []setting{
		{"IM_SWEEP_MS", "5000", millis(&c.Sweep, 10*time.Millisecond, 10*time.Minute), "how often the server looks for devices that lack something", false},
		{"IM_RETRY_MS", "1000,3000,7000,15000", ladder(&c.Retry), "four waits for an acknowledgement: before each of three retries, and before giving up", false},
		{"IM_HEARTBEAT_MS", "25000", millis(&c.Heartbeat, 100*time.Millisecond, 10*time.Minute), "how often a silent connection is asked whether it lives", false},
		{"IM_GATEWAY_ID", "", text(&c.GatewayID, "text"), "name of this process among others; made from the host name if not given", false},
		{"IM_LOG_LEVEL", "info", level(&c.LogLevel), "least level that is logged: debug, info, warn or error", false},
		{"IM_LOG_FORMAT", "auto", choice(&c.LogFormat, "auto", "text", "json"), "form of log lines: auto (coloured on a terminal, text elsewhere), text or json", false},
		{"IM_PPROF", "", text(&c.Pprof, "host:port on loopback"), "address for Go's profiles, on loopback only", false},
		{"IM_FAULT", "", text(&c.Fault, "point:action[:from:count]"), "faults to inject, only in a binary built with -tags fault", false},
	}
}
