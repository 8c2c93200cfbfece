package redis

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/impart-im/impart/internal/lab/authority"
	lab "github.com/impart-im/impart/internal/lab/redis"
)

// secureServer is a Redis with TLS whose certificate is for host.
func secureServer(t *testing.T, a *authority.Authority, host string) *lab.Server {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: needs Redis")
	}
	cert, key := a.Issue("server-"+host, host, time.Hour)
	server, err := lab.Start(t.Context(), lab.Options{Password: "open-sesame", TLS: lab.TLS{CA: a.File, Cert: cert, Key: key}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return server
}

func TestRedisByTLS(t *testing.T) {
	t.Parallel()
	ours, others := authority.New(t, "ours"), authority.New(t, "others")
	here, named := secureServer(t, ours, "127.0.0.1"), secureServer(t, ours, "redis.example")
	cert, key := ours.Issue("client", "client", time.Hour)
	theirCert, theirKey := others.Issue("client", "client", time.Hour)
	shown, theirs := "&tls_cert="+cert+"&tls_key="+key, "&tls_cert="+theirCert+"&tls_key="+theirKey
	for name, story := range map[string]struct {
		address string
		refusal string // "": they connect
	}{
		"both trust each other":              {here.TLSURL("tls_ca=" + ours.File + shown), ""},
		"the name that is asked for":         {named.TLSURL("tls_ca=" + ours.File + "&tls_name=redis.example" + shown), ""},
		"an authority that is another's":     {here.TLSURL("tls_ca=" + others.File + shown), "certificate signed by unknown authority"},
		"the machine's own authorities":      {here.TLSURL(shown[1:]), "certificate signed by unknown authority"},
		"a certificate for elsewhere":        {named.TLSURL("tls_ca=" + ours.File + shown), "127.0.0.1"},
		"a name that is another's":           {here.TLSURL("tls_ca=" + ours.File + "&tls_name=redis.example" + shown), "redis.example"},
		"no certificate of ours":             {here.TLSURL("tls_ca=" + ours.File), "certificate required"},
		"a certificate of another authority": {here.TLSURL("tls_ca=" + ours.File + theirs), "remote error: tls"},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := Inspect(t.Context(), story.address)
			if story.refusal == "" {
				if err != nil || !found.TLS {
					t.Fatalf("%+v: %v", found, err)
				}
				w := newWorld(t, story.address)
				set := w.set(w.client(), fresh("gw"), nil)
				if err := set.Register(t.Context(), entry("ana", "c", 1, 7)); err != nil {
					t.Error(err)
				}
				return
			}
			wantRefusal(t, err, story.refusal)
			_, err = Open(t.Context(), Config{URL: story.address})
			wantRefusal(t, err, story.refusal)
		})
	}
}

// Who took the wrong one of redis:// and rediss:// is asked about it, and nobody else.
func TestTheWrongSchemeIsAskedAbout(t *testing.T) {
	t.Parallel()
	ours := authority.New(t, "ours")
	server := secureServer(t, ours, "127.0.0.1")
	secure := server.TLSURL("tls_ca=" + ours.File)
	plainToSecure := strings.Replace(strings.Split(secure, "?")[0], "rediss://", "redis://", 1)
	secureToPlain := strings.Replace(server.URL(), "redis://", "rediss://", 1)
	nobody := "redis://127.0.0.1:1"
	for address, asks := range map[string]string{
		plainToSecure: "does it speak TLS? if so, use rediss://",
		secureToPlain: "does it speak TLS? if not, use redis://",
		nobody:        "",
		strings.Replace(nobody, "redis", "rediss", 1): "",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		_, err := Inspect(ctx, address)
		cancel()
		if err == nil || !strings.Contains(err.Error(), asks) || (asks == "") == strings.Contains(err.Error(), "speak TLS") {
			t.Errorf("%s: %v, want %q", address, err, asks)
		}
	}
}

func wantRefusal(t *testing.T, err error, says string) {
	t.Helper()
	var refusal RefusedError
	if !errors.As(err, &refusal) || !refusal.TLS || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "do not trust each other") {
		t.Errorf("%v, want a refusal with %q", err, says)
	}
	if err != nil && strings.Contains(err.Error(), "open-sesame") {
		t.Error("the password is shown")
	}
}

