package auth

import (
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/impart-im/impart"
)

// MaxTTL is the longest life of a token that [Verifier.Mint] makes.
const MaxTTL = 366 * 24 * time.Hour

// Mint makes a token for user that this Verifier accepts for ttl (1 s..MaxTTL;
// a dev token never ends). It can only with an HMAC secret and in dev login:
// otherwise the issuer alone holds the key that signs.
func (v *Verifier) Mint(user impart.UserID, ttl time.Duration) (string, error) {
	if err := impart.CheckID("user", string(user), impart.MaxID); err != nil {
		return "", err
	}
	if user == impart.System {
		return "", fmt.Errorf("auth: nobody can log in as %q", impart.System)
	}
	if v.Dev() {
		return DevPrefix + string(user), nil
	}
	if len(v.config.HMACSecret) == 0 {
		return "", errors.New("auth: tokens are made by the issuer, who holds the private key; this server can only check them")
	}
	if ttl < time.Second || ttl > MaxTTL {
		return "", fmt.Errorf("auth: a token can live from 1s to %s, not %s", MaxTTL, ttl)
	}
	now := v.now()
	made := &claims{Issuer: v.config.Issuer, Subject: string(user), Issued: dateOf(now), Expires: dateOf(now.Add(ttl))}
	if v.config.Audience != "" {
		made.Audience = jwt.ClaimStrings{v.config.Audience}
	}
	return jwt.NewWithClaims(jwt.SigningMethodHS256, made).SignedString(v.config.HMACSecret)
}
