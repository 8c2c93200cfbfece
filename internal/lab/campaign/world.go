package campaign

import (
	"context"
	"net/http"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
)

// World is where a plan is run: a server, its operator, and a network for each
// device. Its methods are called by one goroutine, except where they say so.
type World interface {
	// Start starts the server on what its store holds, to die at a point.
	Start(death Death) error
	// Kill ends it as kill -9 does. It does nothing while it is down.
	Kill()
	// Drain ends it as SIGTERM does.
	Drain() error
	// Died reports whether it has ended by itself.
	Died() bool
	// Keep puts a backup aside: a copy of what has committed.
	Keep() error
	// Restore brings the backup back while the server is down, and Logs are then
	// what it holds.
	Restore() error

	// Network is that of a device, by its number.
	Network(device int) Network
	// Beat is the length of one.
	Beat() time.Duration
	// Patience is how long a healed world may take to come to rest, at most.
	Patience() time.Duration
	// Tune sets the times of a client.
	Tune(cfg *client.Config)
	// Dir is an empty folder of the run for the stores of devices.
	Dir() string

	Service
}

// Service is what the server is asked for beside what devices ask for. Any call
// may fail while it is away.
type Service interface {
	Create(ctx context.Context, spec impart.ConvSpec) error
	Member(ctx context.Context, join bool, conv impart.ConvID, user impart.UserID) error
	// RaiseEpoch raises it. UNAVAILABLE: it was not raised, or nobody knows, and it is
	// worth asking again.
	RaiseEpoch(ctx context.Context) (impart.Epoch, error)
	// Send stores messages at once, each with an outcome of its own.
	Send(ctx context.Context, sends []impart.Send) []impart.Sent
	// Ack is that of a bare device, the observer's, of a user.
	Ack(ctx context.Context, user impart.UserID, conv impart.ConvID, seq impart.Seq) (impart.Seq, error)
	// Page reads what a user may see above a seq.
	Page(ctx context.Context, user impart.UserID, conv impart.ConvID, after impart.Seq, limit int) (impart.Page, error)
	// Cursors are the delivery cursors of a device.
	Cursors(ctx context.Context, user impart.UserID, device impart.DeviceID) (map[impart.ConvID]impart.Seq, error)
}

// Network is the one of a device. Its methods may be called at any time.
type Network interface {
	URL() string
	HTTPClient() *http.Client
	Cut()
	// Set is how it treats frames from now on.
	Set(w Weather)
	// Lose drops, of what a device sends or gets, the frames of these types; "retry"
	// are hints that stand for a retry. Without any it stops. It reports whether it
	// can do that.
	Lose(types ...string) bool
	// Hold lets nothing reach the device until Release.
	Hold()
	Release()
	// Byes is how often the device was seen to be told that another connection has
	// taken its place.
	Byes() int
	// OnAck calls f, once, with the next ack before it leaves the device, and cuts
	// the connection behind it. It reports whether it can do that.
	OnAck(f func(acks []impart.AckItem)) bool
}
