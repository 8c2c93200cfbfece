// Package bench loads a running Impart over its WebSocket protocol, measures it,
// and looks afterwards whether what was promised was kept: a run whose logs lack
// a message that was answered with sent, or hold one twice, has failed, however
// fast it was. Latencies of an open loop count from the time at which a request
// was due, so that a server that stalls cannot hide the requests it delayed.
package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// Target is the server under load, as the bench reaches it.
type Target struct {
	// Label tells this server's checks from another's in one report; "" for the main one.
	Label string
	// URL is the server's address: http://HOST:PORT, or https.
	URL string
	// User is the i-th user of the load (from 0), with a token that signs it in.
	User func(i int) (impart.UserID, string, error)
	// PutConversation makes a group.
	PutConversation func(ctx context.Context, conv impart.ConvID, members []impart.UserID) error
	// Metrics reads the server's /metrics.
	Metrics func(ctx context.Context) ([]byte, error)
	// Process is the server's process where the bench has started it; else nil.
	Process *Process
	// Logic is the logic node's process where the roles are apart, and LogicMetrics its
	// /metrics, which are part of Metrics too; else nil.
	Logic        *Process
	LogicMetrics func(ctx context.Context) ([]byte, error)
	// Database is what the processes of a private database have used of the
	// processors so far; nil where the store is in the server's process, or elsewhere.
	Database func() time.Duration
	// Storage tells what the store has counted so far; nil where that is not known.
	Storage func(ctx context.Context) (Storage, error)
}

// Env is what a bench needs besides the load it makes.
type Env struct {
	// Start gives the server to measure. Each call with naive, or again after
	// Target.Process was stopped, starts another private server; nil Process in
	// what it returns means a server that was running before.
	Start func(ctx context.Context, naive bool) (*Target, error)
	// StartApart is Start for a gateway and a logic node as processes of their own, of
	// which the Process is the gateway; nil where that cannot be.
	StartApart func(ctx context.Context) (*Target, error)
	// Again starts a private server on the store of one that has ended.
	Again func(ctx context.Context, ended *Process) (*Target, error)
	// OpenStore opens a store of the kind that a private server has, in a new
	// folder on the same disk, for yardsticks. nil where the server is elsewhere.
	OpenStore func(ctx context.Context) (store.Store, error)
	// Capacity is how many connections a private server takes; 0: not known.
	Capacity int
	// Progress is told about once a second how far a window has come; may be nil.
	Progress func(Progress)
	// Report gathers what is measured.
	Report *Report

	run      string
	patience time.Duration // see [Env.catchUp]; 0: the default
}

// Progress is how far a window has come.
type Progress struct {
	Window string
	Spent  time.Duration
	Of     time.Duration // 0: no known end
	Done   int64         // operations so far
	Rate   float64       // operations a second, of late
	Unit   string        // what an operation is
	P99    time.Duration // of late; 0: none was measured
}

// Run is a short random name: everything that a run makes has it in its id, so
// that runs against one server do not meet.
func (e *Env) Run() string {
	if e.run == "" {
		e.run = strings.ToLower(rand.Text()[:6])
	}
	return e.run
}

func (e *Env) conv(i int) impart.ConvID {
	return impart.ConvID(fmt.Sprintf("bench-%s-c-%04d", e.Run(), i))
}

// tell reports progress.
func (e *Env) tell(p Progress) {
	if e.Progress != nil {
		e.Progress(p)
	}
}

// outlive is a context for what must be done although ctx has ended: looking
// whether what was measured until then is right.
func outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 10*time.Minute)
}

// room says in time that there are too few descriptors.
func (e *Env) room(connections int) error {
	const others = 64
	if limit := descriptors(); limit > 0 && connections+others > limit {
		return fmt.Errorf("%d connections need %d open files, and this process may open %d: raise the hard limit (ulimit -Hn, LimitNOFILE), or use fewer", connections, connections+others, limit)
	}
	if e.Capacity > 0 && connections > e.Capacity {
		return fmt.Errorf("a server of its own takes %d connections within this limit of open files, and %d are wanted: raise the hard limit (ulimit -Hn, LimitNOFILE), or use fewer", e.Capacity, connections)
	}
	return nil
}
