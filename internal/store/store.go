// Package store says what a store must do. The store is the only truth: what it
// has committed is a promise to a sender, and every other part can be rebuilt
// from it. Implementations are checked by one suite, internal/conformance.
//
// Every method is safe for concurrent use. A refusal is an [impart.Error]; any
// other error means that the outcome is unknown. Every write is durable when
// its method returns, and every reader sees whole transactions in commit order:
// nobody sees seq n+1 of a conversation before n (D7), and a read that starts
// after a write has returned sees it.
//
// Writes that arrive while a commit is under way share the next one; a lone one
// waits for nobody.
//
// A user's head in a conversation is the highest seq of an event that they may
// see (impart.Periods.Sees): a recall that they may not see does not raise it, a
// recall after they left of a message that they saw does. What retention removed
// counts by its seq alone. The head of a conversation is its last seq.
package store

import (
	"context"
	"time"

	"github.com/impart-im/impart"
)

// Store is everything Impart needs of a database.
type Store interface {
	Log
	Cursors
	Directory
	Upkeep
	Failover
}

// Log keeps the events.
type Log interface {
	// Append stores messages and recalls. Results are in the order of the items;
	// items of one call to one conversation get ascending seqs. One item that is
	// refused leaves no trace and fails alone (D13). The steps for one item, all in
	// the transaction that commits it:
	//
	//  1. EPOCH_CHANGED unless Epoch is 0 or current.
	//  2. The unique key (Sender, CMID), byte for byte. If it is taken: CMID_REUSED
	//     unless Hash is equal, else the first attempt's Seq, MID and At with Dup,
	//     after the transaction has changed the row: also one that only answers
	//     duplicates writes and commits, so that what it answers is as durable as
	//     a first answer, and may be kept like one (invariants, hole 16). Two items
	//     of one call may share a key.
	//  3. Refused, if that is set.
	//  4. NOT_MEMBER unless Sender has an open period in Conv or is [impart.System].
	//  5. OUT_OF_ORDER unless Prev is "" or stored in Conv by Sender, in this call
	//     before the item or earlier; where its dedup row is gone, events decide.
	//  6. For a recall: CURSOR_AHEAD if Target is beyond the sender's head;
	//     RECALL_REFUSED if Target is not a visible message, is already recalled, was
	//     sent before NotBefore, has another MID than TargetMID (if given), or is
	//     neither the sender's own nor the sender an admin of the conversation or
	//     [impart.System]. The target loses body and ext and is marked in the same transaction (D17).
	//  7. The next seq of the conversation, which a failed transaction gives back.
	//
	// With dedup rows cleaned away (CleanDedup), step 2 also looks for an event with
	// the same conversation, sender and cmid, whose kind, type, body, ext and target
	// then stand for the hash. A recall brings its target's row back first.
	Append(ctx context.Context, items []Append) []Appended
	// Page reads what a user may see, in one snapshot. Filters and refusals as in
	// [impart.Log.Sync]. A page ends after Limit events or before the encoded size
	// of its events (see [Size]) passes MaxBytes, but never before its first event.
	// After and Before are already checked to be exclusive. An After below floor is
	// as good as floor; one above the user's head is ahead, even where retention has
	// removed what was there (D8).
	Page(ctx context.Context, query PageQuery) (impart.Page, error)
	// Range reads events from..through (visible to anybody), at most limit, with
	// the head and the members' version, in one snapshot. NOT_FOUND.
	Range(ctx context.Context, conv impart.ConvID, from, through impart.Seq, limit int) (Range, error)
	// Written lists heads of conversations whose last append was stored at or after
	// since (by the store's clock), ascending by time, at most limit. since 0 lists
	// nothing and returns the clock.
	//
	// Where several nodes write to one database the clock is the database's. Now is
	// read before the heads are, and it is never later than the begin of a transaction
	// that has written and not yet ended, on whatever node: what such a one stores is
	// found by asking again with since = Now, however long it took.
	Written(ctx context.Context, since impart.Millis, limit int) (Written, error)
}

