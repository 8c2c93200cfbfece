package fault

import "errors"

// Point names a place where IM_FAULT can strike, in a binary built with -tags
// fault. A hit is one passage of the place.
type Point string

// The points, in the order in which a message passes them.
const (
	BeforeInsert Point = "send.before_insert"    // a transaction with sends has begun and written nothing of them
	BeforeCommit Point = "send.before_commit"    // it has written them and not committed
	AfterCommit  Point = "api.after_send_commit" // a send has committed and is neither published nor answered
	ReplySend    Point = "gw.reply.send"         // the reply to a send, over a connection
	Push         Point = "gw.push"               // event frames to one connection, retries included; no hints
	Ack          Point = "gw.ack"                // an ack frame that came in over a connection
)

// Points lists every point.
func Points() []Point { return []Point{BeforeInsert, BeforeCommit, AfterCommit, ReplySend, Push, Ack} }

// Struck is how the line begins that a process writes to standard error each time
// a fault strikes at a point: what looks from outside counts them.
func Struck(p Point) string { return "fault struck point=" + string(p) + " " }

// What [At] returns where a fault strikes. Both are errors that the caller
// reports as UNAVAILABLE, except for ErrDropped at a point about frames: there
// the frames are not written, and nobody is told.
var (
	ErrInjected = errors.New("injected by IM_FAULT")
	ErrDropped  = errors.New("dropped by IM_FAULT")
)
