package store

import (
	"context"
	"time"

	"github.com/impart-im/impart"
)

// Failover is how a change of the store's own history is found and judged (D18):
// another server answers, a standby was promoted, a backup was put back. A store
// that finds one out halts: from then on nothing is written, read or answered until
// [Failover.Judge] has accepted what is there now, and every method but those of
// this interface gets UNAVAILABLE. It never goes back by itself to a history that is
// older than one it has met.
//
// A store that its process alone can reach never halts, and does nothing here.
type Failover interface {
	// Beat notes that the node is alive, in a commit of its own. Whoever has promised
	// something keeps the beats too: what was committed before a beat that is there
	// is there.
	Beat(ctx context.Context, node Node) (Beat, error)
	// Leave notes that the node has ended in good order: nobody waits for it.
	Leave(ctx context.Context, node Node) error
	// Halted is nil while the accepted history is the one that is there, as far as
	// this store knows. It costs nothing.
	Halted() *Halt
	// Look asks the database anew, on a new connection. It ends a halt only when the
	// accepted history is there, and no newer one was met.
	Look(ctx context.Context) (*Halt, error)
	// Missing are those of the promises that the history of halt does not keep. An
	// error when another one is met.
	Missing(ctx context.Context, halt *Halt, promises []Promise) ([]Promise, error)
	// Judge gives this node's verdict on the history of halt, and decides if it can,
	// in one transaction that locks the row of [Meta]: so each change is decided once.
	//
	//  1. If nobody has decided, the verdict is written (the last one of a node
	//     counts), and rule says what follows from all that are there: to wait, to keep
	//     the epoch, or to raise it above every epoch that a verdict or the row knows,
	//     as RaiseEpoch does. Nodes without a verdict count as dead from the decision on,
	//     until they beat again; their beats stay, since they may look for them later.
	//  2. If somebody has, and counted this node's verdict, that is the answer.
	//  3. If somebody has, and did not, the verdict is added to those that count; the
	//     epoch is raised (again) if something is missing.
	//
	// After a decision the store goes on with what was accepted. An error when another
	// history is met than that of halt; when the outcome is unknown, ask again.
	Judge(ctx context.Context, halt *Halt, verdict Verdict, rule Rule) (Judgement, error)
}

// Node is one process that serves the store.
type Node struct {
	ID   string // unique, for as long as the process runs
	Name string // for people
}

// Beat is the answer to the call of that name.
type Beat struct {
	// Alone says that the store is this process's alone, and never halts.
	Alone  bool
	Number int64 // rises with each beat of the node
	// Replicated says that this beat's commit waited for a standby, as the database's
	// settings have it.
	Replicated bool
	// Namesakes are other nodes of the same name that have beaten lately.
	Namesakes int
}

// Halt is a change that waits for its judgement.
type Halt struct {
	Was Meta // what this node has accepted
	Now Meta // what is there: the server's own name, and the epoch in its row
	// Change names the change, with the same text on every node that finds it
	// undecided.
	Change string
	// Judged says that another node has decided.
	Judged bool
	// Behind says that what is there ends before something that was acknowledged to
	// this node: no promises are needed to see that commits are gone.
	Behind bool
}

// What says what a promise is about.
type What string

// The kinds of promises, each with what has to be there.
const (
	// PromisedMessage: the event (Conv, Seq) has MID, unless retention has removed it.
	PromisedMessage What = "message"
	// PromisedShown is as PromisedMessage: nobody was told that it is stored, but it
	// was pushed or read.
	PromisedShown What = "shown"
	// PromisedCursor: (User, Device) has Conv up to Seq in Install and Epoch, or has a
	// later one of those.
	PromisedCursor What = "cursor"
	// PromisedRead: User has read Conv up to Seq in Epoch, or there is a later one.
	PromisedRead What = "read"
	// PromisedSession: (User, Device) has session Number or a higher one.
	PromisedSession What = "session"
	// PromisedChange: Conv is there, and its log ends at Seq or later.
	PromisedChange What = "change"
	// PromisedBeat: the node named by Node has beat Number or a higher one.
	PromisedBeat What = "beat"
)

// Promise is what has to be there because somebody was told so. Fields that its
// kind does not name are for the log.
type Promise struct {
	What    What
	Conv    impart.ConvID
	Seq     impart.Seq
	MID     impart.MID
	CMID    impart.CMID
	User    impart.UserID
	Device  impart.DeviceID
	Install impart.InstallEpoch
	Epoch   impart.Epoch
	Node    string
	Number  int64
	Made    impart.Millis // when it was given, since the node's start
}

// Verdict is what one node knows of a change.
type Verdict struct {
	Node    Node
	Checked int          // promises that were looked up
	Missing int          // those of them that are not kept
	Lost    int          // those of the missing that are messages
	Epoch   impart.Epoch // the highest that the node knows
	Behind  bool         // see [Halt]
	// Vouched says that the operator vouches for a replication that loses nothing, and
	// that the settings of the database said the same when the node last beat.
	Vouched bool
}

// Bench is all that is known of a change when it is judged. Times are the
// database's.
type Bench struct {
	Now      impart.Millis
	First    impart.Millis // when the first verdict was given
	Nodes    []Seen
	Verdicts []Verdict
}

// Seen is when a node has last beaten, in the history that is judged. The times of
// two nodes may be compared with one another; not with Now, which may be another
// machine's.
type Seen struct {
	Node Node
	At   impart.Millis
}

// Ruling is what a rule finds.
type Ruling int

// The rulings.
const (
	Wait  Ruling = iota // a verdict is still to come
	Keep                // the epoch stays: nothing that was acknowledged is missing
	Raise               // the epoch is raised: something is missing, or nobody can tell
)

// Rule judges a change. It has no other effects, and may be asked again.
type Rule func(Bench) Ruling

// Judgement is what became of a change.
type Judgement struct {
	Meta    Meta // what counts now; empty while a verdict is waited for
	Waiting bool // nobody has decided
	Decided bool // this call has
	Late    bool // others had, without this node's verdict
	Raised  bool // this call has raised the epoch
	// Counted are the verdicts that another node's decision rests on, by node.
	Counted []Verdict
}

// FreshBeat is how long ago at most a node has beaten that is taken to be alive.
const FreshBeat = 5 * time.Second

// DeadFor is how long before a decision a node without a verdict is taken to have
// beaten last.
const DeadFor = time.Hour

// HaltedRetry is what the UNAVAILABLE of a halted store tells a caller to wait.
const HaltedRetry = 500 * time.Millisecond
