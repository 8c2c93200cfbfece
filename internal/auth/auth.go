// Package auth says who sends a request and whether a page may send it. It
// turns tokens into identities and judges the Origin and Host of requests. It
// accepts nothing that it could not check: without a key, or with a key set that
// cannot be fetched, every token is refused. It keeps no session, and no token
// ever appears in its errors.
package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
)

// DevPrefix starts a token of the dev login: DevPrefix + user id.
const DevPrefix = "dev:"

// DefaultLeeway is the clock difference between issuer and server that is forgiven.
const DefaultLeeway = 30 * time.Second

// maxToken bounds the bytes of a token before anything of it is parsed.
const maxToken = 16 << 10

// Config says which tokens are accepted. The zero value is the dev login: a
// token "dev:u-ana" is user u-ana, unchecked, so such a server may listen on
// loopback only. At most one of the key settings is set.
type Config struct {
	HMACSecret    []byte // HS256, HS384, HS512; at least 32 bytes
	PublicKeyFile string // a file with what PublicKeyPEM holds
	PublicKeyPEM  []byte // one RSA (from 2,048 bits), ECDSA or Ed25519 public key, or a certificate
	JWKSURL       string // where the issuer publishes its keys; https, or http on loopback

	Issuer   string // the "iss" that is demanded; "": any
	Audience string // the "aud" that is demanded; "": any
	// Leeway is the clock difference that is forgiven; 0: DefaultLeeway, negative: none.
	Leeway time.Duration
	// Refresh is how often the key set at JWKSURL is fetched; 0: every 15 minutes.
	Refresh time.Duration

	Log    *slog.Logger     // nil: nothing is logged
	Now    func() time.Time // nil: time.Now
	Client *http.Client     // fetches JWKSURL; nil: one with timeouts that stays on https
}

// Verifier checks tokens. It is safe for concurrent use.
type Verifier struct {
	config Config
	leeway time.Duration
	now    func() time.Time
	parser *jwt.Parser // nil: dev login
	key    func(context.Context) jwt.Keyfunc
	keys   *keySet // nil without JWKSURL
	stop   context.CancelFunc
}

// Validate lists every fault of the configuration at once, each with the field
// it is in.
func (c Config) Validate() error {
	_, _, err := c.source()
	return errors.Join(err, c.validateDev())
}

func (c Config) validateDev() error {
	if c.dev() && (c.Issuer != "" || c.Audience != "") {
		return errors.New("auth: Issuer and Audience are set without a key; set HMACSecret, PublicKeyFile or JWKSURL too")
	}
	return nil
}

// dev reports whether no key is set at all.
func (c Config) dev() bool {
	return len(c.HMACSecret) == 0 && c.PublicKeyFile == "" && len(c.PublicKeyPEM) == 0 && c.JWKSURL == ""
}

