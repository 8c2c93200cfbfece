// Package fault names the points at which a fault can be injected, and the bugs
// that can be planted to show that a check finds them. Without the build tag
// "fault" every call is a constant that the compiler removes: the normal binary
// has neither.
package fault

// Bug is the name of a planted bug: a guard that is switched off. Each is used
// at the guard it names.
type Bug string

// The bugs that can be planted (IM_BUG in a binary built with -tags fault).
const (
	SentBeforeCommit    Bug = "sent-before-commit"    // D1: answer before the transaction has committed
	AnswersBeforeCommit Bug = "answers-before-commit" // D1: an answer is kept for what the store has not acknowledged
	DedupApart          Bug = "dedup-apart"           // D2: the dedup key is committed before the event
	NoDedup             Bug = "no-dedup"              // D2: the unique key decides nothing
	AckOnPush           Bug = "ack-on-push"           // D3: a pushed event counts as delivered
	CursorBack          Bug = "cursor-back"           // D4: the last ack wins instead of the highest
	CursorAhead         Bug = "cursor-ahead"          // D4: an ack beyond head is taken
	NoSweep             Bug = "no-sweep"              // D5: nobody looks for lost pushes
	SweepAsksAll        Bug = "sweep-asks-all"        // D5: each sweep compares every connection in full
	MissedUntold        Bug = "missed-untold"         // D5: a bus that hears again does not say that it was deaf
	ClockSetBack        Bug = "clock-set-back"        // D5: the store follows the machine's clock back
	NoFlush             Bug = "no-flush"              // D6: the store does not wait for the disk
	DupUnwritten        Bug = "dup-unwritten"         // D6: a duplicate is answered without a write, which would wait for the standby
	CleansByOwnClock    Bug = "cleans-by-own-clock"   // D1: what is too old to be kept is so by the node's own clock
	DueByOwnClock       Bug = "due-by-own-clock"      // D10: a retry in Redis is due by the gateway's own clock
	SeqHole             Bug = "seq-hole"              // D7: a refused item uses up a seq
	SeesAllPush         Bug = "sees-all-push"         // D8: pushes ignore membership periods
	SeesAllSync         Bug = "sees-all-sync"         // D8: pages ignore membership periods
	OldInstallCounts    Bug = "old-install-counts"    // D9: cursors of an earlier install count
	NIgnored            Bug = "n-ignored"             // D9: a rolled-back store is not noticed
	OldSessionAcks      Bug = "old-session-acks"      // D9: an ack of an older connection counts
	RetriesForEver      Bug = "retries-for-ever"      // D10: retries do not stop
	SetsOrphaned        Bug = "sets-orphaned"         // D10: nobody takes over what a dead gateway has left
	KeysCollide         Bug = "keys-collide"          // D12: sender and cmid are joined without a border
	BatchFailsTogether  Bug = "batch-fails-together"  // D13: one refused item fails its neighbours
	PrevIgnored         Bug = "prev-ignored"          // D14: prev is not looked at
	QueueUnbounded      Bug = "queue-unbounded"       // D15: a slow reader's queue grows
	RecallKeepsBody     Bug = "recall-keeps-body"     // D17: the target keeps its body and is not marked
	RecallFreesDedup    Bug = "recall-frees-dedup"    // D17: the dedup row of a recalled message goes with it
	KeepsEpoch          Bug = "keeps-epoch"           // D18: a changed history keeps its epoch, whatever it lacks
	AnswersOutliveEpoch Bug = "answers-outlive-epoch" // D18: a kept answer is given in another epoch
	ThroughSkipsVisible Bug = "through-skips-visible" // D3: through runs ahead of an early page end
)

// The bugs that can be planted in the Go SDK.
const (
	ClientCMIDAnew         Bug = "client-cmid-anew"         // D2: a retry gets a cmid of its own
	ClientAcksEarly        Bug = "client-acks-early"        // D3: an event is acknowledged before it is stored
	ClientCursorOverGap    Bug = "client-cursor-over-gap"   // D3: the cursor runs over what is missing
	ClientHandsOverGap     Bug = "client-hands-over-gap"    // D7: the application is handed what stands above a gap
	ClientHidesN           Bug = "client-hides-n"           // D9: a hello does not tell how often the store was written
	ClientReturns          Bug = "client-returns"           // D9: a client that was superseded comes back by itself
	ClientRefusesAll       Bug = "client-refuses-all"       // D13: one final refusal is taken for all that wait
	ClientNoPrev           Bug = "client-no-prev"           // D14: a message does not name the one before it
	ClientForgetsSent      Bug = "client-forgets-sent"      // D16: a message leaves the outbox when it is sent
	ClientForgetsUndone    Bug = "client-forgets-undone"    // D16: what a new epoch has undone is not sent again
	ClientWaitsForEver     Bug = "client-waits-for-ever"    // D16: a lost reply is waited for as long as the connection lives
	ClientKeepsBody        Bug = "client-keeps-body"        // D17: a recall leaves the text in the store
	ClientLateBody         Bug = "client-late-body"         // D17: a message that comes after its recall keeps its text
	ClientForgetsCancelled Bug = "client-forgets-cancelled" // D17: a cancelled message that was stored all the same stays
)
