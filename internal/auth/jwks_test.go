package auth

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"

	"github.com/impart-im/impart"
)

const jwksURL = "https://id.example.org/jwks.json"

// issuer publishes keys without a network.
type issuer struct {
	mu      sync.Mutex
	down    bool
	answer  func(r *http.Request) (*http.Response, error) // instead of the keys
	keys    []jwkset.JWKMarshal
	fetches int
}

func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.fetches++
	if i.down {
		return nil, errors.New("connection refused")
	}
	if i.answer != nil {
		return i.answer(r)
	}
	text, err := json.Marshal(jwkset.JWKSMarshal{Keys: i.keys})
	return answer(r, http.StatusOK, string(text)), err
}

func answer(r *http.Request, status int, text string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text)), Request: r}
}

func (i *issuer) set(change func(*issuer)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change(i)
}

func (i *issuer) count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fetches
}

func jwk(t *testing.T, key any, kid string) jwkset.JWKMarshal {
	t.Helper()
	made, err := jwkset.NewJWKFromKey(key, jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: kid}})
	if err != nil {
		t.Fatal(err)
	}
	return made.Marshal()
}

// withIssuer runs a story in a bubble, where waiting takes no time.
func withIssuer(t *testing.T, i *issuer, story func(t *testing.T, v *Verifier)) {
	t.Helper()
	testKeys() // outside: it is slow, and the bubble's clock would not move meanwhile
	synctest.Test(t, func(t *testing.T) {
		v, err := New(t.Context(), Config{JWKSURL: jwksURL, Client: &http.Client{Transport: i}})
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		story(t, v)
	})
}

// fresh are claims that are good in a bubble, whose clock has its own time.
func fresh() jwt.MapClaims {
	return jwt.MapClaims{"sub": "u-ana", "exp": time.Now().Add(24 * time.Hour).Unix()}
}

func TestPublishedKeysCheckTokens(t *testing.T) {
	keys := testKeys()
	published := &issuer{keys: []jwkset.JWKMarshal{jwk(t, keys.rsa.Public(), "r1"), jwk(t, keys.ecdsa.Public(), "e1"), jwk(t, keys.ed25519.Public(), "d1")}}
	withIssuer(t, published, func(t *testing.T, v *Verifier) {
		kid := func(id string) map[string]any { return map[string]any{"kid": id} }
		wantUser(t, v, signed(t, jwt.SigningMethodRS256, keys.rsa, fresh(), kid("r1")), "u-ana")
		wantUser(t, v, signed(t, jwt.SigningMethodPS512, keys.rsa, fresh(), kid("r1")), "u-ana")
		wantUser(t, v, signed(t, jwt.SigningMethodES256, keys.ecdsa, fresh(), kid("e1")), "u-ana")
		wantUser(t, v, signed(t, jwt.SigningMethodEdDSA, keys.ed25519, fresh(), kid("d1")), "u-ana")
		wantUser(t, v, signed(t, jwt.SigningMethodRS256, keys.rsa, fresh(), nil), "u-ana")

		wantRefused(t, v, signed(t, jwt.SigningMethodRS256, keys.otherRSA, fresh(), kid("r1")), impart.Unauthenticated)
		wantRefused(t, v, signed(t, jwt.SigningMethodRS256, keys.otherRSA, fresh(), nil), impart.Unauthenticated)
		wantRefused(t, v, signed(t, jwt.SigningMethodRS256, keys.rsa, fresh(), kid("e1")), impart.Unauthenticated)
		wantRefused(t, v, signed(t, jwt.SigningMethodHS256, publicPEM(t, keys.rsa.Public()), fresh(), kid("r1")), impart.Unauthenticated)
		wantRefused(t, v, part(`{"alg":"none","kid":"r1"}`)+"."+part(`{"sub":"u-ana","exp":99999999999}`)+".", impart.Unauthenticated)
		if v.Ready() != nil {
			t.Errorf("not ready with keys at hand: %v", v.Ready())
		}
		if token, err := v.Mint("u-ana", time.Hour); err == nil {
			t.Errorf("made %q without a private key", token)
		}
	})
}

