package auth

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestOrigins(t *testing.T) {
	origins := Origins{"https://chat.example.org", "http://localhost:5173"}
	if err := origins.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, host string
		tls        bool
		origin     []string
		allowed    bool
	}{
		{"no page at all", "im.example.org", false, nil, true},
		{"own host", "im.example.org", false, []string{"http://im.example.org"}, true},
		{"own host, port written out", "im.example.org", false, []string{"http://im.example.org:80"}, true},
		{"own host with port", "127.0.0.1:8080", false, []string{"http://127.0.0.1:8080"}, true},
		{"own address, version 6", "[::1]:8080", false, []string{"http://[::1]:8080"}, true},
		{"own host, other case", "IM.example.org", false, []string{"http://im.Example.org"}, true},
		{"own host over TLS", "im.example.org", true, []string{"https://im.example.org"}, true},
		{"listed", "im.example.org", true, []string{"https://chat.example.org"}, true},
		{"listed, port written out", "im.example.org", true, []string{"https://chat.example.org:443"}, true},
		{"listed with port", "im.example.org", false, []string{"http://localhost:5173"}, true},

		{"foreign", "im.example.org", true, []string{"https://evil.example"}, false},
		{"null", "im.example.org", true, []string{"null"}, false},
		{"empty", "im.example.org", true, []string{""}, false},
		{"suffix", "im.example.org", true, []string{"https://evilim.example.org"}, false},
		{"suffix of a listed one", "im.example.org", true, []string{"https://evil-chat.example.org"}, false},
		{"prefix", "im.example.org", true, []string{"https://im.example.org.evil.example"}, false},
		{"prefix of a listed one", "im.example.org", true, []string{"https://chat.example.org.evil.example"}, false},
		{"subdomain", "im.example.org", true, []string{"https://a.im.example.org"}, false},
		{"own host, wrong scheme", "im.example.org", true, []string{"http://im.example.org"}, false},
		{"own host, wrong scheme the other way", "im.example.org", false, []string{"https://im.example.org"}, false},
		{"listed, wrong scheme", "im.example.org", true, []string{"http://chat.example.org"}, false},
		{"own host, wrong port", "127.0.0.1:8080", false, []string{"http://127.0.0.1:8081"}, false},
		{"own host, no port", "127.0.0.1:8080", false, []string{"http://127.0.0.1"}, false},
		{"listed, wrong port", "im.example.org", false, []string{"http://localhost:5174"}, false},
		{"user in front", "im.example.org", true, []string{"https://im.example.org@evil.example"}, false},
		{"path behind", "im.example.org", true, []string{"https://im.example.org/"}, false},
		{"two in one", "im.example.org", true, []string{"https://im.example.org https://evil.example"}, false},
		{"two headers", "im.example.org", true, []string{"https://im.example.org", "https://evil.example"}, false},
		{"another scheme", "im.example.org", true, []string{"chrome-extension://im.example.org"}, false},
		{"file", "im.example.org", true, []string{"file://"}, false},
		{"wildcard", "im.example.org", true, []string{"*"}, false},
		{"not even a name", "im.example.org", true, []string{"https://%zz"}, false},
		{"no host of its own", "", false, []string{"http://"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			r.Host = c.host
			if c.tls {
				r.TLS = &tls.ConnectionState{}
			}
			for _, origin := range c.origin {
				r.Header.Add("Origin", origin)
			}
			if got := origins.Allow(r); got != c.allowed {
				t.Errorf("allowed %v, want %v", got, c.allowed)
			}
		})
	}
}

// Browsers that leave Origin out still say that another site is behind a request.
func TestACrossSiteRequestWithoutOriginIsOnlyANavigation(t *testing.T) {
	for _, c := range []struct {
		name, method, site, mode string
		allowed                  bool
	}{
		{"no browser", http.MethodPost, "", "", true},
		{"typed address", http.MethodGet, "none", "navigate", true},
		{"own page", http.MethodPost, "same-origin", "cors", true},
		{"a link from elsewhere", http.MethodGet, "cross-site", "navigate", true},
		{"a form from elsewhere", http.MethodPost, "cross-site", "navigate", false},
		{"a picture elsewhere", http.MethodGet, "cross-site", "no-cors", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(c.method, "/", nil)
			r.Header.Set("Sec-Fetch-Site", c.site)
			r.Header.Set("Sec-Fetch-Mode", c.mode)
			if got := (Origins{}).Allow(r); got != c.allowed {
				t.Errorf("allowed %v, want %v", got, c.allowed)
			}
		})
	}
}

func TestWhatIsNotAnOrigin(t *testing.T) {
	for _, text := range []string{"*", "null", "", "chat.example.org", "https://*.example.org", "https://chat.example.org/", "ws://chat.example.org", "https://a b", "https://x#", "https://x?"} {
		if err := (Origins{"https://ok.example.org", text}).Validate(); err == nil {
			t.Errorf("%q was taken for an origin", text)
		}
	}
}

func TestLoopbackHost(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "localhost:8080": true, "LocalHost": true, "localhost.": true, "app.localhost:1": true,
		"127.0.0.1": true, "127.0.0.1:8080": true, "127.9.9.9": true, "[::1]": true, "[::1]:8080": true, "::1": true,
		"[::ffff:127.0.0.1]:1": true,

		"": false, "evil.example": false, "evil.example:8080": false, "127.0.0.1.evil.example": false, "localhost.evil.example": false,
		"evillocalhost": false, "0.0.0.0": false, "[::]:8080": false, "10.0.0.1": false, "192.168.1.2:80": false, "169.254.169.254": false,
		"2130706433": false, "127.1": false, "0x7f.0.0.1": false, "[::1%25eth0]:80": false, "localhost@evil.example": false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		if got := LoopbackHost(r); got != want {
			t.Errorf("%q: loopback %v, want %v", host, got, want)
		}
	}
}
