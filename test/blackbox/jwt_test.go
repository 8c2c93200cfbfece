package blackbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"hash"
	"testing"
	"time"
)

// secret is the HMAC key of the servers in these tests: long enough for HS256 and plain ASCII.
const secret = "0f4e1c9a7b3d5e6f8091a2b3c4d5e6f70123456789abcdef0123456789abcdef"

// token signs claims by hand: a library would refuse to make most of what must be refused.
func token(t testing.TB, header, claims F, key string) string {
	t.Helper()
	part := func(v F) string {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	signed := part(header) + "." + part(claims)
	if key == "" {
		return signed + "."
	}
	algorithms := map[any]func() hash.Hash{"HS384": sha512.New384, "HS512": sha512.New}
	algorithm := algorithms[header["alg"]]
	if algorithm == nil {
		algorithm = sha256.New
	}
	mac := hmac.New(algorithm, []byte(key))
	mac.Write([]byte(signed))
	return signed + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// goodToken is one that a server with the secret accepts for user.
func goodToken(t testing.TB, user string, lives time.Duration) string {
	t.Helper()
	now := time.Now()
	return token(t, F{"alg": "HS256", "typ": "JWT"}, F{"sub": user, "iat": now.Unix(), "exp": now.Add(lives).Unix()}, secret)
}
