package pgdial

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// order is the hosts of a configuration in the order in which they are tried.
func order(cfg *pgconn.Config) (hosts []string) {
	for _, f := range append([]*pgconn.FallbackConfig{{Host: cfg.Host, Port: cfg.Port, TLSConfig: cfg.TLSConfig}}, cfg.Fallbacks...) {
		hosts = append(hosts, fmt.Sprintf("%s:%d tls=%v", f.Host, f.Port, f.TLSConfig != nil))
	}
	return hosts
}

func TestTheLastOneIsTriedFirst(t *testing.T) {
	const tls, plain = " tls=true", " tls=false"
	for _, c := range []struct {
		what, dsn, last string
		want            []string
	}{
		{"nothing was connected yet", "postgres://a,b:5433/im?sslmode=disable", "", []string{"a:5432" + plain, "b:5433" + plain}},
		{"the second one", "postgres://a,b:5433/im?sslmode=disable", "10.0.0.2:5433", []string{"b:5433" + plain, "a:5432" + plain}},
		{"its port is another's", "postgres://a,b:5433/im?sslmode=disable", "10.0.0.2:5432", []string{"a:5432" + plain, "b:5433" + plain}},
		{"two servers of one machine", "postgres://a:1,a:2,a:3/im?sslmode=disable", "10.0.0.1:2", []string{"a:2" + plain, "a:1" + plain, "a:3" + plain}},
		{"a name of several addresses", "postgres://a,many/im?sslmode=disable", "10.0.0.9:5432", []string{"many:5432" + plain, "a:5432" + plain}},
		{"with TLS before without, as it was", "postgres://a,b/im?sslmode=prefer", "10.0.0.2:5432", []string{"b:5432" + tls, "b:5432" + plain, "a:5432" + tls, "a:5432" + plain}},
		{"a socket in the file system", "host=a,/run/pg dbname=im sslmode=disable", "/run/pg/.s.PGSQL.5432", []string{"/run/pg:5432" + plain, "a:5432" + plain}},
	} {
		cfg, err := pgconn.ParseConfig(c.dsn)
		if err != nil {
			t.Fatal(err)
		}
		cfg.LookupFunc = func(_ context.Context, host string) ([]string, error) {
			return map[string][]string{"a": {"10.0.0.1"}, "b": {"10.0.0.2"}, "many": {"10.0.0.8", "10.0.0.9"}}[host], nil
		}
		h := &Hosts{last: c.last}
		h.Watch(cfg)
		for _, name := range []string{"a", "b", "many"} {
			if _, err := cfg.LookupFunc(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		h.Arrange(cfg)
		if got := order(cfg); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

func TestOneHostIsBounded(t *testing.T) {
	for dsn, want := range map[string]time.Duration{
		"postgres://a/im": Timeout, "postgres://a/im?connect_timeout=2": 2 * time.Second, "postgres://a/im?connect_timeout=60": Timeout,
	} {
		cfg, err := pgconn.ParseConfig(dsn)
		if err != nil {
			t.Fatal(err)
		}
		new(Hosts).Watch(cfg)
		if cfg.ConnectTimeout != want {
			t.Errorf("%s: %v, want %v", dsn, cfg.ConnectTimeout, want)
		}
	}
}