// New makes a Verifier. A key set that cannot be fetched is no error: tokens are
// refused until it can be. Close it when it is no longer needed; ctx is for New
// alone.
func New(ctx context.Context, config Config) (*Verifier, error) {
	if err := config.validateDev(); err != nil {
		return nil, err
	}
	v := &Verifier{config: config, now: config.Now, leeway: config.Leeway, stop: func() {}}
	if v.now == nil {
		v.now = func() time.Time { return fault.Wall(time.Now()) }
	}
	switch {
	case v.leeway == 0:
		v.leeway = DefaultLeeway
	case v.leeway < 0:
		v.leeway = 0
	}
	key, methods, err := config.source()
	if err != nil {
		return nil, err
	}
	if config.dev() {
		return v, nil
	}
	v.parser = jwt.NewParser(v.parserOptions(methods)...)
	v.key = func(context.Context) jwt.Keyfunc {
		return func(*jwt.Token) (any, error) { return key, nil }
	}
	if config.JWKSURL != "" {
		if err := v.openJWKS(ctx); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (v *Verifier) parserOptions(methods []string) []jwt.ParserOption {
	options := []jwt.ParserOption{
		jwt.WithValidMethods(methods),
		jwt.WithExpirationRequired(),
		jwt.WithIssuedAt(),
		jwt.WithStrictDecoding(),
		jwt.WithLeeway(v.leeway),
		jwt.WithTimeFunc(v.now),
	}
	if v.config.Issuer != "" {
		options = append(options, jwt.WithIssuer(v.config.Issuer))
	}
	if v.config.Audience != "" {
		options = append(options, jwt.WithAudience(v.config.Audience))
	}
	return options
}

// openJWKS fetches the key set a first time and keeps it fresh until Close.
func (v *Verifier) openJWKS(ctx context.Context) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	set, err := openKeySet(ctx, background, v.config)
	if err != nil {
		stop()
		return err
	}
	checked, err := keyfunc.New(keyfunc.Options{Ctx: background, Storage: set.storage, UseWhitelist: signatureUses})
	if err != nil {
		stop()
		return fmt.Errorf("auth: key set: %w", err)
	}
	v.keys, v.stop = set, stop
	v.key = func(ctx context.Context) jwt.Keyfunc { return set.keyfunc(ctx, checked) }
	return nil
}

// Close ends the refreshing of the key set.
func (v *Verifier) Close() { v.stop() }

// Dev reports whether this is the dev login, under which everybody is whoever
// they say: only loopback may be listened on.
func (v *Verifier) Dev() bool { return v.parser == nil }

// Ready is nil when tokens can be checked now.
func (v *Verifier) Ready() error {
	if v.keys == nil {
		return nil
	}
	return v.keys.ready()
}

// Verify says whose token this is. UNAUTHENTICATED when it is not acceptable;
// the message says whether a new token would help and nothing of what the token
// holds. UNAVAILABLE when the issuer's keys cannot be fetched: the same token may
// be good later.
func (v *Verifier) Verify(ctx context.Context, token string) (impart.Identity, error) {
	switch {
	case token == "":
		return impart.Identity{}, impart.Errorf(impart.Unauthenticated, "a token is needed")
	case len(token) > maxToken:
		return impart.Identity{}, impart.Errorf(impart.Unauthenticated, "the token is longer than %d bytes", maxToken)
	case v.Dev():
		return verifyDev(token)
	}
	var claims claims
	parsed, err := v.parser.ParseWithClaims(token, &claims, v.key(ctx))
	if err != nil {
		return impart.Identity{}, v.refusal(err)
	}
	if _, critical := parsed.Header["crit"]; critical {
		return impart.Identity{}, impart.Errorf(impart.Unauthenticated, "the token demands extensions (crit) that this server does not have")
	}
	if err := checkUser(claims.Subject); err != nil {
		return impart.Identity{}, err
	}
	identity := impart.Identity{User: impart.UserID(claims.Subject), Expires: claims.Expires.millis() + impart.Millis(v.leeway.Milliseconds())}
	if claims.Issued != nil {
		identity.Issued = claims.Issued.millis()
	}
	return identity, nil
}

// verifyDev takes the word of a dev token.
func verifyDev(token string) (impart.Identity, error) {
	user, ok := strings.CutPrefix(token, DevPrefix)
	if !ok {
		return impart.Identity{}, impart.Errorf(impart.Unauthenticated,
			"the token is not accepted; this server is in dev login, where a token is %sUSER", DevPrefix)
	}
	if err := checkUser(user); err != nil {
		return impart.Identity{}, err
	}
	return impart.Identity{User: impart.UserID(user)}, nil
}

// checkUser refuses what cannot be a user who logs in.
func checkUser(user string) error {
	if impart.CheckID("sub", user, impart.MaxID) != nil {
		return impart.Errorf(impart.Unauthenticated, "the token names no acceptable user")
	}
	if impart.UserID(user) == impart.System {
		return impart.Errorf(impart.Unauthenticated, "nobody can log in as %q", impart.System)
	}
	return nil
}

// refusal words a parser's error without anything out of the token. The cause
// is for the log; the parser's errors hold no claim values.
func (v *Verifier) refusal(err error) error {
	refused := impart.Errorf(impart.Unauthenticated, "the token is not accepted")
	switch {
	case errors.Is(err, errKeysAway):
		refused = impart.Errorf(impart.Unavailable, "the keys that tokens are checked with cannot be fetched now; try again")
	case errors.Is(err, jwt.ErrTokenExpired):
		refused.Message = "the token has expired; get a new one"
	case errors.Is(err, jwt.ErrTokenNotValidYet), errors.Is(err, jwt.ErrTokenUsedBeforeIssued):
		refused.Message = "the token is not valid yet; check the clocks"
	case errors.Is(err, jwt.ErrTokenRequiredClaimMissing):
		refused.Message = "the token lacks a claim that is demanded here (exp, iss or aud)"
	}
	refused.Cause = err
	return refused
}
