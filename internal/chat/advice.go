package chat

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
)

// notMember says that a user is not in a conversation, and how they get into it. It
// stands for the server's own words, which say no more than its first half.
func notMember(user impart.UserID, conv impart.ConvID) string {
	return fmt.Sprintf("%s is in no conversation %s: let somebody add them, or make it with impart admin conv put %[2]s --member %[1]s",
		plain(string(user)), plain(string(conv)))
}

// whyRefused says in one line why an item of user's was refused for good, and what
// they can do about it.
func whyRefused(user impart.UserID, conv impart.ConvID, e *impart.Error) string {
	if e.Code == impart.NotMember {
		return string(e.Code) + ": " + advice(user, conv, e.Code)
	}
	return fmt.Sprintf("%s: %s; %s", e.Code, plain(e.Message), advice(user, conv, e.Code))
}

// advice is what a user can do about a final refusal.
func advice(user impart.UserID, conv impart.ConvID, code impart.Code) string {
	switch code {
	case impart.NotMember:
		return notMember(user, conv) + "; then /retry"
	case impart.TooLarge:
		return "shorten it"
	case impart.CMIDReused:
		return "another text has its cmid: /retry sends it as a new message"
	case impart.RecallRefused:
		return "only the sender can take it back, while the server allows it"
	case impart.CursorAhead:
		return "there is no such message any more"
	}
	return "/retry sends it again, /dismiss forgets it"
}

// reason says in one line why the connection is not there.
func reason(err error) string {
	var bye *client.Bye
	var refusal *impart.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &bye) && bye.Code == "SUPERSEDED":
		return "this device is connected from elsewhere; /reconnect takes it back"
	case errors.As(err, &bye) && bye.Code == "REVOKED":
		return "the server has revoked this user; /reconnect with a new token"
	case errors.As(err, &bye) && bye.Code == "DRAIN":
		return "the server is restarting"
	case errors.As(err, &refusal) && refusal.Code == impart.Unauthenticated:
		return "the server refuses the token: " + plain(refusal.Message)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "no server answers there"
	case errors.Is(err, context.DeadlineExceeded):
		return "the server does not answer in time"
	}
	const dialling = "client: cannot connect: "
	if strings.HasPrefix(err.Error(), dialling) {
		for inner := err; inner != nil; inner = errors.Unwrap(inner) {
			err = inner // what went wrong, without who called whom
		}
		return "cannot connect: " + plain(strings.TrimPrefix(err.Error(), dialling))
	}
	return plain(strings.TrimPrefix(err.Error(), "client: "))
}

// state says what the connection is doing, in a few words; reason says why.
func state(s client.Status) string {
	switch s.State {
	case client.CatchingUp:
		return "catching up"
	case client.Waiting:
		return "waiting until " + s.RetryAt.Format(time.TimeOnly)
	case client.Connecting:
		if s.Err != nil {
			return "connecting again"
		}
	}
	return string(s.State)
}

// doing is both.
func doing(s client.Status) string {
	if why := reason(s.Err); why != "" {
		return state(s) + ": " + why
	}
	return state(s)
}

// hopeless reports whether waiting cannot help a script: the client has stopped,
// or the token is refused.
func hopeless(s client.Status) bool {
	return s.State == client.Stopped || s.State == client.Waiting && impart.CodeOf(s.Err) == impart.Unauthenticated
}

// shortRef is how an item of the outbox is named to people: the end of its cmid.
func shortRef(cmid impart.CMID) string {
	s := string(cmid)
	return "#" + plain(s[max(0, len(s)-refLength):])
}

const refLength = 4
