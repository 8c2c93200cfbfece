package lab

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/impart-im/impart"
)

// tokenSecret signs the tokens of a bench. It opens nothing else.
const tokenSecret = "the lab's own secret, which opens nothing else"

// Tokens is the setting of a server that asks for tokens with an end, as in real use;
// see [Bench.TryDeviceUntil].
func (b *Bench) Tokens() string { return "IM_AUTH_HMAC_SECRET=" + tokenSecret }

// token is a JWT (RFC 7519) for a user. An id is plain letters here.
func token(user impart.UserID, ends time.Time) string {
	part := base64.RawURLEncoding.EncodeToString
	text := part([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + part(fmt.Appendf(nil, `{"sub":%q,"exp":%d}`, user, ends.Unix()))
	sign := hmac.New(sha256.New, []byte(tokenSecret))
	sign.Write([]byte(text))
	return text + "." + part(sign.Sum(nil))
}
