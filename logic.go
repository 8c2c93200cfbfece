package impart

import (
	"context"
	"time"
)

// Logic is every rule of delivery, as a gateway or an HTTP handler sees it. It
// is implemented near by logic.Service and far by an RPC client. Every error is
// an [Error]; a caller that gets UNAVAILABLE does not know whether the request
// took effect and may repeat it unchanged. Results belong to the caller, except
// where a method says that they are shared.
type Logic interface {
	Sessions
	Log
	Cursors
	Fanout
}

// Identity is what a verified token says.
type Identity struct {
	User UserID
	// Issued is when the token was made, 0 if it does not say. A token from before
	// the user was revoked is refused.
	Issued Millis
	// Expires is when the token ends, 0 for never.
	Expires Millis
}

// Session is a device as a hello bound it to a connection.
type Session struct {
	User    UserID
	Device  DeviceID
	Install InstallEpoch
	// Number rises with each hello of the device: the highest one counts,
	// whichever node holds its connection. 0 for HTTP requests.
	Number int64
}

// Sessions binds connections to devices.
type Sessions interface {
	// Hello binds a connection to (user, device, install epoch). A new install, or
	// one whose N went back, raises the install epoch (D9). UNAUTHENTICATED when
	// the user is disabled or the token was revoked, STALE_INSTALL when the device has
	// said hello since, on another connection. Older sessions of the device are told
	// over the bus.
	Hello(ctx context.Context, hello Hello) (Welcome, error)
	// Visit is Hello for an HTTP request: it registers an unknown device, but never
	// raises the install epoch. STALE_INSTALL when the device has another install,
	// UNAUTHENTICATED as in Hello.
	Visit(ctx context.Context, id Identity, device DeviceID, install string) (Session, error)
	// Authorize is UNAUTHENTICATED when the user is disabled or the token revoked.
	Authorize(ctx context.Context, id Identity) error
	// Standings reads from the store whether connections still count; in order. A hello
	// and a ban that were answered before, on whichever node, are seen.
	Standings(ctx context.Context, queries []StandingQuery) ([]Standing, error)
	// Epoch is the store's current epoch.
	Epoch(ctx context.Context) (Epoch, error)
}

// StandingQuery asks whether a connection still counts.
type StandingQuery struct {
	Session Session
	Issued  Millis // as in [Identity]
}

// Standing is whether a connection still counts.
type Standing uint8

// The standings of a connection.
const (
	Stands     Standing = iota
	Superseded          // its device has said hello again since
	Barred              // its user is disabled, or its token was revoked; whatever else
)

// Hello is the first request of a connection.
type Hello struct {
	Identity Identity
	Device   DeviceID
	Install  string // random text made together with the client's store; may be ""
	N        *int64 // the client's durable write counter; nil: no comparison
	History  *int64 // visible events per conversation that a new install starts with; nil: all
	// Age is how long ago the client said it. Of two hellos of a device the one that was
	// said later counts, whichever comes through first.
	Age time.Duration
	// Create makes an unknown user known (dev login); otherwise the token is
	// enough, and the user becomes known all the same.
	Create bool
}

// Welcome is the answer to [Hello].
type Welcome struct {
	Session Session
	N       int64 // highest N seen from this install
	Fresh   bool  // the device starts anew: it was unknown, reinstalled or rolled back
	Epoch   Epoch
	Now     Millis
}