// Append is one event to store.
type Append struct {
	Kind      impart.Kind // KindMsg or KindRecall
	Sender    impart.UserID
	Device    impart.DeviceID
	Conv      impart.ConvID
	CMID      impart.CMID
	Prev      impart.CMID
	Type      string
	Body      string
	Ext       []byte
	Target    impart.Seq    // recalls
	TargetMID impart.MID    // recalls, or ""
	NotBefore impart.Millis // recalls: the oldest target that may still be recalled; 0: any
	Epoch     impart.Epoch
	MID       impart.MID // proposed; kept if the item is stored
	At        impart.Millis
	// Hash is of all that makes the content: kind, conversation, type, body, ext,
	// target and target mid. Two attempts at one message have equal hashes.
	Hash [16]byte
	// Refused, unless nil, is a final refusal that the caller has found already: the
	// item is not stored, but is still answered if an earlier attempt at it was.
	Refused *impart.Error
}

// Appended is the outcome of one [Append].
type Appended struct {
	Seq   impart.Seq
	MID   impart.MID
	At    impart.Millis
	Dup   bool
	Epoch impart.Epoch
	Err   error
}

// PageQuery asks for a page; see [impart.Sync].
type PageQuery struct {
	User     impart.UserID
	Conv     impart.ConvID
	After    impart.Seq // used unless Back
	Before   impart.Seq // used if Back
	Back     bool
	AfterMID impart.MID
	Limit    int
	MaxBytes int
	Epoch    impart.Epoch
}

// Range is a part of a log.
type Range struct {
	Events  []impart.Event
	Head    impart.Seq
	Members int64 // the members' version of that snapshot
	Epoch   impart.Epoch
	More    bool
}

// Written is the answer to the method of that name.
type Written struct {
	Heads []Head
	Now   impart.Millis
	Epoch impart.Epoch
	More  bool // ask again with since = the last head's At
}

// Head is where a conversation's log ends.
type Head struct {
	Conv    impart.ConvID
	Head    impart.Seq
	Members int64
	At      impart.Millis
}

// Cursors keeps what devices have stored and users have read.
//
// A device's effective cursor in a conversation is delivered_seq of its row if
// install epoch and epoch are current, start_seq of its row if only the install
// epoch is, and the seq before its user's first visible event otherwise (D9);
// raised to floor, and never above the user's head. A read cursor of an older
// epoch is 0.
type Cursors interface {
	// Advance merges delivery cursors, each item by itself. Refusals: EPOCH_CHANGED,
	// STALE_INSTALL when the device has another install epoch or a newer session,
	// NOT_MEMBER, CURSOR_AHEAD; an item that is refused raises no n. Whether an item
	// is stale is decided in the transaction that merges it: one that is asked for
	// after a hello was answered finds the session of that hello (D9). Items may be
	// merged before they are written.
	Advance(ctx context.Context, items []Advance) []Advanced
	// MarkRead merges read cursors in the same way. EPOCH_CHANGED, NOT_MEMBER, CURSOR_AHEAD.
	MarkRead(ctx context.Context, items []MarkRead) []MarkedRead
	// Lagging lists conversations whose head is above the device's effective cursor
	// (with All: every conversation of the user), those whose cursor row was
	// written longest ago first (no row: first of all), then by id. STALE_INSTALL
	// when the device is unknown or has another install epoch.
	Lagging(ctx context.Context, query LaggingQuery) (impart.LaggingPage, error)
	// Lags answers each query, in order; zero for a conversation that is not the
	// user's. A query whose install epoch is not the device's gets delivered 0.
	Lags(ctx context.Context, queries []impart.LagQuery) ([]impart.Lag, error)
	// Convs pages through the user's conversations above after, ascending by id;
	// device "" leaves Delivered 0. MaxBytes bounds the page as in Page. Unread is
	// exact up to 1,000 as long as no more than 10,000 seqs lie above read; of more,
	// an engine may count among the newest only, at least among so many.
	Convs(ctx context.Context, user impart.UserID, device impart.DeviceID, after impart.ConvID, limit, maxBytes int) (impart.ConvsPage, error)
	// Report says who of those that may see the event have it, for users above
	// after, ascending. NOT_MEMBER, CURSOR_AHEAD, as user sees it; CURSOR_AHEAD also
	// for a seq the user may not see.
	Report(ctx context.Context, who impart.Who) (impart.Report, error)
}

// Advance is one acknowledgement.
type Advance struct {
	User    impart.UserID
	Device  impart.DeviceID
	Install impart.InstallEpoch
	// Session is the number of the hello that bound the connection which the ack
	// came on; 0 for an ack that came on none (HTTP), which only Install ties to the
	// device's store.
	Session int64
	N       *int64 // raises the device's n; nil leaves it
	Epoch   impart.Epoch
	Conv    impart.ConvID
	Seq     impart.Seq
}

