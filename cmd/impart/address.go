package main

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// onPostgres reports whether the address of a store is that of a PostgreSQL
// database.
func onPostgres(address string) bool {
	scheme, _, _ := strings.Cut(address, ":")
	return scheme == "postgres" || scheme == "postgresql"
}

// onMySQL reports whether the address of a store is that of a database of MariaDB, of
// MySQL, or of what speaks their protocol.
func onMySQL(address string) bool { return strings.HasPrefix(address, "mysql:") }

// onServer reports whether the address of a store is that of a database server, which
// other nodes may serve too.
func onServer(address string) bool { return onPostgres(address) || onMySQL(address) }

// storeReader reads the address of a store, which may hold a password.
func storeReader(field *string) reader {
	r := text(field, "sqlite:PATH, postgres://… or mysql://…")
	r.kind = addressKind
	return r
}

// addressKind is the kind of settings that are shown without their passwords.
const addressKind = "address"

// secretParameters are the parameters of a database's address that nobody else
// should see.
var secretParameters = []string{"password", "sslpassword", "sentinel_password"}

// hiddenSecret stands where a password was.
const hiddenSecret = "xxxxx"

// shownStore is the address of a store as it may be printed: without passwords.
func shownStore(address string) string {
	scheme, _, isURL := strings.Cut(address, "://")
	if !isURL {
		if onServer(address) || strings.ContainsAny(address, "@=") {
			return "(hidden, as it is no address)"
		}
		return address
	}
	u, err := url.Parse(address)
	if err != nil {
		return scheme + "://(hidden, as it is no address)"
	}
	if _, set := u.User.Password(); set {
		u.User = url.UserPassword(u.User.Username(), hiddenSecret)
	}
	query := u.Query()
	for _, name := range secretParameters {
		if query.Has(name) {
			query.Set(name, hiddenSecret)
			u.RawQuery = query.Encode()
		}
	}
	// What follows a # most likely is the rest of a password.
	u.Fragment, u.RawFragment = "", ""
	return u.String()
}

// addressFault says what is wrong with the address of a database, "" if nothing is.
// It repeats nothing of the address.
func addressFault(address string) string {
	want, socket := "it should be postgres://ROLE:PASSWORD@HOST:PORT/DATABASE", "host"
	if onMySQL(address) {
		want, socket = "it should be mysql://USER:PASSWORD@HOST:PORT/DATABASE", "socket"
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Fragment != "" || u.Opaque != "":
		return "the address cannot be read; " + want + ", with special characters in ROLE and PASSWORD as %23 for #"
	case u.User.Username() == "":
		return "the address names no role; " + want
	case u.Host == "" && u.Query().Get(socket) == "":
		return "the address names no host; " + want + ", or …@/DATABASE?" + socket + "=PATH for a socket"
	case strings.Trim(u.Path, "/") == "":
		return "the address names no database; " + want
	}
	return ""
}

// databaseHosts are where a database may be, for people.
func databaseHosts(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the database"
	}
	if u.Host == "" {
		return u.Query().Get("host") + u.Query().Get("socket")
	}
	return u.Host
}

// openWay reports whether the way to a database leads over a network on which it
// may be read or led elsewhere.
func openWay(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	if mode := u.Query().Get("sslmode"); mode == "verify-full" || mode == "verify-ca" {
		return false
	}
	if mode := strings.ToUpper(u.Query().Get("ssl-mode")); mode == "VERIFY_CA" || mode == "VERIFY_IDENTITY" || mode == "" && u.Query().Has("ssl-ca") {
		return false
	}
	for host := range strings.SplitSeq(u.Host, ",") {
		name := host
		if h, _, err := net.SplitHostPort(host); err == nil {
			name = h
		}
		ip, err := netip.ParseAddr(strings.Trim(name, "[]"))
		if name != "" && name != "localhost" && (err != nil || !ip.IsLoopback()) {
			return true
		}
	}
	return false
}
