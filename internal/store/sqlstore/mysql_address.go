package sqlstore

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/impart-im/impart/internal/pgdial"
)

// mysqlPort is the port of an address without one.
const mysqlPort = "3306"

// isMySQL reports whether a DSN is of this engine.
func isMySQL(kind string) bool { return kind == "mysql" }

// myAddress is what a DSN says.
type myAddress struct {
	hosts []string // of the servers, in the order in which they are tried
	cfg   *mysql.Config
	conns int // pool_max_conns, or 0
}

// parseMySQL reads mysql://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE. Its parameters
// are ssl-mode (DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY), ssl-ca
// (a PEM file), connect_timeout (seconds), pool_max_conns, and socket (the path of a
// Unix socket, instead of hosts). An error does not repeat the password.
func parseMySQL(dsn string) (*myAddress, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, errors.New("store: the address cannot be read; it should be mysql://USER:PASSWORD@HOST:PORT/DATABASE")
	}
	cfg := mysql.NewConfig()
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.DBName = strings.Trim(u.Path, "/")
	cfg.Timeout = pgdial.Timeout
	cfg.MultiStatements = true
	cfg.ClientFoundRows = true // an UPDATE counts what it finds, also where nothing changes
	cfg.Logger = &mysql.NopLogger{}
	a := &myAddress{cfg: cfg}
	for host := range strings.SplitSeq(u.Host, ",") {
		if _, _, err := net.SplitHostPort(host); err != nil && host != "" {
			host = net.JoinHostPort(strings.Trim(host, "[]"), mysqlPort)
		}
		if host != "" {
			a.hosts = append(a.hosts, host)
		}
	}
	if err := a.parameters(u.Query()); err != nil {
		return nil, err
	}
	if len(a.hosts) == 0 {
		return nil, errors.New("store: the address names no host; it should be mysql://USER:PASSWORD@HOST:PORT/DATABASE")
	}
	if cfg.DBName == "" {
		return nil, errors.New("store: the address names no database; it should be mysql://USER:PASSWORD@HOST:PORT/DATABASE")
	}
	return a, nil
}

func (a *myAddress) parameters(query url.Values) error {
	cfg := a.cfg
	mode, ca := "", ""
	for name := range query {
		value := query.Get(name)
		switch name {
		case "ssl-mode":
			mode = strings.ToUpper(value)
		case "ssl-ca":
			ca = value
		case "socket":
			a.hosts, cfg.Net = []string{value}, "unix"
		case "connect_timeout", "pool_max_conns":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > 10_000 {
				return fmt.Errorf("store: the address has %s=%s, which should be a number from 1 to 10000", name, value)
			}
			if name == "pool_max_conns" {
				a.conns = n
			} else {
				cfg.Timeout = time.Duration(n) * time.Second
			}
		default:
			return fmt.Errorf("store: the address has the parameter %q; known are ssl-mode, ssl-ca, socket, connect_timeout and pool_max_conns", name)
		}
	}
	if cfg.Net == "" {
		cfg.Net = "tcp"
	}
	return encrypt(cfg, mode, ca)
}

// encrypt sets what TLS is asked for.
func encrypt(cfg *mysql.Config, mode, ca string) error {
	if mode == "" && ca != "" {
		mode = "VERIFY_IDENTITY"
	}
	switch mode {
	case "", "PREFERRED":
		cfg.TLSConfig = "preferred"
		return nil
	case "DISABLED":
		return nil
	case "REQUIRED":
		cfg.TLSConfig = "skip-verify"
		return nil
	case "VERIFY_CA", "VERIFY_IDENTITY":
	default:
		return fmt.Errorf("store: the address has ssl-mode=%s; it should be DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY", mode)
	}
	cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return fmt.Errorf("store: the address names an ssl-ca that cannot be read: %w", err)
		}
		cfg.TLS.RootCAs = x509.NewCertPool()
		if !cfg.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("store: the address names an ssl-ca without a certificate: %s", ca)
		}
	}
	if mode == "VERIFY_CA" {
		verifyChain(cfg.TLS)
	}
	return nil
}

// verifyChain has a certificate verified, and not the name in it.
func verifyChain(cfg *tls.Config) {
	cfg.InsecureSkipVerify = true
	cfg.VerifyConnection = func(state tls.ConnectionState) error {
		options := x509.VerifyOptions{Roots: cfg.RootCAs, Intermediates: x509.NewCertPool()}
		for _, cert := range state.PeerCertificates[1:] {
			options.Intermediates.AddCert(cert)
		}
		_, err := state.PeerCertificates[0].Verify(options)
		return err
	}
}