// Log reads and writes conversations.
type Log interface {
	// Send stores messages and answers each by itself, in the order given: two
	// sends of one slice to one conversation get ascending seqs, and one that is
	// refused fails alone (D13). A result without error has committed (D1).
	// Refusals: BAD_FRAME, TOO_LARGE, NOT_MEMBER, CMID_REUSED, EPOCH_CHANGED,
	// OUT_OF_ORDER, RATE_LIMITED, OVERLOADED, UNAVAILABLE.
	Send(ctx context.Context, sends []Send) []Sent
	// Recall takes a message back. Also RECALL_REFUSED, CURSOR_AHEAD.
	Recall(ctx context.Context, recall Recall) (Sent, error)
	// Sync reads one page of what the user may see; it moves no cursor.
	// EPOCH_CHANGED, NOT_MEMBER, CURSOR_AHEAD, BAD_FRAME.
	Sync(ctx context.Context, sync Sync) (Page, error)
	// Pull reads a page of what the device lacks, over all its conversations. The
	// same page again until it is acknowledged.
	Pull(ctx context.Context, pull Pull) (Pulled, error)
	// Convs pages through the user's conversations, ascending by id.
	Convs(ctx context.Context, convs Convs) (ConvsPage, error)
}

// Send is one message to store.
type Send struct {
	Sender UserID   // [System] is a member of everything
	Device DeviceID // the sending connection's device, or ""
	Conv   ConvID
	CMID   CMID
	Prev   CMID // must be stored in Conv before this one; "": no such demand
	Type   string
	Body   string
	Ext    []byte
	Epoch  Epoch
}

// Sent is the outcome of one [Send] or [Recall].
type Sent struct {
	Conv  ConvID
	Seq   Seq
	MID   MID
	Dup   bool // an earlier attempt stored it; Seq, MID and At are that one's
	Epoch Epoch
	At    Millis
	Err   error // nil: the message's transaction has committed
}

// Recall takes the message at (Conv, Seq) back.
type Recall struct {
	Sender UserID
	Device DeviceID
	Conv   ConvID
	Seq    Seq
	CMID   CMID
	MID    MID // must match if given
	Epoch  Epoch
}

// Sync asks for a page. Exactly one of After and Before is set.
type Sync struct {
	User     UserID
	Conv     ConvID
	After    *Seq // events with seq > After, ascending
	Before   *Seq // events with seq < Before, descending; at most head + 1
	AfterMID MID  // the mid the client holds at After, or ""
	Limit    int  // 1..MaxLimit
	Epoch    Epoch
}

// Page is a run of one conversation's events as one user sees them, all from
// one snapshot of the store.
type Page struct {
	Conv    ConvID
	Events  []Event
	Through Seq // the cursor may move to here once Events are stored; 0 in a Before page
	Head    Seq // the highest seq the user may see
	Floor   Seq // the highest seq that retention has removed, never above Head
	More    bool
	Epoch   Epoch
}

// Pull asks for what the device lacks.
type Pull struct {
	Session Session
	Limit   int // events in all, 1..MaxLimit
}

// Pulled is the answer to [Pull].
type Pulled struct {
	Convs  []Page
	Failed []PullFailure // could not be read; their cursors stay
	More   bool          // there will be more once this page is acknowledged
	Epoch  Epoch
}

// PullFailure is a conversation that a pull could not read.
type PullFailure struct {
	Conv ConvID
	Code Code
}

// Convs asks for the user's conversations with an id above After.
type Convs struct {
	Session Session // Device may be "" (HTTP without a device)
	After   ConvID
	Limit   int
}

// ConvState is one conversation as one device sees it.
type ConvState struct {
	Conv      ConvID
	Kind      ConvKind
	Head      Seq
	Delivered Seq
	Read      Seq
	Floor     Seq
	Unread    int    // messages of others above Read, not recalled, at most 1,000; only from Convs
	Last      *Event // the newest visible event; only from Convs
}

// ConvsPage is a page of conversations.
type ConvsPage struct {
	Convs []ConvState
	More  bool
	Epoch Epoch
}

// ConvKind is direct or group.
type ConvKind string

// The kinds of conversations.
const (
	Direct ConvKind = "direct"
	Group  ConvKind = "group"
)

