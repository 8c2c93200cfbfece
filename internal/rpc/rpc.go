// Package rpc is impart.Logic and impart.Admin over gRPC: a [Server] in front of
// them on a logic node, and a [Client] that implements both at a gateway. Every
// field arrives byte for byte and every error with its code. It keeps no truth:
// what is lost with a connection is repeated on another node where a repeat changes
// nothing, and is UNAVAILABLE otherwise. It decides no rule, and never answers for
// the store.
//
// Sends, acks and reads of ranges go in batches over long-lived streams: what waits
// together shares a frame, and a lone one waits for nobody. All else is a call of
// its own, so that no page stands in the way of a message.
package rpc

import "time"

// The versions of the protocol that this program speaks; both sides take the newest
// that they share.
const (
	newestProtocol = 1
	oldestProtocol = 1
)

// How a node tells that it lives, and when it is taken for lost.
const (
	beatEvery = 500 * time.Millisecond
	// silence is how long a client waits for a beat before it gives the node up.
	silence = 3 * time.Second
	// stale is how old the newest beat that a client has heard may be when the node
	// begins what must not be carried out late. It is below silence, so that nothing
	// of a frozen node begins once its client has turned to another one.
	stale = 2500 * time.Millisecond
)

// Bounds on what travels.
const (
	maxFrameItems = 512
	maxFrameBytes = 1 << 20
	// maxCallBytes is how much of one Send travels at once; a longer one goes in parts.
	maxCallBytes = 4 << 20
	// maxRequest is the largest message that a node reads, and maxReply a client.
	maxRequest = 16 << 20
	maxReply   = 64 << 20
	// maxFrames is how many frames of one stream may wait for their answers.
	maxFrames = 32
	// maxQueued and maxQueuedBytes bound what waits for a stream; past them requests
	// are refused as OVERLOADED.
	maxQueued      = 16 << 10
	maxQueuedBytes = 32 << 20
	// windowStream and windowConn are how much may be under way before its reader has
	// taken some, in bytes (flow control of HTTP/2).
	windowStream = 1 << 20
	windowConn   = 8 << 20
)

// overloadedRetry is what OVERLOADED tells a caller to wait.
const overloadedRetry = 250 * time.Millisecond