// Whoever can read a published secret can sign with it.
func TestPublishedSecretsAndEncryptionKeysCheckNothing(t *testing.T) {
	keys := testKeys()
	forEncryption := jwk(t, keys.rsa.Public(), "enc")
	forEncryption.USE = jwkset.UseEnc
	oct := jwkset.JWKMarshal{KTY: jwkset.KtyOct, KID: "oct", K: base64.RawURLEncoding.EncodeToString(secret)}
	withIssuer(t, &issuer{keys: []jwkset.JWKMarshal{oct, forEncryption}}, func(t *testing.T, v *Verifier) {
		wantRefused(t, v, signed(t, jwt.SigningMethodHS256, secret, fresh(), map[string]any{"kid": "oct"}), impart.Unauthenticated)
		wantRefused(t, v, signed(t, jwt.SigningMethodHS256, secret, fresh(), nil), impart.Unauthenticated)
		wantRefused(t, v, signed(t, jwt.SigningMethodRS256, keys.rsa, fresh(), map[string]any{"kid": "enc"}), impart.Unauthenticated)
		wantRefused(t, v, signed(t, jwt.SigningMethodRS256, keys.rsa, fresh(), nil), impart.Unauthenticated)
	})
}

func TestShortPublishedKeysCheckNothing(t *testing.T) {
	t.Setenv("GODEBUG", "rsa1024min=0")
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	withIssuer(t, &issuer{keys: []jwkset.JWKMarshal{jwk(t, short.Public(), "s")}}, func(t *testing.T, v *Verifier) {
		wantRefused(t, v, signed(t, jwt.SigningMethodRS256, short, fresh(), map[string]any{"kid": "s"}), impart.Unauthenticated)
		wantRefused(t, v, signed(t, jwt.SigningMethodRS256, short, fresh(), nil), impart.Unauthenticated)
	})
}

func TestAKeyThatIsNewIsFetchedAtOnce(t *testing.T) {
	keys := testKeys()
	published := &issuer{keys: []jwkset.JWKMarshal{jwk(t, keys.rsa.Public(), "old")}}
	withIssuer(t, published, func(t *testing.T, v *Verifier) {
		old := signed(t, jwt.SigningMethodRS256, keys.rsa, fresh(), map[string]any{"kid": "old"})
		wantUser(t, v, old, "u-ana")
		published.set(func(i *issuer) { i.keys = []jwkset.JWKMarshal{jwk(t, keys.otherRSA.Public(), "new")} })
		wantUser(t, v, signed(t, jwt.SigningMethodRS256, keys.otherRSA, fresh(), map[string]any{"kid": "new"}), "u-ana")
		wantRefused(t, v, old, impart.Unauthenticated) // withdrawn with the same fetch
	})
}

func TestAWithdrawnKeyEndsWithTheNextFetch(t *testing.T) {
	keys := testKeys()
	published := &issuer{keys: []jwkset.JWKMarshal{jwk(t, keys.rsa.Public(), "r"), jwk(t, keys.ecdsa.Public(), "e")}}
	withIssuer(t, published, func(t *testing.T, v *Verifier) {
		token := signed(t, jwt.SigningMethodRS256, keys.rsa, fresh(), map[string]any{"kid": "r"})
		wantUser(t, v, token, "u-ana")
		published.set(func(i *issuer) { i.keys = i.keys[1:] })
		<-time.After(jwksRefresh + time.Second)
		wantRefused(t, v, token, impart.Unauthenticated)
	})
}