// Cursors moves and reports what devices have stored and users have read.
type Cursors interface {
	// Ack merges delivery cursors of one device; one result per item, in order. An
	// error of the whole request (EPOCH_CHANGED, UNAVAILABLE, and STALE_INSTALL when
	// the device has another install or a newer session) is in every result.
	Ack(ctx context.Context, ack Ack) []Acked
	// Read merges the user's read cursor and returns it. NOT_MEMBER, CURSOR_AHEAD,
	// EPOCH_CHANGED.
	Read(ctx context.Context, read Read) (Seq, error)
	// Who reports who has the event. NOT_MEMBER, CURSOR_AHEAD.
	Who(ctx context.Context, who Who) (Report, error)
	// Typing tells the other members, now or never. NOT_MEMBER.
	Typing(ctx context.Context, user UserID, conv ConvID) error
}

// Ack says what the device has durably stored.
type Ack struct {
	Session Session
	N       *int64
	Epoch   Epoch
	Items   []AckItem // at most MaxLimit
}

// AckItem is one conversation's cursor in an [Ack].
type AckItem struct {
	Conv ConvID
	Seq  Seq
}

// Acked is the outcome of one [AckItem].
type Acked struct {
	Conv      ConvID
	Delivered Seq // the merged cursor, which can be above what was asked
	Err       error
}

// Read moves the read cursor of a user.
type Read struct {
	Session Session // who asks; the receipt does not go back to this connection
	Conv    ConvID
	Seq     Seq
	Epoch   Epoch
}

// Who asks who has the event at (Conv, Seq), for users above After.
type Who struct {
	User  UserID
	Conv  ConvID
	Seq   Seq
	After UserID
	Limit int
}

// Report answers [Who].
type Report struct {
	Users []UserReport
	More  bool
}

// UserReport says how far one event has come with one user.
type UserReport struct {
	User      UserID
	Delivered int // how many of their devices have it
	Devices   int // how many devices they have
	Read      bool
}

// Fanout is what a gateway asks in order to push, to sweep and to catch up.
type Fanout interface {
	// Range reads events From..Through of a conversation as they are now, in one
	// snapshot with the audience that may see them now. It may end early (More).
	// NOT_FOUND when there is no such conversation.
	Range(ctx context.Context, conv ConvID, from, through Seq) (Range, error)
	// Audience is who may see a conversation: with version 0 now, and otherwise at that
	// members' version or a later one, which costs nothing where it is known. NOT_FOUND.
	Audience(ctx context.Context, conv ConvID, version int64) (*Audience, error)
	// Lagging lists conversations in which the device is behind (with all: all of
	// the user's), those that have waited longest first, at most limit.
	Lagging(ctx context.Context, session Session, all bool, limit int) (LaggingPage, error)
	// Lags answers, for each query, where that device's cursor and its user's head
	// stand; in the order asked. A zero Head: not the user's conversation.
	Lags(ctx context.Context, queries []LagQuery) ([]Lag, error)
	// Written lists conversations written at or after since by the store's clock,
	// with their audience, and the time to ask from next. The windows of two calls
	// overlap by more than the longest commit. since 0 means from now on.
	Written(ctx context.Context, since Millis) (Written, error)
}

// Audience is who may see a conversation. It is shared and never modified.
type Audience struct {
	Conv    ConvID
	Version int64
	Members map[UserID]Periods // former members included
	Current int                // members with an open period
}

// Range is part of a log with its audience.
type Range struct {
	Events   []Event
	Audience *Audience
	Head     Seq // of the conversation, not of any one user
	Epoch    Epoch
	More     bool
}

// LaggingPage is the answer to Lagging.
type LaggingPage struct {
	Convs []ConvState
	More  bool
	Epoch Epoch
}

// LagQuery asks for the state of one device in one conversation.
type LagQuery struct {
	Session Session
	Conv    ConvID
}

// Lag is where a device stands.
type Lag struct {
	Head      Seq
	Delivered Seq
}

// WrittenConv is a conversation that was written lately.
type WrittenConv struct {
	Conv     ConvID
	Head     Seq // of the conversation
	Audience *Audience
}

// Written is the answer to the call of that name.
type Written struct {
	Convs []WrittenConv
	Next  Millis
	Epoch Epoch
}
