package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/impart-im/impart/internal/auth"
	"github.com/impart-im/impart/internal/fault"
)

// minSecret is the least length of a secret for HS256, in bytes (RFC 7518, 3.2).
const minSecret = 32

// minAdminToken is the least length of an admin token off loopback, in bytes.
const minAdminToken = 16

// validate gives every fault that one value alone does not show, each in one
// line that says which setting it is and what it should be.
func (c *config) validate() []error {
	var faults []error
	add := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.role != roleGateway {
		c.validateStore(add)
	}
	c.validateRedis(add)
	c.validateListening(add)
	c.validateHop(add)
	c.validateAuth(add)
	if err := fault.Check(c.Fault); err != nil {
		add("IM_FAULT (--fault): %w", err)
	}
	if c.Pprof != "" && !loopback(c.Pprof) {
		add("IM_PPROF (--pprof): %q should be host:port on loopback, such as 127.0.0.1:6060", c.Pprof)
	}
	if c.RateSend > c.RateBurst {
		add("IM_RATE_SEND_BURST (--rate-send-burst): %d should be at least IM_RATE_SEND, which is %d", c.RateBurst, c.RateSend)
	}
	return faults
}

func (c *config) validateStore(add func(string, ...any)) {
	if onServer(c.Store) {
		if fault := addressFault(c.Store); fault != "" {
			add("IM_STORE (--store): %s", fault)
		}
	}
	switch {
	case onMySQL(c.Store):
		c.validateNoListening(add, "with a MySQL store")
		return
	case onPostgres(c.Store):
		if c.ListenStore != "" {
			c.validateListenStore(add)
		}
		return
	}
	switch scheme, path, found := strings.Cut(c.Store, ":"); {
	case !found || scheme != "sqlite":
		// The rest of the address may hold a password and is not repeated.
		if !found {
			scheme = "the value"
		} else {
			scheme = fmt.Sprintf("%q", scheme)
		}
		add("IM_STORE (--store): %s is not a store of this version; it should be sqlite:PATH, such as sqlite:impart-data/impart.db, or postgres:// or mysql://ROLE:PASSWORD@HOST:PORT/DATABASE", scheme)
	case path == "" || strings.HasPrefix(path, ":memory:") || strings.ContainsAny(path, "?#\x00"):
		add("IM_STORE (--store): %q should be sqlite:PATH with the path of a file, such as sqlite:impart-data/impart.db", c.Store)
	}
	// One process has the file to itself: there is nobody to tell, and no replica.
	c.validateNoListening(add, "with a store in a file")
	if c.Replication == "sync" {
		add("IM_REPLICATION (--replication): sync needs IM_STORE=postgres://… or mysql://…; with a store in a file it should be none")
	}
}

// validateNoListening refuses what only PostgreSQL can do.
func (c *config) validateNoListening(add func(string, ...any), with string) {
	if c.Bus == "postgres" {
		add("IM_BUS (--bus): postgres needs IM_STORE=postgres://…; %s it should be auto or local", with)
	}
	if c.ListenStore != "" {
		add("IM_LISTEN_STORE (--listen-store): it needs IM_STORE=postgres://…; %s it should not be set", with)
	}
}

func (c *config) validateListenStore(add func(string, ...any)) {
	if !onPostgres(c.ListenStore) {
		add("IM_LISTEN_STORE (--listen-store): the value should be postgres://ROLE:PASSWORD@HOST:PORT/DATABASE, the database of IM_STORE without the pooler")
	} else if fault := addressFault(c.ListenStore); fault != "" {
		add("IM_LISTEN_STORE (--listen-store): %s", fault)
	}
	if c.Bus == "local" {
		add("IM_LISTEN_STORE (--listen-store): a local bus listens to no database; it should not be set, or IM_BUS should be auto")
	}
}

func (c *config) validateListening(add func(string, ...any)) {
	if (c.TLSCert == "") != (c.TLSKey == "") {
		add("IM_TLS_CERT and IM_TLS_KEY (--tls-cert, --tls-key): both or neither should be set")
	}
	if loopback(c.Listen) {
		return
	}
	if c.Auth.devLogin() && c.role != roleLogic {
		add("IM_LISTEN (--listen): %q should be on loopback, such as 127.0.0.1:8080, while anybody may sign in as anybody; "+
			"set IM_AUTH_HMAC_SECRET, IM_AUTH_PUBLIC_KEY or IM_AUTH_JWKS_URL to listen elsewhere", c.Listen)
		return
	}
	if c.TLSCert == "" && !c.AllowPlaintext {
		add("IM_LISTEN (--listen): %q should have IM_TLS_CERT and IM_TLS_KEY with it; "+
			"where a proxy in front ends TLS, set IM_ALLOW_PLAINTEXT=true", c.Listen)
	}
	if c.AdminToken != "" && len(c.AdminToken) < minAdminToken {
		add("IM_ADMIN_TOKEN (--admin-token): the value should be at least %d bytes off loopback", minAdminToken)
	}
}

func (c *config) validateAuth(add func(string, ...any)) {
	a := c.Auth
	const keys = "IM_AUTH_HMAC_SECRET, IM_AUTH_PUBLIC_KEY or IM_AUTH_JWKS_URL"
	if a.devLogin() && (a.Issuer != "" || a.Audience != "") {
		add("IM_AUTH_ISSUER and IM_AUTH_AUDIENCE (--auth-issuer, --auth-audience): should come with " + keys)
	}
	if count := countSet(a.HMACSecret, a.PublicKey, a.JWKSURL); count > 1 {
		add("IM_AUTH_…: %d kinds of keys are set; it should be one of "+keys, count)
	}
	if a.HMACSecret != "" && len(a.HMACSecret) < minSecret {
		add("IM_AUTH_HMAC_SECRET (--auth-hmac-secret): the value should be at least %d bytes of random text", minSecret)
	}
	if a.PublicKey != "" {
		key, err := publicKeyPEM(a.PublicKey)
		if err == nil {
			err = auth.Config{PublicKeyPEM: key}.Validate()
		}
		if err != nil {
			add("IM_AUTH_PUBLIC_KEY (--auth-public-key): the value should be PEM text, or the path of a PEM file: %w", err)
		}
	}
	if a.JWKSURL != "" {
		if err := (auth.Config{JWKSURL: a.JWKSURL}).Validate(); err != nil {
			add("IM_AUTH_JWKS_URL (--auth-jwks-url): the value should be an https URL: %w", err)
		}
	}
}

func countSet(values ...string) int {
	n := 0
	for _, v := range values {
		if v != "" {
			n++
		}
	}
	return n
}

// publicKeyPEM is the key itself, from PEM text or from a file; nil for "".
func publicKeyPEM(value string) ([]byte, error) {
	if value == "" {
		return nil, nil
	}
	if strings.Contains(value, "-----BEGIN") {
		return []byte(value), nil
	}
	return os.ReadFile(value)
}
