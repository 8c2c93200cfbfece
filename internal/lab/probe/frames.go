package probe

import (
	"fmt"
	"strings"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

// ridOf is the rid of a reply; "" for what is none.
func ridOf(f wire.ServerFrame) string {
	switch f := f.(type) {
	case *wire.Welcome:
		return f.RID
	case *wire.Subbed:
		return f.RID
	case *wire.Sent:
		return f.RID
	case *wire.Acked:
		return f.RID
	case *wire.Synced:
		return f.RID
	case *wire.Pulled:
		return f.RID
	case *wire.Pong:
		return f.RID
	case *wire.ErrorFrame:
		return f.RID
	}
	return ""
}

// kindOf is the type of a frame as it stands in its "t".
func kindOf(f wire.ServerFrame) string {
	if f == nil {
		return "unknown"
	}
	_, name, _ := strings.Cut(fmt.Sprintf("%T", f), ".")
	switch name = strings.ToLower(name); name {
	case "errorframe":
		return "error"
	case "typingnote":
		return "typing"
	case "convspage":
		return "convs"
	}
	return name
}

// AckOf acknowledges one conversation up to seq.
func AckOf(conv impart.ConvID, seq impart.Seq, n *int64) *wire.Ack {
	return &wire.Ack{N: n, Items: []impart.AckItem{{Conv: conv, Seq: seq}}}
}

// IsEvent matches the push of one event.
func IsEvent(conv impart.ConvID, seq impart.Seq) func(wire.ServerFrame) bool {
	return func(f wire.ServerFrame) bool {
		e, ok := f.(*wire.Event)
		return ok && e.Event.Conv == conv && e.Event.Seq == seq
	}
}

// IsHint matches a hint about a conversation, for a reason; "" for any.
func IsHint(conv impart.ConvID, why string) func(wire.ServerFrame) bool {
	return func(f wire.ServerFrame) bool {
		h, ok := f.(*wire.Hint)
		return ok && h.Conv == conv && (why == "" || h.Why == why)
	}
}

// IsSent matches any answer that a message is stored.
func IsSent(f wire.ServerFrame) bool {
	_, ok := f.(*wire.Sent)
	return ok
}
