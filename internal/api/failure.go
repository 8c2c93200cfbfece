package api

import (
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

// refusal is an error whose status is not that of its code: what HTTP itself
// demands (method, content type, origin) has no code of its own in the protocol.
type refusal struct {
	status int
	err    *impart.Error
}

func (r *refusal) Error() string { return r.err.Error() }

func (r *refusal) Unwrap() error { return r.err }

func refuse(status int, code impart.Code, format string, args ...any) error {
	return &refusal{status: status, err: impart.Errorf(code, format, args...)}
}

// statusOf is the status an error code is answered with.
func statusOf(code impart.Code) int {
	switch code {
	case impart.BadFrame, impart.CursorAhead, impart.Invalid:
		return http.StatusBadRequest
	case impart.Unauthenticated:
		return http.StatusUnauthorized
	case impart.NotMember, impart.RecallRefused:
		return http.StatusForbidden
	case impart.NotFound:
		return http.StatusNotFound
	case impart.CMIDReused, impart.StaleInstall, impart.EpochChanged, impart.OutOfOrder, impart.Conflict:
		return http.StatusConflict
	case impart.TooLarge:
		return http.StatusRequestEntityTooLarge
	case impart.RateLimited:
		return http.StatusTooManyRequests
	case impart.Overloaded, impart.Unavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// fail answers err in the one shape of errors, and logs its cause: nobody else does.
func (s *server) fail(w http.ResponseWriter, r *http.Request, route string, err error) {
	e := impart.AsError(err)
	status := statusOf(e.Code)
	var special *refusal
	if errors.As(err, &special) {
		status = special.status
	}
	if e.Cause != nil {
		level := slog.LevelDebug
		if status >= http.StatusInternalServerError && r.Context().Err() == nil {
			level = slog.LevelWarn
		}
		s.Log.LogAttrs(r.Context(), level, "http request failed",
			slog.String("route", route), slog.String("code", string(e.Code)), slog.Any("error", e.Cause))
	}
	writeError(w, status, e)
}

// writeError writes {"code","message","retry"} and, where they are set,
// retry_after_ms and epoch.
func writeError(w http.ResponseWriter, status int, e *impart.Error) {
	h := w.Header()
	if status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="impart"`)
	}
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64(math.Ceil(e.RetryAfter.Seconds())), 10))
	}
	writeJSON(w, status, wire.ErrorFrame{Err: e}.AppendBody(nil))
}

// writeJSON answers with JSON text that is not to be kept by any cache.
func writeJSON(w http.ResponseWriter, status int, text []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text) // a client that has gone will ask again
}

// bodyDeadline bounds how long a request body may take to arrive.
func bodyDeadline(w http.ResponseWriter, within time.Duration) {
	// Not every ResponseWriter can; the server's own ReadTimeout holds then.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within))
}
