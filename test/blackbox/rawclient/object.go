// Package rawclient is a second, independent reading of the wire protocol: a raw WebSocket client, a small correct
// device and a checker, written from the protocol text alone and sharing no code with the server.
//
// It promises to show every frame exactly as it came (raw bytes, order, time of arrival). It never repairs, hides or
// retries anything unless the caller uses Device, which keeps the rules a correct client keeps.
package rawclient

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Object is one JSON object of the wire with its members' bytes untouched.
type Object map[string]json.RawMessage

// ParseObject reads one JSON object.
func ParseObject(raw []byte) (Object, error) {
	var o Object
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w: %.200s", err, raw)
	}
	if o == nil {
		return nil, fmt.Errorf("not a JSON object: %.200s", raw)
	}
	return o, nil
}

// Has says whether the member is there at all, null included.
func (o Object) Has(key string) bool { _, ok := o[key]; return ok }

// Keys gives the member names in order.
func (o Object) Keys() []string {
	keys := make([]string, 0, len(o))
	for k := range o {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Str gives a string member; "" when it is absent or not a string.
func (o Object) Str(key string) string {
	var s string
	if json.Unmarshal(o[key], &s) != nil {
		return ""
	}
	return s
}

// Int gives a whole-number member; -1 when it is absent or not a whole number. The protocol has no negative numbers.
func (o Object) Int(key string) int64 {
	n, err := strconv.ParseInt(string(o[key]), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// Bool gives a boolean member; false when it is absent or not a boolean.
func (o Object) Bool(key string) bool { return string(o[key]) == "true" }

// Obj gives an object member; nil when it is absent or not an object.
func (o Object) Obj(key string) Object {
	var m Object
	if json.Unmarshal(o[key], &m) != nil {
		return nil
	}
	return m
}

// List gives a member that is an array of objects; nil when it is absent or something else.
func (o Object) List(key string) []Object {
	var l []Object
	if json.Unmarshal(o[key], &l) != nil {
		return nil
	}
	return l
}

// String is the object as JSON, for messages.
func (o Object) String() string {
	raw, err := json.Marshal(o)
	if err != nil {
		return fmt.Sprintf("%q", map[string]json.RawMessage(o))
	}
	if len(raw) > 1200 {
		return string(raw[:1200]) + "…"
	}
	return string(raw)
}

// Frame is one text frame from the server.
type Frame struct {
	Object
	// Raw is the frame as it came.
	Raw []byte
	// At is the time of arrival.
	At time.Time
}

// T is the frame's "t".
func (f Frame) T() string { return f.Str("t") }

// Seqs gives the seq of every object of a list, in order.
func Seqs(list []Object) []int64 {
	seqs := make([]int64, len(list))
	for i, o := range list {
		seqs[i] = o.Int("seq")
	}
	return seqs
}
