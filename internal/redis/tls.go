package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// tlsFiles are what a connection by TLS rests on, as an address names it. The files are
// read for each connection, so that renewed ones need no restart.
type tlsFiles struct {
	ca        string // PEM; "": the authorities of this machine
	cert, key string // PEM; "": this process shows no certificate
	name      string // in the certificate of every server; "": the host that is dialled
}

// tlsFilesOf reads them from the parameters of an address.
func tlsFilesOf(query url.Values) (f tlsFiles, err error) {
	f = tlsFiles{query.Get("tls_ca"), query.Get("tls_cert"), query.Get("tls_key"), query.Get("tls_name")}
	if (f.cert == "") != (f.key == "") {
		err = errors.New("tls_cert and tls_key: both or none should be given")
	}
	return f, err
}

// config reads the files.
func (f tlsFiles) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.name}
	if f.ca != "" {
		text, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, fmt.Errorf("tls_ca should be a PEM file with certificates: %w", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("tls_ca should be a PEM file with certificates: %s holds none", f.ca)
		}
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, fmt.Errorf("tls_cert and tls_key should be PEM files that belong together: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// use makes every connection one by TLS, also those to Sentinels.
func (f tlsFiles) use(opts *rueidis.ClientOption) error {
	config, err := f.config()
	if err != nil {
		return err
	}
	opts.TLSConfig = config // says which of their ports the servers of a Cluster name
	opts.DialCtxFn = func(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
		now, err := f.config()
		if err != nil {
			return nil, err
		}
		secure := tls.Dialer{NetDialer: dialer, Config: now}
		nc, err := secure.DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		return tellingConn{nc}, nil
	}
	return nil
}

// remoteAlert begins what the other side of a TLS connection says of a refusal.
const remoteAlert = "remote error: tls: "

// tellingConn says why a server ended the connection. In TLS 1.3 it refuses a
// certificate after the handshake, and what is written then meets a closed socket,
// while the reason lies unread.
type tellingConn struct{ net.Conn }

// Write fails with the reason, if there is one.
func (c tellingConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err == nil {
		return n, nil
	}
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, told := c.Read(make([]byte, 1)); told != nil && strings.Contains(told.Error(), remoteAlert) {
		err = told
	}
	return n, err
}

// distrusted reports whether one side does not take the other's certificate, which
// waiting does not mend. One that has expired, or is not valid yet, is not among those.
func distrusted(err error) bool {
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		return false
	}
	var unknown *tls.CertificateVerificationError
	return errors.As(err, &unknown) || err != nil && strings.Contains(err.Error(), remoteAlert)
}