// The authority's file is read for each connection: exchanging it needs no restart.
func TestAChangedAuthorityIsReadByTheNextConnection(t *testing.T) {
	t.Parallel()
	ours := authority.New(t, "ours")
	server := secureServer(t, ours, "127.0.0.1")
	cert, key := ours.Issue("client", "client", time.Hour)
	kept, err := os.ReadFile(ours.File)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, server.TLSURL("tls_ca="+ours.File+"&tls_cert="+cert+"&tls_key="+key))
	c := w.client()
	until(t, "the first connection", func() bool { return c.Health() == nil })
	// The authority's file is exchanged for another's, and then put back.
	other, err := os.ReadFile(authority.New(t, "others").File)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		file  []byte
		works bool
	}{{other, false}, {kept, true}} {
		if err := os.WriteFile(ours.File, step.file, 0o600); err != nil {
			t.Fatal(err)
		}
		server.Kill()
		until(t, "the end of the connection", func() bool { return c.Health() != nil })
		if step.works {
			if err := server.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			until(t, "a connection with the file as it is now", func() bool { return c.Health() == nil })
			continue
		}
		// The server itself goes by the file too; what counts is what this side says.
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		until(t, "a refusal", func() bool { return distrusted(c.Health()) })
	}
}

// A certificate that has expired is renewed some day, by somebody else.
func TestAnExpiredCertificateOfRedisKeepsNobodyFromStarting(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: needs Redis")
	}
	ours := authority.New(t, "ours")
	cert, key := ours.Issue("server", "127.0.0.1", -time.Minute)
	server, err := lab.Start(t.Context(), lab.Options{TLS: lab.TLS{CA: ours.File, Cert: cert, Key: key}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	mine, mineKey := ours.Issue("client", "client", time.Hour)
	address := server.TLSURL("tls_ca=" + ours.File + "&tls_cert=" + mine + "&tls_key=" + mineKey)
	if c := newWorld(t, address).client(); c.Health() == nil {
		t.Error("an expired certificate is taken")
	}
	var refusal RefusedError
	if _, err := Inspect(t.Context(), address); err == nil || errors.As(err, &refusal) || !strings.Contains(err.Error(), "certificate has expired") {
		t.Errorf("the doctor is told %v", err)
	}
}

func TestAnAddressIsReadOrSaysWhyNot(t *testing.T) {
	ours := authority.New(t, "ours")
	cert, key := ours.Issue("client", "client", time.Hour)
	for address, want := range map[string]string{
		"redis://:hunter2@a/3":                         "",
		"redis://u:hunter2@a:1?addr=b:2&master_set=im": "",
		"redis://u:hunter2@a:1?addr=b:2&master_set=im&sentinel_user=s&sentinel_password=hunter2": "",
		"rediss://a?tls_ca=" + ours.File:                                  "",
		"rediss://a?tls_cert=" + cert + "&tls_key=" + key + "&tls_name=n": "",
		"rediss://:hunter2@a?tls_ca=/none":                                "tls_ca should be a PEM file with certificates: open /none",
		"rediss://:hunter2@a?tls_ca=" + key:                               "tls_ca should be a PEM file with certificates",
		"rediss://:hunter2@a?tls_cert=" + cert:                            "tls_cert and tls_key: both or none",
		"rediss://:hunter2@a?tls_cert=" + key + "&tls_key=" + cert:        "tls_cert and tls_key should be PEM files that belong together",
		"redis://:hunter2@a?tls_ca=" + ours.File:                          "tls_ca is for TLS; the address should begin with rediss://",
		"redis://:hunter2@a?sentinel_password=hunter2":                    "sentinel_password is for Sentinels; master_set",
		"redis://:hunter2@a?skip_verify=true":                             `"skip_verify" is no parameter of the address; there are addr, db,`,
		"redis://:hunter2@a?password=hunter2":                             `"password" is no parameter`,
		"http://:hunter2@a":                                               "the address cannot be read; it should be redis://",
		"redis://:hunter2#@a":                                             "the address cannot be read",
		"redis://:hunter2@a/x":                                            "the address cannot be read",
	} {
		_, err := ParseURL(address)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: shows the password: %v", address, err)
		}
	}
}

// The Sentinels' password is not their master's; who lacks it is told which it is.
func TestSentinelsMayAskForAPasswordOfTheirOwn(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: needs Redis")
	}
	t.Parallel()
	s, err := lab.StartSentinel(t.Context(), lab.SentinelOptions{Password: "open-sesame", SentinelPassword: "who-goes-there"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if found, err := Inspect(t.Context(), s.URL()); err != nil || found.Shape != "a master under Sentinels" {
		t.Errorf("%+v: %v", found, err)
	}
	for lacks, address := range map[string]string{
		"the Sentinels' password":        strings.Replace(s.URL(), "&sentinel_password=who-goes-there", "", 1),
		"the right one of the Sentinels": strings.Replace(s.URL(), "who-goes-there", "hunter2", 1),
		"the master's":                   strings.Replace(s.URL(), "open-sesame", "hunter2", 1),
	} {
		if address == s.URL() {
			t.Fatalf("%s is not in %s", lacks, address)
		}
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		_, err := Open(ctx, Config{URL: address})
		cancel()
		var refusal RefusedError
		if !errors.As(err, &refusal) || refusal.TLS || !strings.Contains(refusal.Advice(), "sentinel_password") {
			t.Errorf("without %s: %v", lacks, err)
		}
	}
}
