package auth

import (
	"net/http"
	"strings"

	"github.com/impart-im/impart"
)

// Bearer takes the token out of the Authorization header, the only place where
// one is taken from. UNAUTHENTICATED when there is none, or more than one.
func Bearer(r *http.Request) (string, error) {
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		return "", impart.Errorf(impart.Unauthenticated, "a token is needed: Authorization: Bearer TOKEN")
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	if len(values) > 1 || !ok || !strings.EqualFold(scheme, "Bearer") || strings.TrimSpace(token) == "" {
		return "", impart.Errorf(impart.Unauthenticated, "the Authorization header should be one: Bearer TOKEN")
	}
	return strings.TrimLeft(token, " "), nil
}

// tokenNames are query parameters that other systems carry tokens in.
var tokenNames = map[string]bool{
	"token": true, "access_token": true, "id_token": true, "auth": true, "authorization": true,
	"bearer": true, "jwt": true, "auth_token": true, "admin_token": true, "api_key": true, "apikey": true,
}

// TokenInURL is UNAUTHENTICATED when the query of r carries what looks like a
// token. Addresses are kept by logs, histories and proxies, so such a token must
// count as lost; it is refused even if it is good, for its sender to notice.
func TokenInURL(r *http.Request) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	for name, values := range r.URL.Query() {
		found := tokenNames[strings.ToLower(name)]
		for _, value := range values {
			found = found || looksLikeToken(value)
		}
		if found {
			return impart.Errorf(impart.Unauthenticated,
				"a token in the address is refused: send it as Authorization: Bearer TOKEN (over WebSocket in hello), and get a new one, since addresses are logged")
		}
	}
	return nil
}

func looksLikeToken(value string) bool {
	return strings.HasPrefix(value, DevPrefix) || strings.HasPrefix(value, "Bearer ") ||
		strings.HasPrefix(value, "eyJ") && strings.Count(value, ".") == 2
}
