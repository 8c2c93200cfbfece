package auth

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Origins are the origins, beside the server's own host, whose pages may call
// it: "https://chat.example.org", compared whole.
type Origins []string

// Validate names the first entry that is not an origin.
func (o Origins) Validate() error {
	for _, origin := range o {
		if canonical, ok := canonicalOrigin(origin); !ok || canonical == "" {
			return fmt.Errorf("auth: %q is not an origin; it should be like https://chat.example.org (no path, no wildcard)", origin)
		}
	}
	return nil
}

// Allow reports whether the page behind r may send it. A request without an
// Origin comes from no page and is allowed, unless the browser itself says that
// another site made it. Own is the scheme, host and port that r was sent to;
// behind a proxy that ends TLS the public origin has to be listed.
func (o Origins) Allow(r *http.Request) bool {
	values := r.Header.Values("Origin")
	switch len(values) {
	case 0:
		return r.Header.Get("Sec-Fetch-Site") != "cross-site" || navigation(r)
	case 1:
	default:
		return false
	}
	origin, ok := canonicalOrigin(values[0])
	if !ok {
		return false
	}
	return origin == ownOrigin(r) || o.Lists(values[0])
}

// Lists reports whether origin is one of the configured ones.
func (o Origins) Lists(origin string) bool {
	wanted, ok := canonicalOrigin(origin)
	if !ok {
		return false
	}
	for _, entry := range o {
		if listed, ok := canonicalOrigin(entry); ok && listed == wanted {
			return true
		}
	}
	return false
}

// navigation reports whether r is somebody following a link: a page to look at,
// which changes nothing and which no other page can read.
func navigation(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.Header.Get("Sec-Fetch-Mode") == "navigate"
}

func ownOrigin(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	own, _ := canonicalOrigin(scheme + "://" + r.Host)
	return own
}

// canonicalOrigin is an origin in lower case with its port written out. "null"
// and everything with more than scheme, host and port is not one.
func canonicalOrigin(text string) (string, bool) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.ForceQuery {
		return "", false
	}
	scheme, port := strings.ToLower(u.Scheme), u.Port()
	switch {
	case strings.HasSuffix(text, "#"), strings.ContainsAny(u.Hostname(), "* "):
		return "", false
	case scheme == "http" && port == "":
		port = "80"
	case scheme == "https" && port == "":
		port = "443"
	case scheme != "http" && scheme != "https":
		return "", false
	}
	return scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port), true
}

// LoopbackHost reports whether r names this machine as itself. In dev login
// nothing else is answered: a page that makes its own name point to 127.0.0.1
// (DNS rebinding) still sends that name as Host.
func LoopbackHost(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return loopbackName(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
}

// loopbackName reports whether a host name or address, without port and
// brackets, can only be this machine (RFC 6761 6.3).
func loopbackName(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().IsLoopback() && addr.Zone() == ""
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
