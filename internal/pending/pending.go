// Package pending remembers who still owes an acknowledgement and when to try
// again. It is an accelerator: it may lose everything, and the sweep finds what
// it forgot. One entry is one flow, a device in a conversation, because cursors
// are cumulative: not one entry per message.
package pending

import (
	"context"
	"time"

	"github.com/impart-im/impart"
)

// Attempts is how often one unacknowledged flow is tried: the first push is
// attempt 1, and after the last one the offline pull carries it (D10).
const Attempts = 4

// Ladder is how long to wait after each attempt; the last wait only expires.
type Ladder [Attempts]time.Duration

// DefaultLadder is the ladder for a connection whose acknowledgement time is
// not yet known (seed 002).
var DefaultLadder = Ladder{time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second}

// Key names a flow. Conn is the connection: a flow of one that is gone is dropped.
type Key struct {
	User   impart.UserID
	Device impart.DeviceID
	Conv   impart.ConvID
	Conn   uint64
}

// Entry is a flow that owes an acknowledgement.
type Entry struct {
	Key
	Seq      impart.Seq // the highest seq pushed
	Attempts int        // 1 after the first push
	Ladder   Ladder     // the waits of this flow
}

// Set holds the flows of one gateway. Every method is one atomic step for each
// entry.
type Set interface {
	// Register adds flows, each before its frames go out, due after their first
	// wait. A flow that is there already keeps its attempts and due time and only
	// raises Seq, so that new events do not start attempts anew.
	Register(ctx context.Context, entries ...Entry) error
	// Moved starts the attempts of flows anew, because their cursor moved without
	// reaching the end; an absent flow is added.
	Moved(ctx context.Context, entries ...Entry) error
	// Settle removes flows; one that is not there is fine.
	Settle(ctx context.Context, keys ...Key) error
	// Drop removes every flow of a connection.
	Drop(ctx context.Context, conn uint64) error
	// Due takes at most limit flows whose time has come: each is rescheduled in
	// place with one attempt more, or, past its last attempt, removed and
	// returned with Attempts above [Attempts].
	Due(ctx context.Context, limit int) ([]Entry, error)
	// Len is the number of flows.
	Len(ctx context.Context) (int, error)
}

// Heir is a [Set] that is kept where it outlives its gateway. A living gateway takes
// over what one that died has left.
type Heir interface {
	// Inherit takes at most limit flows out of the sets of gateways that are gone. Each
	// is given to one taker, once; its connection is gone too, so it says no more than
	// that its device may lag.
	Inherit(ctx context.Context, limit int) ([]Entry, error)
}
