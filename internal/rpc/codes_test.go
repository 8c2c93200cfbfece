package rpc

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/impart-im/impart"
)

var update = flag.Bool("update", false, "write testdata/codes.golden anew")

// TestEveryCodeHasItsStatus compares the table with what is published: a program that
// goes by gRPC codes relies on it.
func TestEveryCodeHasItsStatus(t *testing.T) {
	var b strings.Builder
	for _, code := range impart.Codes() {
		st := status.Code(toStatus(impart.Errorf(code, "x")))
		if st == codes.Unknown || st == codes.OK {
			t.Errorf("%s has no status of its own", code)
		}
		fmt.Fprintf(&b, "%s %v\n", code, st)
	}
	if len(statusCodes) != len(impart.Codes()) {
		t.Errorf("%d codes in the table, %d there are", len(statusCodes), len(impart.Codes()))
	}
	const name = "testdata/codes.golden"
	if *update {
		must(t, os.WriteFile(name, []byte(b.String()), 0o644))
	}
	golden, err := os.ReadFile(name)
	must(t, err)
	if string(golden) != b.String() {
		t.Errorf("the table has changed:\n%s", b.String())
	}
}

// TestErrorsKeepAllButTheirCause carries an error of each code both ways that there
// are: as the status of a call, and in an answer.
func TestErrorsKeepAllButTheirCause(t *testing.T) {
	for _, code := range append(impart.Codes(), "OF_A_NEWER_NODE") {
		near := &impart.Error{
			Code: code, Message: "why: \"\xff\" and \u0000é", Epoch: 1<<53 - 1, RetryAfter: 1500*time.Millisecond + 1, Cause: errors.New("secret"),
		}
		want := *near
		want.Cause = nil
		byStatus, ok := fromStatus(toStatus(near))
		if !ok || *byStatus != want {
			t.Errorf("%s as a status: %+v", code, byStatus)
		}
		if byField := fromError(toError(near)); *byField != want {
			t.Errorf("%s in an answer: %+v", code, byField)
		}
		if text := toStatus(near).Error(); strings.Contains(text, "secret") {
			t.Errorf("the status shows the cause: %s", text)
		}
	}
	if toStatus(nil) != nil || toError(nil) != nil || fromErrorOf(nil) != nil {
		t.Error("no error became one")
	}
	// What is no Error of ours is UNAVAILABLE: its outcome is unknown.
	if e, ok := fromStatus(toStatus(errors.New("disk"))); !ok || e.Code != impart.Unavailable || strings.Contains(e.Message, "disk") {
		t.Errorf("an error of the store arrives as %v", e)
	}
	if _, ok := fromStatus(status.Error(codes.NotFound, "no such service")); ok {
		t.Error("an error of the transport counts as one of the rules")
	}
}
