package auth

import (
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/time/rate"
)

const (
	jwksRefresh = 15 * time.Minute // how long a key that the issuer withdrew may still count
	jwksTimeout = 5 * time.Second  // of one fetch
	jwksAgain   = 10 * time.Second // least time between two fetches that unknown keys ask for
	jwksWait    = time.Second      // longest wait of a token for that pace
	maxJWKS     = 1 << 20          // bytes
)

// errKeysAway says that a token could not be checked for want of fresh keys.
var errKeysAway = errors.New("auth: the key set could not be fetched")

// signatureUses are the values of a key's "use" under which it may check tokens.
var signatureUses = []jwkset.USE{jwkset.UseSig, ""}

// keySet is an issuer's published keys. The keys fetched last count until the
// next fetch succeeds; before the first success there are none.
type keySet struct {
	*jwkset.MemoryJWKSet                // what was fetched last
	storage              jwkset.Storage // the same, fetched again when a key is unknown
	log                  *slog.Logger

	mu   sync.Mutex
	last error // of the last fetch; errKeysAway before the first
}

// KeyReplaceAll is how the library hands over a set that it has fetched.
func (s *keySet) KeyReplaceAll(ctx context.Context, keys []jwkset.JWK) error {
	err := s.MemoryJWKSet.KeyReplaceAll(ctx, keys)
	s.note(err)
	return err
}

func (s *keySet) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = err
}

func (s *keySet) lastErr() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// ready is nil when there are keys.
func (s *keySet) ready() error {
	keys, err := s.MemoryJWKSet.KeyReadAll(context.Background())
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		return errors.Join(errKeysAway, s.lastErr())
	}
	return nil
}

// openKeySet fetches the set once and starts its refreshing, which ends with
// background.
func openKeySet(ctx, background context.Context, config Config) (*keySet, error) {
	set := &keySet{MemoryJWKSet: jwkset.NewMemoryStorage(), last: errKeysAway, log: config.Log}
	if set.log == nil {
		set.log = slog.New(slog.DiscardHandler)
	}
	interval := config.Refresh
	if interval <= 0 {
		interval = jwksRefresh
	}
	fetched, err := jwkset.NewStorageFromHTTP(config.JWKSURL, jwkset.HTTPClientStorageOptions{
		Client:                    jwksClient(config.Client),
		Ctx:                       background,
		HTTPTimeout:               jwksTimeout,
		NoErrorReturnFirstHTTPReq: true,
		RefreshInterval:           interval,
		Storage:                   set,
		RefreshErrorHandler: func(_ context.Context, err error) {
			set.note(err)
			set.log.Warn("key set not fetched", "error", err)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("auth: JWKSURL: %w", err)
	}
	set.storage, err = jwkset.NewHTTPClient(jwkset.HTTPClientOptions{
		HTTPURLs:          map[string]jwkset.Storage{config.JWKSURL: fetched},
		RateLimitWaitMax:  jwksWait,
		RefreshUnknownKID: rate.NewLimiter(rate.Every(jwksAgain), 1),
	})
	if err != nil {
		return nil, fmt.Errorf("auth: JWKSURL: %w", err)
	}
	return set, ctx.Err()
}

// keyfunc finds a token's key. A key that is not there while the last fetch has
// failed is errKeysAway: it may be there once the issuer answers.
func (s *keySet) keyfunc(ctx context.Context, checked keyfunc.Keyfunc) jwt.Keyfunc {
	find := checked.KeyfuncCtx(ctx)
	return func(token *jwt.Token) (any, error) {
		if _, named := token.Header[jwkset.HeaderKID]; !named && s.ready() != nil {
			// A token that names no key asks for no fetch by itself; this does, at the limiter's pace.
			_, _ = s.storage.KeyRead(ctx, "")
		}
		key, err := find(token)
		if err == nil {
			key, err = strong(key)
		}
		if err != nil && s.lastErr() != nil {
			return nil, errors.Join(errKeysAway, err)
		}
		return key, err
	}
}

// strong leaves out RSA keys that are too short to trust.
func strong(key any) (any, error) {
	set, ok := key.(jwt.VerificationKeySet)
	if !ok {
		set.Keys = []jwt.VerificationKey{key}
	}
	var kept jwt.VerificationKeySet
	for _, key := range set.Keys {
		if short, ok := key.(*rsa.PublicKey); ok && short.N.BitLen() < minRSABits {
			continue
		}
		kept.Keys = append(kept.Keys, key)
	}
	if len(kept.Keys) == 0 {
		return nil, errors.New("auth: no key fits the token")
	}
	return kept, nil
}

// checkJWKSURL demands https, so that nobody on the way can put in a key of
// their own; http will do on loopback.
func checkJWKSURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil {
		return errors.New("auth: JWKSURL should be an address such as https://id.example.org/.well-known/jwks.json")
	}
	if u.Scheme == "https" || u.Scheme == "http" && loopbackName(u.Hostname()) {
		return nil
	}
	return errors.New("auth: JWKSURL must be https (http only on loopback)")
}

// jwksClient is client with a bound on the answer and redirects held to the
// same rule as the first address.
func jwksClient(client *http.Client) *http.Client {
	if client == nil {
		client = &http.Client{Timeout: jwksTimeout, Transport: http.DefaultTransport.(*http.Transport).Clone()}
	}
	bounded := *client
	bounded.Transport = boundedTransport{next: client.Transport}
	bounded.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if len(via) > 3 {
			return errors.New("auth: JWKSURL redirects too often")
		}
		return checkJWKSURL(r.URL.String())
	}
	return &bounded
}

// boundedTransport bounds the size of answers.
type boundedTransport struct{ next http.RoundTripper }

func (t boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	next := t.next
	if next == nil {
		next = http.DefaultTransport
	}
	resp, err := next.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxJWKS)
	}
	return resp, err
}
