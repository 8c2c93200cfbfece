package blackbox

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// Shapes of every frame: "name:type", with a question mark behind the type where the member may be absent.
// Types: s string, s+ non-empty string, i whole number >= 0, b boolean, [s] list of strings, [o] list of objects, o object.
const (
	welcomeShape = "t:s+ rid:s? user:s+ device:s+ install_epoch:i conn:s+ epoch:i now:i n:i features:[s] limits:o"
	limitsShape  = "body:i frame:i inflight:i ack_every:i heartbeat_ms:i"
	subbedShape  = "t:s+ rid:s? convs:[o] more:b epoch:i"
	laggingShape = "conv:s+ head:i delivered:i read:i floor:i"
	sentShape    = "t:s+ rid:s? conv:s+ seq:i mid:s+ dup:b epoch:i at:i"
	ackedShape   = "t:s+ rid:s? conv:s+ delivered:i"
	ackedNShape  = "t:s+ rid:s? acks:[o]"
	syncedShape  = "t:s+ rid:s? conv:s+ events:[o] through:i head:i floor:i epoch:i more:b"
	historyShape = "t:s+ rid:s? conv:s+ events:[o] head:i floor:i epoch:i more:b"
	pulledShape  = "t:s+ rid:s? convs:[o] failed:[o] more:b epoch:i"
	pageShape    = "conv:s+ events:[o] through:i head:i floor:i"
	convsShape   = "t:s+ rid:s? convs:[o] more:b epoch:i"
	convShape    = "conv:s+ kind:s+ head:i delivered:i read:i unread:i last:o? floor:i"
	readedShape  = "t:s+ rid:s? conv:s+ read:i"
	whosShape    = "t:s+ rid:s? conv:s+ seq:i users:[o] more:b"
	whoShape     = "user:s+ delivered:i devices:i read:b"
	eventShape   = "t:s+ ev:o epoch:i"
	msgShape     = "conv:s+ seq:i kind:s+ mid:s+ sender:s+ cmid:s+ body:s type:s+ ext:o? at:i"
	recallShape  = "conv:s+ seq:i kind:s+ mid:s+ sender:s+ cmid:s+ target:i target_mid:s+ at:i"
	memberShape  = "conv:s+ seq:i kind:s+ mid:s+ sender:s+ user:s+ by:s+ at:i"
	goneShape    = "conv:s+ seq:i kind:s+ mid:s+ sender:s+ cmid:s+ type:s? recalled:b at:i"
	hintShape    = "t:s+ conv:s? head:i? epoch:i why:s+"
	receiptShape = "t:s+ conv:s+ user:s+ delivered:i read:i"
	typingShape  = "t:s+ conv:s+ user:s+"
	pongShape    = "t:s+ rid:s?"
	errorShape   = "t:s+ rid:s? code:s+ message:s+ retry:b retry_after_ms:i? epoch:i? conv:s?"
	byeShape     = "t:s+ code:s+ reconnect_after_ms:i final:b"
)

// shaped demands that o has exactly the members of the shape, each of its type.
func shaped(t testing.TB, o rawclient.Object, shape string) {
	t.Helper()
	if faults := misshapen(o, shape); len(faults) > 0 {
		t.Errorf("%s\n  in %s\n  want %s", strings.Join(faults, "; "), o, shape)
	}
}

func misshapen(o rawclient.Object, shape string) (faults []string) {
	names := []string{}
	for _, field := range strings.Fields(shape) {
		name, typ, _ := strings.Cut(field, ":")
		names = append(names, name)
		optional := strings.HasSuffix(typ, "?")
		if !o.Has(name) {
			if !optional {
				faults = append(faults, name+" is missing")
			}
			continue
		}
		if !fitsType(o[name], strings.TrimSuffix(typ, "?")) {
			faults = append(faults, fmt.Sprintf("%s is not %s", name, typ))
		}
	}
	for _, k := range o.Keys() {
		if !slices.Contains(names, k) {
			faults = append(faults, k+" is not in the protocol")
		}
	}
	return faults
}

func fitsType(raw json.RawMessage, typ string) bool {
	text := string(raw)
	into := func(v any) bool { return text != "null" && json.Unmarshal(raw, v) == nil }
	switch typ {
	case "s":
		return into(new(string))
	case "s+":
		var s string
		return into(&s) && s != ""
	case "i":
		var n int64
		return into(&n) && n >= 0 && n < 1<<53
	case "b":
		return text == "true" || text == "false"
	case "o":
		return into(new(rawclient.Object))
	case "[s]":
		return into(new([]string))
	case "[o]":
		return into(new([]rawclient.Object))
	default:
		panic("no such type in a shape: " + typ)
	}
}

// retryable is the error table's flag for every code.
var retryable = map[string]bool{
	"BAD_FRAME": false, "UNAUTHENTICATED": false, "NOT_MEMBER": false, "CURSOR_AHEAD": false, "STALE_INSTALL": false,
	"EPOCH_CHANGED": false, "CMID_REUSED": false, "TOO_LARGE": false, "RECALL_REFUSED": false, "OUT_OF_ORDER": true,
	"RATE_LIMITED": true, "OVERLOADED": true, "UNAVAILABLE": true,
}

// checkError demands the shape of an error frame and the retry flag that its code has in the table.
func checkError(t testing.TB, o rawclient.Object) {
	t.Helper()
	shaped(t, o, errorShape)
	code := o.Str("code")
	want, known := retryable[code]
	if !known {
		t.Errorf("error code %q is not in the protocol: %s", code, o)
	}
	if o.Bool("retry") != want {
		t.Errorf("error %s has retry %v, want %v", code, o.Bool("retry"), want)
	}
	if code == "EPOCH_CHANGED" && !o.Has("epoch") {
		t.Errorf("EPOCH_CHANGED carries no epoch: %s", o)
	}
	if (code == "RATE_LIMITED" || code == "OVERLOADED") && !o.Has("retry_after_ms") {
		t.Errorf("%s carries no retry_after_ms: %s", code, o)
	}
}

// A shape that accepts everything is no check.
func TestShapesTellDifference(t *testing.T) {
	for raw, sound := range map[string]bool{
		`{"t":"pong"}`: true, `{"t":"pong","rid":"r"}`: true, `{"t":"pong","rid":7}`: false, `{"rid":"r"}`: false,
		`{"t":"pong","extra":1}`: false, `{"t":""}`: false, `{"t":null}`: false,
	} {
		o, err := rawclient.ParseObject([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if got := len(misshapen(o, pongShape)) == 0; got != sound {
			t.Errorf("%s fits %v, want %v", raw, got, sound)
		}
	}
}