// Unknown keys are asked for at a pace: a flood of them is no flood to the issuer.
func TestUnknownKeysDoNotFloodTheIssuer(t *testing.T) {
	keys := testKeys()
	published := &issuer{keys: []jwkset.JWKMarshal{jwk(t, keys.rsa.Public(), "r")}}
	withIssuer(t, published, func(t *testing.T, v *Verifier) {
		forged := signed(t, jwt.SigningMethodRS256, keys.otherRSA, fresh(), map[string]any{"kid": "no such key"})
		before := published.count()
		for range 50 {
			wantRefused(t, v, forged, impart.Unauthenticated)
		}
		if fetched := published.count() - before; fetched > 1 {
			t.Errorf("50 forged tokens caused %d fetches", fetched)
		}
		wantUser(t, v, signed(t, jwt.SigningMethodRS256, keys.rsa, fresh(), map[string]any{"kid": "r"}), "u-ana")
	})
}

func TestWhileTheIssuerIsDownNothingIsAcceptedUnchecked(t *testing.T) {
	keys := testKeys()
	for name, header := range map[string]map[string]any{"with kid": {"kid": "r"}, "without kid": nil} {
		t.Run(name, func(t *testing.T) {
			published := &issuer{down: true, keys: []jwkset.JWKMarshal{jwk(t, keys.rsa.Public(), "r")}}
			withIssuer(t, published, func(t *testing.T, v *Verifier) {
				good := signed(t, jwt.SigningMethodRS256, keys.rsa, fresh(), header)
				forged := signed(t, jwt.SigningMethodRS256, keys.otherRSA, fresh(), header)
				for range 3 {
					wantRefused(t, v, good, impart.Unavailable)
					wantRefused(t, v, forged, impart.Unavailable)
				}
				wantRefused(t, v, part(`{"alg":"none"}`)+"."+part(`{"sub":"u-ana","exp":99999999999}`)+".", impart.Unauthenticated)
				if v.Ready() == nil {
					t.Error("ready without a key")
				}
				published.set(func(i *issuer) { i.down = false })
				<-time.After(jwksAgain)
				wantUser(t, v, good, "u-ana")
				wantRefused(t, v, forged, impart.Unauthenticated)
				if v.Ready() != nil {
					t.Errorf("not ready: %v", v.Ready())
				}
			})
		})
	}
}

func TestAnIssuerThatGoesDownLaterLeavesTheKnownKeys(t *testing.T) {
	keys := testKeys()
	published := &issuer{keys: []jwkset.JWKMarshal{jwk(t, keys.rsa.Public(), "r")}}
	withIssuer(t, published, func(t *testing.T, v *Verifier) {
		published.set(func(i *issuer) { i.down = true })
		<-time.After(3 * jwksRefresh)
		wantUser(t, v, signed(t, jwt.SigningMethodRS256, keys.rsa, fresh(), map[string]any{"kid": "r"}), "u-ana")
		wantRefused(t, v, signed(t, jwt.SigningMethodRS256, keys.otherRSA, fresh(), map[string]any{"kid": "new"}), impart.Unavailable)
		if v.Ready() != nil {
			t.Errorf("keys are at hand, and not ready: %v", v.Ready())
		}
	})
}

func TestAnswersThatAreNoKeySet(t *testing.T) {
	keys := testKeys()
	for name, reply := range map[string]func(*http.Request) (*http.Response, error){
		"an error page": func(r *http.Request) (*http.Response, error) { return answer(r, 500, "<html>"), nil },
		"no JSON":       func(r *http.Request) (*http.Response, error) { return answer(r, 200, "<html>"), nil },
		"too large": func(r *http.Request) (*http.Response, error) {
			return answer(r, 200, `{"keys":[`+strings.Repeat(" ", maxJWKS)+`]}`), nil
		},
		"a redirect to plain http": func(r *http.Request) (*http.Response, error) {
			if r.URL.Scheme == "http" {
				panic("the redirect was followed")
			}
			resp := answer(r, 302, "")
			resp.Header.Set("Location", "http://id.example.org/jwks.json")
			return resp, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			withIssuer(t, &issuer{answer: reply}, func(t *testing.T, v *Verifier) {
				wantRefused(t, v, signed(t, jwt.SigningMethodRS256, keys.rsa, fresh(), map[string]any{"kid": "r"}), impart.Unavailable)
				if v.Ready() == nil {
					t.Error("ready without a key")
				}
			})
		})
	}
}