// Advanced is the outcome of one [Advance].
type Advanced struct {
	Delivered impart.Seq // merged
	Moved     bool       // the cursor is above where it was
	Furthest  impart.Seq // of all the user's devices (current installs and epoch)
	Read      impart.Seq // the user's read cursor
	Err       error
}

// MarkRead is one move of a read cursor.
type MarkRead struct {
	User  impart.UserID
	Epoch impart.Epoch
	Conv  impart.ConvID
	Seq   impart.Seq
}

// MarkedRead is the outcome of one [MarkRead].
type MarkedRead struct {
	Read     impart.Seq // merged
	Moved    bool
	Furthest impart.Seq // what the user's devices have, as in [Advanced]
	Err      error
}

// LaggingQuery asks for the conversations in which a device is behind.
type LaggingQuery struct {
	User    impart.UserID
	Device  impart.DeviceID
	Install impart.InstallEpoch
	All     bool
	Limit   int
}

// Directory keeps users, devices, conversations and members.
type Directory interface {
	// Hello registers the device or finds it again, raises its session by one, and
	// makes an unknown user known; see [impart.Sessions.Hello] for installs and N.
	// STALE_INSTALL when the device's last hello was said after this one, by the store's
	// clock: one that was held up, and given up by its client, outdoes nobody. It refuses
	// nobody else: disabled and revoked users are the caller's business. With
	// History and a fresh install it writes the start of every conversation of the
	// user so that exactly that many visible events lie after it.
	Hello(ctx context.Context, hello Hello) (Device, error)
	// Visit registers an unknown device and raises nothing on a known one;
	// STALE_INSTALL when its install is another.
	Visit(ctx context.Context, user impart.UserID, device impart.DeviceID, install string) (Device, error)
	// Standings reads what is true now of the users and devices that the given sessions
	// name, in order.
	Standings(ctx context.Context, of []impart.Session) ([]Standing, error)
	// Devices lists devices by id, of every user or of one.
	Devices(ctx context.Context, device impart.DeviceID, user impart.UserID) ([]impart.DeviceInfo, error)
	// PutUser makes a user known; a nil field stays as it is. Revoked only rises.
	PutUser(ctx context.Context, user impart.UserID, disabled *bool, revoked *impart.Millis) (impart.UserInfo, error)
	// User is NOT_FOUND for an unknown user.
	User(ctx context.Context, user impart.UserID) (impart.UserInfo, error)

	// PutConversation as [impart.Admin] has it. at and mids of the join events come
	// from stamp, which is called once for each.
	PutConversation(ctx context.Context, spec impart.ConvSpec, stamp Stamp) (info impart.ConvInfo, created bool, err error)
	// PutMember opens a period with its join event, in one transaction: from the
	// join event's seq, or with history "all" from the end of the user's last period
	// (from 1 without one). A member stays as they are, except for the role.
	// NOT_FOUND; INVALID for a direct conversation.
	PutMember(ctx context.Context, conv impart.ConvID, member impart.Member, by impart.UserID, stamp Stamp) (info impart.ConvInfo, joined bool, err error)
	// RemoveMember closes the period with its leave event, which is the last one
	// the user sees of it. INVALID for a direct conversation.
	RemoveMember(ctx context.Context, conv impart.ConvID, user, by impart.UserID, stamp Stamp) (info impart.ConvInfo, left bool, err error)
	// Conversation is NOT_FOUND for an unknown one.
	Conversation(ctx context.Context, conv impart.ConvID) (impart.ConvInfo, error)
	// Audience lists who may see a conversation. NOT_FOUND.
	Audience(ctx context.Context, conv impart.ConvID) (*impart.Audience, error)
	// Delivery as [impart.Admin] has it.
	Delivery(ctx context.Context, conv impart.ConvID, seq impart.Seq) (impart.Delivery, error)
}

// Stamp gives the id and the time of an event that the store writes on its own.
type Stamp func() (impart.MID, impart.Millis)

// Hello binds a device.
type Hello struct {
	User    impart.UserID
	Device  impart.DeviceID
	Install string
	N       *int64
	History *int64
	Said    time.Time // by this process's clock; the zero time is now
}

// Device is a device as a hello left it.
type Device struct {
	Install impart.InstallEpoch
	N       int64
	Session int64
	Fresh   bool // unknown before, reinstalled, or rolled back
	Epoch   impart.Epoch
}

