package auth

import (
	"errors"
	"math"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/golang-jwt/jwt/v5"

	"github.com/impart-im/impart"
)

// claims are the registered claims that count here. They are decoded strictly
// (names by their case, no name twice, no invalid UTF-8 or lone surrogate): a
// lenient decoder turns different broken names into one and the same user.
type claims struct {
	Issuer   string           `json:"iss,omitzero"`
	Subject  string           `json:"sub,omitzero"`
	Audience jwt.ClaimStrings `json:"aud,omitzero"`
	Expires  *date            `json:"exp,omitzero"`
	Before   *date            `json:"nbf,omitzero"`
	Issued   *date            `json:"iat,omitzero"`
}

// UnmarshalJSON is what the token parser calls with the claims' text.
func (c *claims) UnmarshalJSON(data []byte) error {
	type plain claims
	return json.Unmarshal(data, (*plain)(c))
}

// MarshalJSON writes the claims of a token that [Verifier.Mint] makes.
func (c *claims) MarshalJSON() ([]byte, error) {
	type plain claims
	return json.Marshal((*plain)(c))
}

// date is a NumericDate (RFC 7519): seconds since 1970, kept to the millisecond
// so that a token made right after its user was revoked is not taken for an
// older one.
type date float64

// maxDate is far past any date and small enough to be exact in milliseconds.
const maxDate = 1 << 40

var errDate = errors.New("auth: not a date")

func dateOf(t time.Time) *date {
	d := date(float64(t.UnixMilli()) / 1000)
	return &d
}

func (d *date) millis() impart.Millis { return impart.Millis(math.Floor(float64(*d)*1000 + 0.5)) }

// numeric is d for the library's checks; nil for nil.
func (d *date) numeric() (*jwt.NumericDate, error) {
	if d == nil {
		return nil, nil // the library's own way to say that a claim is absent
	}
	if !(*d >= 0 && *d <= maxDate) {
		return nil, errDate
	}
	return &jwt.NumericDate{Time: time.UnixMilli(int64(d.millis()))}, nil
}

// GetExpirationTime implements [jwt.Claims].
func (c *claims) GetExpirationTime() (*jwt.NumericDate, error) { return c.Expires.numeric() }

// GetIssuedAt implements [jwt.Claims].
func (c *claims) GetIssuedAt() (*jwt.NumericDate, error) { return c.Issued.numeric() }

// GetNotBefore implements [jwt.Claims].
func (c *claims) GetNotBefore() (*jwt.NumericDate, error) { return c.Before.numeric() }

// GetIssuer implements [jwt.Claims].
func (c *claims) GetIssuer() (string, error) { return c.Issuer, nil }

// GetSubject implements [jwt.Claims].
func (c *claims) GetSubject() (string, error) { return c.Subject, nil }

// GetAudience implements [jwt.Claims].
func (c *claims) GetAudience() (jwt.ClaimStrings, error) { return c.Audience, nil }
