package logic

import (
	"bytes"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/time/rate"

	"github.com/impart-im/impart"
)

// Everything that a frame alone can break is checked again here, because HTTP,
// the admin API and other nodes come by other roads than the frames' codec.

// checkID checks an id of at most [impart.MaxID] bytes.
func checkID[ID ~string](field string, id ID) error {
	return impart.CheckID(field, string(id), impart.MaxID)
}

// checkOptional checks an id that may be "".
func checkOptional[ID ~string](field string, id ID, maxLen int) error {
	if id == "" {
		return nil
	}
	return impart.CheckID(field, string(id), maxLen)
}

// checkText refuses what some store could not keep byte for byte.
func checkText(field, text string) error {
	switch {
	case !utf8.ValidString(text):
		return impart.Errorf(impart.BadFrame, "%s is not valid UTF-8", field)
	case strings.IndexByte(text, 0) >= 0:
		return impart.Errorf(impart.BadFrame, "%s contains NUL, which cannot be stored", field)
	}
	return nil
}

func checkType(name string) error {
	if len(name) > impart.MaxType {
		return impart.Errorf(impart.TooLarge, "type is %d bytes, at most %d are allowed", len(name), impart.MaxType)
	}
	return checkText("type", name)
}

// checkExt checks that ext is one JSON object whose text every store keeps.
func checkExt(ext []byte) error {
	switch {
	case len(ext) == 0:
		return nil
	case len(ext) > impart.MaxExt:
		return impart.Errorf(impart.TooLarge, "ext is %d bytes, at most %d are allowed", len(ext), impart.MaxExt)
	case jsontext.Value(ext).Kind() != '{' || !jsontext.Value(ext).IsValid():
		return impart.Errorf(impart.BadFrame, "ext is not a JSON object")
	case escapesNUL(ext):
		return impart.Errorf(impart.BadFrame, "ext contains NUL, which cannot be stored")
	}
	return nil
}

// escapesNUL reports whether valid JSON text holds \u0000, which becomes a NUL
// in whatever reads it as JSON.
func escapesNUL(text []byte) bool {
	for {
		at := bytes.Index(text, []byte(`\u0000`))
		if at < 0 {
			return false
		}
		slashes := len(text[:at]) - len(bytes.TrimRight(text[:at], `\`))
		if slashes%2 == 0 {
			return true
		}
		text = text[at+1:]
	}
}

// checkLimit is the limit to use; 0 means the default.
func checkLimit(limit int) (int, error) {
	if limit == 0 {
		return impart.DefaultLimit, nil
	}
	if limit < 1 || limit > impart.MaxLimit {
		return 0, impart.Errorf(impart.BadFrame, "limit is %d: it must be 1..%d", limit, impart.MaxLimit)
	}
	return limit, nil
}

// checkCount checks a number that may be nil.
func checkCount(field string, n *int64) error {
	if n != nil && (*n < 0 || *n > impart.MaxNumber) {
		return impart.Errorf(impart.BadFrame, "%s is %d: it must be 0..2^53-1", field, *n)
	}
	return nil
}

// checkSession checks the device part of a session that must have one.
func checkSession(session impart.Session) error {
	if err := checkID("user", session.User); err != nil {
		return err
	}
	if session.Device == "" {
		return impart.Errorf(impart.BadFrame, "this needs a device: over HTTP, send Impart-Device and Impart-Install")
	}
	return checkID("device", session.Device)
}

// first is the first error, nil if there is none.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// knownBudgets is how many users' budgets are kept in one generation of the
// cache. A forgotten user starts with a full burst.
const knownBudgets = 64 << 10

// budgets are the sends that each user may make.
type budgets struct {
	rate  rate.Limit
	burst int

	mu    sync.Mutex // makes get and put one step
	users *cache[impart.UserID, *rate.Limiter]
}

func newBudgets(perSecond float64, burst int) *budgets {
	return &budgets{rate: rate.Limit(perSecond), burst: burst, users: newCache[impart.UserID, *rate.Limiter](knownBudgets)}
}

// spend takes one from the user's budget, or refuses with the time to wait. The
// operator has no budget.
func (b *budgets) spend(user impart.UserID, now time.Time) error {
	if b.rate < 0 || user == impart.System {
		return nil
	}
	b.mu.Lock()
	limiter, ok := b.users.get(user)
	if !ok {
		limiter = rate.NewLimiter(b.rate, b.burst)
		b.users.put(user, limiter, 1)
	}
	b.mu.Unlock()
	place := limiter.ReserveN(now, 1)
	wait := place.DelayFrom(now)
	if wait <= 0 {
		return nil
	}
	place.CancelAt(now)
	return &impart.Error{
		Code: impart.RateLimited, RetryAfter: wait,
		Message: "this user sends too fast; wait and send it again unchanged",
	}
}
