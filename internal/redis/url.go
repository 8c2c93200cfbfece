package redis

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

// schemes of addresses, and whether their connections are TLS.
var schemes = map[string]bool{"redis": false, "rediss": true, "valkey": false, "valkeys": true}

// errAddress says what an address should be. It repeats nothing of the wrong one,
// which may hold a password.
var errAddress = errors.New("the address cannot be read; it should be redis://USER:PASSWORD@HOST:PORT/DB (rediss:// for TLS), with ?addr=HOST:PORT for each further server of a Cluster, " +
	"or those of Sentinels and &master_set=NAME; special characters in USER and PASSWORD as %23 for #")

// parameters of an address: of every one, of one with Sentinels, and of one with TLS.
var (
	parameters         = []string{"addr", "db", "master_set"}
	sentinelParameters = []string{"sentinel_user", "sentinel_password"}
	tlsParameters      = []string{"tls_ca", "tls_cert", "tls_key", "tls_name"}
)

// ParseURL reads the address of a Redis: redis://USER:PASSWORD@HOST:PORT/DB, rediss://
// for TLS; ?addr=HOST:PORT names more servers of a Cluster, which need not be all of
// them; with ?master_set=NAME the servers are Sentinels and NAME is their master, whose
// USER and PASSWORD stand in front, while theirs are sentinel_user and
// sentinel_password. With TLS tls_ca names the file of the authorities, tls_cert and
// tls_key those of the certificate that this process shows, and tls_name what the
// servers' certificates are for; the files are read here too, to see that they can be.
// No error has a password.
func ParseURL(address string) (rueidis.ClientOption, error) {
	opts, files, err := parse(address)
	if err == nil && opts.TLSConfig != nil {
		err = files.use(&opts)
	}
	return opts, err
}

// parse is [ParseURL] that reads no file.
func parse(address string) (opts rueidis.ClientOption, files tlsFiles, err error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Fragment != "" {
		return opts, files, errAddress
	}
	secure, known := schemes[u.Scheme]
	if !known {
		return opts, files, errAddress
	}
	if opts, err = rueidis.ParseURL(address); err != nil {
		return opts, files, errAddress
	}
	query := u.Query()
	if err := checkParameters(query, secure, opts.Sentinel.MasterSet != ""); err != nil {
		return opts, files, err
	}
	opts.Sentinel.Username, opts.Sentinel.Password = query.Get("sentinel_user"), query.Get("sentinel_password")
	files, err = tlsFilesOf(query)
	return opts, files, err
}

// checkParameters refuses those that nobody knows, or that have no effect: a password
// or an authority that is not asked for is a mistake.
func checkParameters(query url.Values, secure, sentinels bool) error {
	for name := range query {
		switch {
		case slices.Contains(parameters, name):
		case slices.Contains(sentinelParameters, name):
			if !sentinels {
				return fmt.Errorf("%s is for Sentinels; master_set, the name of their master, should be given with it", name)
			}
		case slices.Contains(tlsParameters, name):
			if !secure {
				return fmt.Errorf("%s is for TLS; the address should begin with rediss://", name)
			}
		default:
			return fmt.Errorf("%q is no parameter of the address; there are %s", name,
				strings.Join(slices.Concat(parameters, sentinelParameters, tlsParameters), ", "))
		}
	}
	return nil
}

// Database is the number of the database that an address names. Buses of two hear
// nothing of each other.
func Database(address string) int {
	opts, _, _ := parse(address)
	return opts.SelectDB
}

// Hosts are the servers that an address names, for people.
func Hosts(address string) string {
	opts, _, err := parse(address)
	if err != nil {
		return "redis"
	}
	hosts := strings.Join(opts.InitAddress, ", ")
	if opts.Sentinel.MasterSet != "" {
		return "the master " + opts.Sentinel.MasterSet + " of the Sentinels " + hosts
	}
	return hosts
}
