package auth

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/impart-im/impart"
)

func TestTheTokenComesInOneHeader(t *testing.T) {
	for _, c := range []struct {
		values []string
		token  string // "": refused
	}{
		{[]string{"Bearer abc"}, "abc"},
		{[]string{"bearer abc"}, "abc"},
		{[]string{"Bearer  dev:a b"}, "dev:a b"},
		{nil, ""},
		{[]string{""}, ""},
		{[]string{"Bearer"}, ""},
		{[]string{"Bearer "}, ""},
		{[]string{"Basic abc"}, ""},
		{[]string{"abc"}, ""},
		{[]string{"Bearer a", "Bearer b"}, ""},
	} {
		r := httptest.NewRequest(http.MethodGet, "/?token=xyz", nil)
		r.Header["Authorization"] = c.values
		token, err := Bearer(r)
		if token != c.token || (err != nil) != (c.token == "") {
			t.Errorf("%q: got %q, %v", c.values, token, err)
		}
		if c.token == "" && impart.CodeOf(err) != impart.Unauthenticated {
			t.Errorf("%q: refused with %v", c.values, err)
		}
	}
}

func TestATokenInTheAddressIsRefused(t *testing.T) {
	for query, refused := range map[string]bool{
		"":                        false,
		"verbose":                 false,
		"user=u-ana&verbose=1":    false,
		"user=eyJ":                false,
		"token=abc":               true,
		"TOKEN=abc":               true,
		"token":                   true,
		"access_token=abc":        true,
		"%74oken=abc":             true,
		"a=1&jwt=x":               true,
		"x=dev:u-ana":             true,
		"x=dev%3Au-ana":           true,
		"x=eyJhbGciOi.eyJzdWI.Sg": true,
		"x=Bearer+abc":            true,
		"a=1&a=dev:u-ana":         true,
	} {
		r := httptest.NewRequest(http.MethodGet, "/?"+query, nil)
		err := TokenInURL(r)
		if (err != nil) != refused {
			t.Errorf("%q: %v", query, err)
		}
		if refused && (impart.CodeOf(err) != impart.Unauthenticated || strings.Contains(err.Error(), "abc")) {
			t.Errorf("%q: %v", query, err)
		}
	}
}
