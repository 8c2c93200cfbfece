package redis

import (
	"errors"
	"net/url"
	"strings"

	"github.com/redis/rueidis"
)

// schemes of addresses, and whether their connections are TLS.
var schemes = map[string]bool{"redis": false, "rediss": true, "valkey": false, "valkeys": true}

// errAddress says what an address should be. It repeats nothing of the wrong one,
// which may hold a password.
var errAddress = errors.New("it should be redis://USER:PASSWORD@HOST:PORT/DB (rediss:// for TLS), with ?addr=HOST:PORT for each further server of a Cluster, " +
	"or those of Sentinels and &master_set=NAME; special characters in USER and PASSWORD as %23 for #")

// ParseURL reads the address of a Redis: redis://USER:PASSWORD@HOST:PORT/DB, rediss://
// for TLS; ?addr=HOST:PORT names more servers of a Cluster, which need not be all of
// them; with ?master_set=NAME the servers are Sentinels and NAME is their master.
func ParseURL(address string) (rueidis.ClientOption, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Fragment != "" {
		return rueidis.ClientOption{}, errAddress
	}
	if _, known := schemes[u.Scheme]; !known {
		return rueidis.ClientOption{}, errAddress
	}
	opts, err := rueidis.ParseURL(address)
	if err != nil {
		return rueidis.ClientOption{}, errAddress
	}
	return opts, nil
}

// Hosts are the servers that an address names, for people.
func Hosts(address string) string {
	opts, err := ParseURL(address)
	if err != nil {
		return "redis"
	}
	hosts := strings.Join(opts.InitAddress, ", ")
	if opts.Sentinel.MasterSet != "" {
		return "the master " + opts.Sentinel.MasterSet + " of the Sentinels " + hosts
	}
	return hosts
}
