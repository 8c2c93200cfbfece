package rpc

import (
	"math/rand/v2"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/rpc/impartpb"
)

// statusCodes is the gRPC code of each code, for programs that know no other. The
// client goes by the [impartpb.Error] in the status.
var statusCodes = map[impart.Code]codes.Code{
	impart.BadFrame:        codes.InvalidArgument,
	impart.Unauthenticated: codes.Unauthenticated,
	impart.NotMember:       codes.PermissionDenied,
	impart.CursorAhead:     codes.OutOfRange,
	impart.StaleInstall:    codes.FailedPrecondition,
	impart.EpochChanged:    codes.FailedPrecondition,
	impart.CMIDReused:      codes.AlreadyExists,
	impart.TooLarge:        codes.InvalidArgument,
	impart.RecallRefused:   codes.FailedPrecondition,
	impart.OutOfOrder:      codes.Aborted,
	impart.RateLimited:     codes.ResourceExhausted,
	impart.Overloaded:      codes.ResourceExhausted,
	impart.Unavailable:     codes.Unavailable,
	impart.NotFound:        codes.NotFound,
	impart.Conflict:        codes.AlreadyExists,
	impart.Invalid:         codes.InvalidArgument,
}

// toStatus is an error of the rules as a status; nil for nil.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	e := toError(err)
	code, known := statusCodes[impart.Code(e.Code)]
	if !known {
		code = codes.Unknown
	}
	// A status must be UTF-8; the detail keeps the text as it is.
	plain := status.New(code, strings.ToValidUTF8(e.Message, "\uFFFD"))
	detailed, err := plain.WithDetails(e)
	if err != nil {
		return plain.Err() // a message of four plain fields always marshals
	}
	return detailed.Err()
}

// fromStatus is the error of the rules that a status carries; ok is false where it
// carries none: then it is of the transport.
func fromStatus(err error) (e *impart.Error, ok bool) {
	for _, detail := range status.Convert(err).Details() {
		if e, ok := detail.(*impartpb.Error); ok {
			return fromError(e), true
		}
	}
	return nil, false
}

// toError is an error without its cause, which never leaves its node; nil for nil.
func toError(err error) *impartpb.Error {
	if err == nil {
		return nil
	}
	e := impart.AsError(err)
	return &impartpb.Error{Code: string(e.Code), Message: e.Message, Epoch: int64(e.Epoch), RetryAfterNs: int64(e.RetryAfter)}
}

func fromError(e *impartpb.Error) *impart.Error {
	return &impart.Error{
		Code: impart.Code(e.Code), Message: e.Message, Epoch: impart.Epoch(e.Epoch), RetryAfter: time.Duration(e.RetryAfterNs),
	}
}

// fromErrorOf is an error in a field; an untyped nil for nil.
func fromErrorOf(e *impartpb.Error) error {
	if e == nil {
		return nil
	}
	return fromError(e)
}

// lost is UNAVAILABLE because of the way and not of the rules: what was asked may
// have been done.
func lost(cause error) *impart.Error {
	return unavailable("the connection to the logic node was lost; send it again unchanged", cause)
}

// nobody is UNAVAILABLE because there is no node to ask.
func nobody(cause error) *impart.Error {
	return unavailable("no logic node answers; send it again unchanged", cause)
}

// retryLater is how long a client waits at least before it comes back to nodes that
// do not answer. Up to twice as long, so that not all of them come at once.
const retryLater = time.Second

func unavailable(message string, cause error) *impart.Error {
	return &impart.Error{Code: impart.Unavailable, Message: message, RetryAfter: retryLater + rand.N(retryLater), Cause: cause}
}