// Standing is what the sessions of one device are measured by. Of an unknown user or
// device its part is zero.
type Standing struct {
	Session  int64         // the device's highest
	Disabled bool          // the user
	Revoked  impart.Millis // tokens of the user from before are
}

// Upkeep is what an operator and the server itself need.
type Upkeep interface {
	// Meta is the store's epoch and incarnation.
	Meta(ctx context.Context) (Meta, error)
	// RaiseEpoch sets the epoch to max(old + 1, now). Cursors of the older epoch
	// stop counting at once.
	RaiseEpoch(ctx context.Context, now impart.Millis) (impart.Epoch, error)
	// Retain removes at most limit events that are older than before, from the old
	// end of their conversations, and raises floor in the same transaction.
	Retain(ctx context.Context, before impart.Millis, limit int) (removed int, more bool, err error)
	// CleanDedup removes at most limit dedup rows that are older than before, but
	// never those of recalled messages (D17).
	CleanDedup(ctx context.Context, before impart.Millis, limit int) (removed int, more bool, err error)
	// DedupKeys lists keys of messages that were sent at since or later, by the clock of
	// whoever stored them, ascending by that time, at most limit; those of recalled
	// messages may be left out. What commits later may have an earlier time: the list is
	// for filters that may lack any key.
	DedupKeys(ctx context.Context, since impart.Millis, limit int) ([]DedupKey, error)
	// Settings are the settings on which D1 and D6 rest, as the database reports them.
	Settings(ctx context.Context) ([]Setting, error)
	// Vitals are the server's clock and what commits wait for. It only reads, and
	// answers also while every commit waits and while the store is halted.
	Vitals(ctx context.Context) (Vitals, error)
	// Ping writes nothing and answers when the store can read.
	Ping(ctx context.Context) error
	// Stats counts what was done since the store was opened.
	Stats() Stats
	// Close finishes what is under way, refuses what comes after it with
	// UNAVAILABLE, and returns when all of the store's goroutines have ended.
	Close() error
}

// DedupKey is the unique key of a message, with the time at which it was sent.
type DedupKey struct {
	User impart.UserID
	CMID impart.CMID
	At   impart.Millis
}

// Meta is what a store says of its own history.
type Meta struct {
	Epoch       impart.Epoch
	Incarnation string
}

// Setting is one setting that durability depends on.
type Setting struct {
	Name  string // as the database names it
	Value string
	Want  string
	Safe  bool
	Why   string // what breaks otherwise
}

// Vitals is how a database's server is.
type Vitals struct {
	// Now is what the server's clock showed when this machine's showed Asked, to within
	// half of Took, which the question took. All are zero where there is no such clock.
	Now   impart.Millis
	Asked time.Time
	Took  time.Duration
	Standby
}

// Standby is what commits wait for besides the database's own server.
type Standby struct {
	Names string // of the standbys, or the kind of the replication; "" if no commit waits
	// Connected is how many standbys follow the server, those included that no commit
	// waits for.
	Connected int
	// Waiting is how many of this role's sessions have waited for a standby for more
	// than a second, and Longest how long the first of them has.
	Waiting int
	Longest time.Duration
}

// Stats counts a store's work since it was opened.
type Stats struct {
	Commits int64 // transactions that wrote
	Items   int64 // appends, advances, reads and others that shared them
	Queue   int   // items waiting for a commit now
	Dups    int64 // appends answered with Dup
	// Slowest is the longest commit of late; windows of Written must overlap by more.
	Slowest impart.Millis
	Reads   int64 // read transactions
	// Failing: the last transaction that was to write could not, as on a full disk.
	Failing bool
}

// Size is the number of bytes that ev is counted with in a page: not less than
// its encoded JSON object and the comma after it.
func Size(ev *impart.Event) int {
	n := 256 + len(ev.Ext) + 2*(len(ev.Conv)+len(ev.Sender)+len(ev.CMID)+len(ev.User)+len(ev.By)) + len(ev.MID) + len(ev.TargetMID)
	return n + escapedLen(ev.Type) + escapedLen(ev.Body)
}

// escapedLen is the length of s as JSON text, at most.
func escapedLen(s string) int {
	n := len(s)
	for i := range len(s) {
		switch c := s[i]; {
		case c < 0x20:
			n += 5
		case c == '"', c == '\\':
			n++
		}
	}
	return n
}
