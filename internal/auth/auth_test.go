package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/goleak"

	"github.com/impart-im/impart"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noon is the time at which the tests' tokens are judged.
var noon = time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)

var secret = []byte("0123456789abcdef0123456789abcdef")

// testKeys makes the slow keys once.
var testKeys = sync.OnceValue(func() (keys struct {
	rsa, otherRSA *rsa.PrivateKey
	ecdsa         *ecdsa.PrivateKey
	ed25519       ed25519.PrivateKey
}) {
	keys.rsa, _ = rsa.GenerateKey(rand.Reader, 2048)
	keys.otherRSA, _ = rsa.GenerateKey(rand.Reader, 2048)
	keys.ecdsa, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, keys.ed25519, _ = ed25519.GenerateKey(rand.Reader)
	return keys
})

func publicPEM(t *testing.T, key crypto.PublicKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func newVerifier(t *testing.T, config Config) *Verifier {
	t.Helper()
	if config.Now == nil {
		config.Now = func() time.Time { return noon }
	}
	v, err := New(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

// good are claims that every verifier of these tests accepts.
func good() jwt.MapClaims {
	return jwt.MapClaims{"sub": "u-ana", "iat": noon.Unix(), "exp": noon.Add(time.Hour).Unix()}
}

// with is good with some claims changed; nil removes one.
func with(changes jwt.MapClaims) jwt.MapClaims {
	claims := good()
	for name, value := range changes {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	return claims
}

func signed(t *testing.T, method jwt.SigningMethod, key any, claims jwt.Claims, header map[string]any) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	for name, value := range header {
		token.Header[name] = value
	}
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// signedText signs claims that no Go value would be written as.
func signedText(t *testing.T, claims string) string {
	t.Helper()
	text := part(`{"alg":"HS256"}`) + "." + part(claims)
	signature, err := jwt.SigningMethodHS256.Sign(text, secret)
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// loosened changes the two bits of the last letter that carry no byte: the same
// token in another spelling, of which there must not be any.
func loosened(token string) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(letters, token[len(token)-1])
	return token[:len(token)-1] + string(letters[last^1])
}

func part(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func wantRefused(t *testing.T, v *Verifier, token string, code impart.Code) {
	t.Helper()
	identity, err := v.Verify(t.Context(), token)
	if impart.CodeOf(err) != code {
		t.Fatalf("got (%+v, %v), want %s", identity, err, code)
	}
	if identity != (impart.Identity{}) {
		t.Errorf("a refused token still gave %+v", identity)
	}
	message := impart.AsError(err).Message
	for _, piece := range strings.Split(token, ".") {
		if len(piece) > 12 && strings.Contains(err.Error(), piece) {
			t.Errorf("the error repeats a part of the token: %v", err)
		}
	}
	if strings.Contains(message, "u-ana") || strings.Contains(message, "u-eve") {
		t.Errorf("the message tells what the token holds: %s", message)
	}
}

func wantUser(t *testing.T, v *Verifier, token, user string) impart.Identity {
	t.Helper()
	identity, err := v.Verify(t.Context(), token)
	if err != nil {
		t.Fatalf("refused: %v", err)
	}
	if identity.User != impart.UserID(user) {
		t.Fatalf("token of %q, want %q", identity.User, user)
	}
	return identity
}

func TestDevLoginTakesPeopleAtTheirWord(t *testing.T) {
	v := newVerifier(t, Config{})
	if !v.Dev() || v.Ready() != nil {
		t.Fatal("the zero configuration is the dev login, and needs nothing")
	}
	for _, user := range []string{"u-ana", "安娜", "a b", "dev:x", "a/b%2F"} {
		wantUser(t, v, "dev:"+user, user)
	}
	for _, token := range []string{
		"", "u-ana", "dev:", "DEV:u-ana", "dev:system", "dev:.", "dev:..", "dev:a\nb", "dev:a\x7fb", "dev:\u0085",
		"dev:\xff", "dev:" + strings.Repeat("a", impart.MaxID+1), strings.Repeat("x", maxToken+1),
		signed(t, jwt.SigningMethodHS256, secret, good(), nil),
	} {
		wantRefused(t, v, token, impart.Unauthenticated)
	}
}

func TestDevTokensOpenNothingOnceAKeyIsSet(t *testing.T) {
	v := newVerifier(t, Config{HMACSecret: secret})
	if v.Dev() {
		t.Fatal("a secret is set, and still dev login")
	}
	wantRefused(t, v, "dev:u-ana", impart.Unauthenticated)
}

func TestTheTokenSaysWhoAndHowLong(t *testing.T) {
	v := newVerifier(t, Config{HMACSecret: secret, Leeway: 10 * time.Second})
	for _, method := range []jwt.SigningMethod{jwt.SigningMethodHS256, jwt.SigningMethodHS384, jwt.SigningMethodHS512} {
		identity := wantUser(t, v, signed(t, method, secret, good(), nil), "u-ana")
		if identity.Issued != impart.Millis(noon.UnixMilli()) {
			t.Errorf("issued %d, want noon", identity.Issued)
		}
		if want := impart.Millis(noon.Add(time.Hour + 10*time.Second).UnixMilli()); identity.Expires != want {
			t.Errorf("expires %d, want %d: an hour and the leeway later", identity.Expires, want)
		}
	}
	if identity := wantUser(t, v, signed(t, jwt.SigningMethodHS256, secret, with(jwt.MapClaims{"iat": nil}), nil), "u-ana"); identity.Issued != 0 {
		t.Errorf("issued %d by a token that does not say", identity.Issued)
	}
	fraction := signedText(t, fmt.Sprintf(`{"sub":"u-ana","iat":%d.25,"exp":%d.5}`, noon.Unix()-1, noon.Unix()+60))
	if identity := wantUser(t, v, fraction, "u-ana"); identity.Issued != impart.Millis(noon.UnixMilli()-750) {
		t.Errorf("issued %d: the fraction of a second is lost", identity.Issued)
	}
}

func TestForgedAndStaleTokens(t *testing.T) {
	v := newVerifier(t, Config{HMACSecret: secret, Issuer: "https://id.example.org", Audience: "impart"})
	sign := func(claims jwt.MapClaims) string {
		all := with(jwt.MapClaims{"iss": "https://id.example.org", "aud": "impart"})
		for name, value := range claims {
			if all[name] = value; value == nil {
				delete(all, name)
			}
		}
		return signed(t, jwt.SigningMethodHS256, secret, all, nil)
	}
	wantUser(t, v, sign(nil), "u-ana")
	wantUser(t, v, sign(jwt.MapClaims{"aud": []string{"other", "impart"}}), "u-ana")

	pieces := strings.Split(sign(nil), ".")
	other := strings.Split(sign(jwt.MapClaims{"sub": "u-eve"}), ".")
	hour := time.Hour
	for name, token := range map[string]string{
		"no signature":           pieces[0] + "." + pieces[1] + ".",
		"two parts":              pieces[0] + "." + pieces[1],
		"four parts":             sign(nil) + ".x",
		"another's claims":       pieces[0] + "." + other[1] + "." + pieces[2],
		"padding":                sign(nil) + "=",
		"loose bits at the end":  loosened(sign(nil)),
		"a space behind":         sign(nil) + " ",
		"wrong secret":           signed(t, jwt.SigningMethodHS256, []byte("another secret of enough length!"), good(), nil),
		"expired":                sign(jwt.MapClaims{"exp": noon.Add(-hour).Unix()}),
		"no exp":                 sign(jwt.MapClaims{"exp": nil}),
		"exp null":               sign(jwt.MapClaims{"exp": jwt.ClaimStrings(nil)}),
		"exp as text":            sign(jwt.MapClaims{"exp": "2099-01-01"}),
		"exp without end":        sign(jwt.MapClaims{"exp": 1e300}),
		"exp negative":           sign(jwt.MapClaims{"exp": -1}),
		"not before":             sign(jwt.MapClaims{"nbf": noon.Add(hour).Unix()}),
		"made in the future":     sign(jwt.MapClaims{"iat": noon.Add(hour).Unix()}),
		"another issuer":         sign(jwt.MapClaims{"iss": "https://id.example.org.evil.example"}),
		"no issuer":              sign(jwt.MapClaims{"iss": nil}),
		"another audience":       sign(jwt.MapClaims{"aud": "impart2"}),
		"no audience":            sign(jwt.MapClaims{"aud": nil}),
		"no subject":             sign(jwt.MapClaims{"sub": nil}),
		"empty subject":          sign(jwt.MapClaims{"sub": ""}),
		"subject is a number":    sign(jwt.MapClaims{"sub": 7}),
		"system":                 sign(jwt.MapClaims{"sub": "system"}),
		"a control character":    sign(jwt.MapClaims{"sub": "a\x00b"}),
		"too long a subject":     sign(jwt.MapClaims{"sub": strings.Repeat("a", impart.MaxID+1)}),
		"critical extension":     signed(t, jwt.SigningMethodHS256, secret, with(jwt.MapClaims{"iss": "https://id.example.org", "aud": "impart"}), map[string]any{"crit": []string{"b64"}, "b64": false}),
		"empty":                  "..",
		"not a token":            "Bearer",
		"a megabyte":             strings.Repeat("A", 1<<20),
		"header is no JSON":      part("x") + "." + pieces[1] + "." + pieces[2],
		"alg is not a string":    part(`{"alg":["HS256"]}`) + "." + pieces[1] + "." + pieces[2],
		"alg of no known method": part(`{"alg":"HS1"}`) + "." + pieces[1] + "." + pieces[2],
	} {
		t.Run(name, func(t *testing.T) { wantRefused(t, v, token, impart.Unauthenticated) })
	}
}

// A lenient decoder would let two spellings be one user, or one token two.
func TestClaimsAreReadStrictly(t *testing.T) {
	v := newVerifier(t, Config{HMACSecret: secret})
	exp := noon.Add(time.Hour).Unix()
	wantUser(t, v, signedText(t, fmt.Sprintf(`{"sub":"u-ana","exp":%d,"extra":{"SUB":"u-eve"}}`, exp)), "u-ana")
	for name, claims := range map[string]string{
		"name twice":      fmt.Sprintf(`{"sub":"u-ana","sub":"u-eve","exp":%d}`, exp),
		"another case":    fmt.Sprintf(`{"SUB":"u-ana","exp":%d}`, exp),
		"lone surrogate":  fmt.Sprintf(`{"sub":"\ud800","exp":%d}`, exp),
		"invalid UTF-8":   fmt.Sprintf("{\"sub\":\"\xff\",\"exp\":%d}", exp),
		"an array":        `["u-ana"]`,
		"null":            `null`,
		"text behind":     fmt.Sprintf(`{"sub":"u-ana","exp":%d} {}`, exp),
		"exp is NaN text": `{"sub":"u-ana","exp":"NaN"}`,
	} {
		t.Run(name, func(t *testing.T) { wantRefused(t, v, signedText(t, claims), impart.Unauthenticated) })
	}
}

func TestTheLeewayIsForgivenAndNoMore(t *testing.T) {
	sign := func(claims jwt.MapClaims) string { return signed(t, jwt.SigningMethodHS256, secret, with(claims), nil) }
	v := newVerifier(t, Config{HMACSecret: secret})
	wantUser(t, v, sign(jwt.MapClaims{"exp": noon.Add(-29 * time.Second).Unix()}), "u-ana")
	wantRefused(t, v, sign(jwt.MapClaims{"exp": noon.Add(-31 * time.Second).Unix()}), impart.Unauthenticated)
	wantUser(t, v, sign(jwt.MapClaims{"nbf": noon.Add(29 * time.Second).Unix()}), "u-ana")

	strict := newVerifier(t, Config{HMACSecret: secret, Leeway: -1})
	wantRefused(t, strict, sign(jwt.MapClaims{"exp": noon.Add(-time.Second).Unix()}), impart.Unauthenticated)
	wantRefused(t, strict, sign(jwt.MapClaims{"nbf": noon.Add(time.Second).Unix()}), impart.Unauthenticated)
}

func TestUnsignedTokensAreNoTokens(t *testing.T) {
	keys := testKeys()
	for name, config := range map[string]Config{
		"HMAC": {HMACSecret: secret}, "RSA": {PublicKeyPEM: publicPEM(t, keys.rsa.Public())},
	} {
		v := newVerifier(t, config)
		for _, alg := range []string{"none", "None", "nOnE", "NONE", ""} {
			t.Run(name+" alg "+alg, func(t *testing.T) {
				claims := fmt.Sprintf(`{"sub":"u-ana","exp":%d}`, noon.Add(time.Hour).Unix())
				wantRefused(t, v, part(`{"alg":"`+alg+`"}`)+"."+part(claims)+".", impart.Unauthenticated)
			})
		}
	}
}

func TestEachKindOfKeyTakesItsOwnMethodsOnly(t *testing.T) {
	keys := testKeys()
	pairs := map[string]struct {
		key     crypto.Signer
		methods []jwt.SigningMethod
	}{
		"RSA": {keys.rsa, []jwt.SigningMethod{
			jwt.SigningMethodRS256, jwt.SigningMethodRS384, jwt.SigningMethodRS512,
			jwt.SigningMethodPS256, jwt.SigningMethodPS384, jwt.SigningMethodPS512,
		}},
		"ECDSA":   {keys.ecdsa, []jwt.SigningMethod{jwt.SigningMethodES256}},
		"Ed25519": {keys.ed25519, []jwt.SigningMethod{jwt.SigningMethodEdDSA}},
	}
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			text := publicPEM(t, pair.key.Public())
			file := filepath.Join(t.TempDir(), "key.pem")
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, config := range []Config{{PublicKeyPEM: text}, {PublicKeyFile: file}} {
				v := newVerifier(t, config)
				for _, method := range pair.methods {
					wantUser(t, v, signed(t, method, pair.key, good(), nil), "u-ana")
				}
				// The public key is public: taken for an HMAC secret it would let anybody sign.
				wantRefused(t, v, signed(t, jwt.SigningMethodHS256, text, good(), nil), impart.Unauthenticated)
				for other, foreign := range pairs {
					if other != name {
						wantRefused(t, v, signed(t, foreign.methods[0], foreign.key, good(), nil), impart.Unauthenticated)
					}
				}
			}
		})
	}
	v := newVerifier(t, Config{PublicKeyPEM: publicPEM(t, keys.rsa.Public())})
	t.Run("another key of the kind", func(t *testing.T) {
		wantRefused(t, v, signed(t, jwt.SigningMethodRS256, keys.otherRSA, good(), nil), impart.Unauthenticated)
	})
	t.Run("a key that the token brings along", func(t *testing.T) {
		header := map[string]any{"jwk": map[string]any{"kty": "RSA"}, "jku": "https://evil.example/jwks.json", "x5u": "https://evil.example/x", "kid": "../../dev/null"}
		wantRefused(t, v, signed(t, jwt.SigningMethodRS256, keys.otherRSA, good(), header), impart.Unauthenticated)
	})
}

func TestKeysThatCannotBeTrusted(t *testing.T) {
	keys := testKeys()
	private, err := x509.MarshalPKCS8PrivateKey(keys.rsa)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GODEBUG", "rsa1024min=0")
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	rsaPEM := publicPEM(t, keys.rsa.Public())
	for name, faulty := range map[string]struct {
		config Config
		says   string
	}{
		"short secret":       {Config{HMACSecret: []byte("hunter2")}, "at least 32"},
		"two kinds":          {Config{HMACSecret: secret, JWKSURL: "https://id.example.org/k"}, "set one of"},
		"no PEM":             {Config{PublicKeyPEM: []byte("ssh-rsa AAAA")}, "PEM"},
		"private key":        {Config{PublicKeyPEM: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})}, "private"},
		"two keys":           {Config{PublicKeyPEM: append(rsaPEM, rsaPEM...)}, "more than one"},
		"broken key":         {Config{PublicKeyPEM: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")})}, "PublicKeyPEM"},
		"short RSA key":      {Config{PublicKeyPEM: publicPEM(t, short.Public())}, "2048"},
		"no file":            {Config{PublicKeyFile: filepath.Join(t.TempDir(), "no")}, "PublicKeyFile"},
		"plain http":         {Config{JWKSURL: "http://id.example.org/jwks.json"}, "https"},
		"http, almost local": {Config{JWKSURL: "http://127.0.0.1.example.org/jwks.json"}, "https"},
		"a file":             {Config{JWKSURL: "file:///etc/passwd"}, "address"},
		"password in it":     {Config{JWKSURL: "https://me:pw@id.example.org/"}, "address"},
		"issuer, no key":     {Config{Issuer: "https://id.example.org"}, "without a key"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(t.Context(), faulty.config)
			if err == nil || !strings.Contains(err.Error(), faulty.says) {
				t.Errorf("New said %v, want something with %q", err, faulty.says)
			}
			if again := faulty.config.Validate(); again == nil || strings.Contains(again.Error(), "hunter2") || strings.Contains(again.Error(), "pw@") {
				t.Errorf("Validate said %v", again)
			}
		})
	}
}

func TestMintedTokensAreAccepted(t *testing.T) {
	for name, config := range map[string]Config{
		"dev": {}, "HMAC": {HMACSecret: secret}, "HMAC, all claims": {HMACSecret: secret, Issuer: "me", Audience: "us"},
	} {
		t.Run(name, func(t *testing.T) {
			config.Now = func() time.Time { return noon.Add(123 * time.Millisecond) }
			v := newVerifier(t, config)
			token, err := v.Mint("安娜 <b>", time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			identity := wantUser(t, v, token, "安娜 <b>")
			if !v.Dev() && identity.Issued != impart.Millis(noon.UnixMilli()+123) {
				t.Errorf("issued %d: a token made right after its user was revoked would seem older", identity.Issued)
			}
			for _, user := range []impart.UserID{"", "system", "a\nb"} {
				if token, err := v.Mint(user, time.Minute); err == nil {
					t.Errorf("made %q for %q", token, user)
				}
			}
			for _, ttl := range []time.Duration{0, -time.Hour, MaxTTL + 1} {
				if token, err := v.Mint("u-ana", ttl); err == nil && !v.Dev() {
					t.Errorf("made %q for %s", token, ttl)
				}
			}
		})
	}
	v := newVerifier(t, Config{PublicKeyPEM: publicPEM(t, testKeys().rsa.Public())})
	if token, err := v.Mint("u-ana", time.Minute); err == nil {
		t.Errorf("made %q without a key to sign with", token)
	}
}
