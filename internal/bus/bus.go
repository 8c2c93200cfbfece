// Package bus carries wake-ups between nodes. A message on it is a hint: it may
// be lost, repeated, late or out of order, and whoever needs certainty reads the
// store. It never carries a message body.
package bus

import (
	"context"

	"github.com/impart-im/impart"
)

// Kind says what a message is about.
type Kind uint8

// The kinds of messages.
const (
	// Wake: events From..Head of Conv have committed.
	Wake Kind = iota + 1
	// Receipt: User has delivered or read further in Conv.
	Receipt
	// Typing: User is typing in Conv.
	Typing
	// Takeover: Device of User has a session Session; older ones are superseded.
	Takeover
	// Revoked: connections of User with tokens issued before At must close; with
	// At 0, all of them (the user is disabled).
	Revoked
	// EpochRaised: the store's epoch is Epoch now.
	EpochRaised
	// Missed: the bus was deaf for a while; look at everything written since.
	Missed
)

// Message is one wake-up. Fields that its kind does not name are zero.
type Message struct {
	Kind      Kind
	Conv      impart.ConvID
	From      impart.Seq // Wake: the first event of the batch
	Head      impart.Seq // Wake: the last event of the batch
	Members   int64      // Wake: the members' version after the batch; 0: not told
	User      impart.UserID
	Device    impart.DeviceID // Takeover; Receipt: the device that caused it, or ""
	Session   int64           // Takeover; Receipt: the session that caused it, or 0
	Delivered impart.Seq      // Receipt
	Read      impart.Seq      // Receipt
	Epoch     impart.Epoch    // EpochRaised, Receipt
	At        impart.Millis   // Revoked
	// Everyone, of a Wake: who may see the conversation has changed, so that also nodes
	// hear it that had no interest in it until now.
	Everyone bool
}

// Bus connects the nodes of one deployment.
type Bus interface {
	// Publish tells every subscriber of every node, this one included. Messages about
	// one conversation, and those about none, each come in the order given; others may
	// overtake them. It never blocks for long and reports no failure: what is lost is
	// found by the sweep.
	Publish(ctx context.Context, messages ...Message)
	// Subscribe calls handle for each message until cancel is called, from one
	// goroutine at a time. handle must be quick: while it runs, messages queue up,
	// and past a bound they are dropped and replaced by one Missed.
	Subscribe(handle func(Message)) (cancel func())
	// Health is nil when messages flow.
	Health() error
	// Close ends the bus's goroutines.
	Close() error
}

// Selective is a [Bus] over which a node hears of a conversation from the other nodes
// only while it has an interest in it. What is about no conversation, or for everyone,
// is always heard, and so is what the node itself publishes. More may be heard than
// was asked for.
type Selective interface {
	Bus
	// Interest is a new interest in nothing, to be ended when it is no longer needed.
	Interest() Interest
}

// Interest is what one reader makes its node hear. It may be used by several
// goroutines.
type Interest interface {
	// Add adds conversations. It returns when what is published about them from then on
	// is heard, true, or when ctx ends: then it will be, as soon as it can be. What was
	// added before costs next to nothing.
	Add(ctx context.Context, convs ...impart.ConvID) bool
	// AddAll adds all conversations there are and will be.
	AddAll(ctx context.Context) bool
	// Narrow takes AddAll back: what was added by name stays.
	Narrow()
	// End ends the interest. It may be called again; what is added later is nothing.
	End()
}
