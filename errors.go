package impart

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Code is an error code of the protocol. Codes are only ever added.
type Code string

// The codes of protocol v1.
const (
	BadFrame        Code = "BAD_FRAME"
	Unauthenticated Code = "UNAUTHENTICATED"
	NotMember       Code = "NOT_MEMBER"
	CursorAhead     Code = "CURSOR_AHEAD"
	StaleInstall    Code = "STALE_INSTALL"
	EpochChanged    Code = "EPOCH_CHANGED"
	CMIDReused      Code = "CMID_REUSED"
	TooLarge        Code = "TOO_LARGE"
	RecallRefused   Code = "RECALL_REFUSED"
	OutOfOrder      Code = "OUT_OF_ORDER"
	RateLimited     Code = "RATE_LIMITED"
	Overloaded      Code = "OVERLOADED"
	Unavailable     Code = "UNAVAILABLE"
)

// The codes of the admin API alone; no device ever sees them.
const (
	NotFound Code = "NOT_FOUND" // no such conversation, user or device
	Conflict Code = "CONFLICT"  // exists with another kind or history
	Invalid  Code = "INVALID"   // a request the admin API cannot carry out
)

// Codes lists every code; tests check each mapper against it.
func Codes() []Code {
	return []Code{
		BadFrame, Unauthenticated, NotMember, CursorAhead, StaleInstall, EpochChanged, CMIDReused, TooLarge,
		RecallRefused, OutOfOrder, RateLimited, Overloaded, Unavailable, NotFound, Conflict, Invalid,
	}
}

// Retry reports whether the same request may be sent again unchanged.
func (c Code) Retry() bool {
	switch c {
	case OutOfOrder, RateLimited, Overloaded, Unavailable:
		return true
	default:
		return false
	}
}

// Error is the one error that crosses a border of Impart (frame, HTTP, gRPC).
type Error struct {
	Code    Code
	Message string // for people; never carries a body, a token or a stack
	// Epoch is the current epoch; set with EPOCH_CHANGED.
	Epoch Epoch
	// RetryAfter is how long to wait before the retry; set with RATE_LIMITED and
	// OVERLOADED, and with UNAVAILABLE where the server can tell.
	RetryAfter time.Duration
	// Cause is what went wrong underneath. It is logged and never sent.
	Cause error
}

// Errorf makes an [Error] with a code.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string {
	if e.Cause != nil {
		return string(e.Code) + ": " + e.Message + ": " + e.Cause.Error()
	}
	return string(e.Code) + ": " + e.Message
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// CodeOf is the code that err is reported under; "" for nil. Whatever is not an
// [Error] is UNAVAILABLE: the outcome is unknown and the request may be repeated.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	return AsError(err).Code
}

// AsError is err as an [Error]; nil for nil. Whatever is not one becomes
// UNAVAILABLE with err as its cause.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	message := "the server could not finish this; send it again unchanged"
	if errors.Is(err, context.DeadlineExceeded) {
		message = "the server did not finish this in time; send it again unchanged"
	}
	return &Error{Code: Unavailable, Message: message, RetryAfter: unavailableRetry, Cause: err}
}

// unavailableRetry keeps those who were told UNAVAILABLE from coming back all at once
// to a store that fails.
const unavailableRetry = time.Second
