package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const goodSecret = "0123456789abcdef0123456789abcdef"

func faultsOf(t *testing.T, variables map[string]string) string {
	t.Helper()
	var lines []string
	for _, fault := range (world{variables}).mustRead(t).config.validate() {
		lines = append(lines, fault.Error())
	}
	return strings.Join(lines, "\n")
}

func TestRulesAcrossSettings(t *testing.T) {
	type vars map[string]string
	cases := map[string]struct {
		set  vars
		want string // "" is no fault
	}{
		"nothing set":              {vars{}, ""},
		"all addresses, dev login": {vars{"IM_LISTEN": ":8080"}, "IM_LISTEN"},
		"a host name, dev login":   {vars{"IM_LISTEN": "chat.example:8080"}, "IM_LISTEN"},
		"dev login and plaintext":  {vars{"IM_LISTEN": "0.0.0.0:8080", "IM_ALLOW_PLAINTEXT": "true"}, "IM_AUTH_HMAC_SECRET"},
		"IPv6 loopback":            {vars{"IM_LISTEN": "[::1]:8080"}, ""},
		"localhost":                {vars{"IM_LISTEN": "localhost:0"}, ""},
		"plain off loopback":       {vars{"IM_LISTEN": ":8080", "IM_AUTH_HMAC_SECRET": goodSecret}, "IM_ALLOW_PLAINTEXT"},
		"behind a proxy":           {vars{"IM_LISTEN": ":8080", "IM_AUTH_HMAC_SECRET": goodSecret, "IM_ALLOW_PLAINTEXT": "true"}, ""},
		"short admin token":        {vars{"IM_LISTEN": ":8080", "IM_AUTH_HMAC_SECRET": goodSecret, "IM_ALLOW_PLAINTEXT": "true", "IM_ADMIN_TOKEN": "short"}, "IM_ADMIN_TOKEN"},
		"half of TLS":              {vars{"IM_TLS_CERT": "c.pem"}, "IM_TLS_KEY"},
		"short secret":             {vars{"IM_AUTH_HMAC_SECRET": "short"}, "at least 32 bytes"},
		"two keys":                 {vars{"IM_AUTH_HMAC_SECRET": goodSecret, "IM_AUTH_JWKS_URL": "https://i.example/k"}, "2 kinds of keys"},
		"issuer without a key":     {vars{"IM_AUTH_ISSUER": "i"}, "IM_AUTH_ISSUER"},
		"key file missing":         {vars{"IM_AUTH_PUBLIC_KEY": "/does/not/exist.pem"}, "IM_AUTH_PUBLIC_KEY"},
		"not a key":                {vars{"IM_AUTH_PUBLIC_KEY": "-----BEGIN NOTHING-----"}, "IM_AUTH_PUBLIC_KEY"},
		"keys over plain http":     {vars{"IM_AUTH_JWKS_URL": "http://i.example/k"}, "IM_AUTH_JWKS_URL"},
		"keys over http, loopback": {vars{"IM_AUTH_JWKS_URL": "http://127.0.0.1:1/k"}, ""},
		"another database":         {vars{"IM_STORE": "oracle://u:hunter2@db/x"}, `"oracle" is not a store of this version; it should be sqlite:PATH`},
		"PostgreSQL":               {vars{"IM_STORE": "postgres://u:hunter2@db/x"}, ""},
		"MySQL":                    {vars{"IM_STORE": "mysql://u:hunter2@db/x?ssl-mode=VERIFY_IDENTITY"}, ""},
		"MySQL by a socket":        {vars{"IM_STORE": "mysql://u@/x?socket=/run/mysqld/mysqld.sock"}, ""},
		"MySQL without a host":     {vars{"IM_STORE": "mysql://u:hunter2@/x"}, "names no host"},
		"MySQL listens to nothing": {vars{"IM_STORE": "mysql://u:hunter2@db/x", "IM_BUS": "postgres"}, "IM_BUS"},
		"MySQL and LISTEN":         {vars{"IM_STORE": "mysql://u:hunter2@db/x", "IM_LISTEN_STORE": "postgres://u@db/x"}, "IM_LISTEN_STORE"},
		"PostgreSQL by a socket":   {vars{"IM_STORE": "postgresql://u@/x?host=/run/postgresql"}, ""},
		"several hosts":            {vars{"IM_STORE": "postgres://u:hunter2@a:5432,b:5433/x?target_session_attrs=read-write"}, ""},
		"no database":              {vars{"IM_STORE": "postgres://u:hunter2@db"}, "names no database"},
		"no host":                  {vars{"IM_STORE": "postgres://u:hunter2@/x"}, "names no host"},
		"no role":                  {vars{"IM_STORE": "postgres://db/x"}, "names no role"},
		"a # in the password":      {vars{"IM_STORE": "postgres://u:hunter2#3@db/x"}, "%23 for #"},
		"a keyword DSN":            {vars{"IM_STORE": "host=db password=hunter2"}, "is not a store of this version"},
		"postgres without slashes": {vars{"IM_STORE": "postgres:hunter2"}, "IM_STORE"},
		"LISTEN past the pooler":   {vars{"IM_STORE": "postgres://u@pool/x", "IM_LISTEN_STORE": "postgres://u:hunter2@db/x"}, ""},
		"LISTEN at a file":         {vars{"IM_LISTEN_STORE": "postgres://u:hunter2@db/x"}, "IM_LISTEN_STORE"},
		"LISTEN elsewhere":         {vars{"IM_STORE": "postgres://u@pool/x", "IM_LISTEN_STORE": "redis://u:hunter2@db"}, "IM_LISTEN_STORE"},
		"LISTEN for nobody":        {vars{"IM_STORE": "postgres://u@pool/x", "IM_LISTEN_STORE": "postgres://u@db/x", "IM_BUS": "local"}, "IM_LISTEN_STORE"},
		"a bus without a database": {vars{"IM_BUS": "postgres"}, "IM_BUS"},
		"a bus without a Redis":    {vars{"IM_BUS": "redis"}, "IM_BUS"},
		"a bus over Redis":         {vars{"IM_BUS": "redis", "IM_REDIS": "redis://r:6379"}, ""},
		"a bad address of a Redis": {vars{"IM_REDIS": "r:6379"}, "IM_REDIS"},
		"a local bus, one process": {vars{"IM_STORE": "postgres://u@db/x", "IM_BUS": "local"}, ""},
		"a file with a standby":    {vars{"IM_REPLICATION": "sync"}, "IM_REPLICATION"},
		"no scheme":                {vars{"IM_STORE": "impart.db"}, "sqlite:PATH"},
		"no path":                  {vars{"IM_STORE": "sqlite:"}, "the path of a file"},
		"memory":                   {vars{"IM_STORE": "sqlite::memory:"}, "the path of a file"},
		"pragmas smuggled in":      {vars{"IM_STORE": "sqlite:x.db?_pragma=synchronous(0)"}, "the path of a file"},
		"profiles off loopback":    {vars{"IM_PPROF": ":6060"}, "IM_PPROF"},
		"burst under rate":         {vars{"IM_RATE_SEND": "100", "IM_RATE_SEND_BURST": "10"}, "IM_RATE_SEND_BURST"},
		"no rate limit, any burst": {vars{"IM_RATE_SEND": "0", "IM_RATE_SEND_BURST": "1"}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := faultsOf(t, c.set)
			if c.want == "" && got != "" {
				t.Errorf("is refused: %s", got)
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("says %q, want %q", got, c.want)
			}
			if strings.Contains(got, "hunter2") {
				t.Errorf("shows a password: %s", got)
			}
		})
	}
}

func TestAPublicKeyIsTextOrAFile(t *testing.T) {
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	file := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{text, file} {
		if got := faultsOf(t, map[string]string{"IM_AUTH_PUBLIC_KEY": value}); got != "" {
			t.Errorf("%.20q is refused: %s", value, got)
		}
	}
}
