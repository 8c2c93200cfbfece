package simulate

import (
	"fmt"
	"sync"
	"time"

	"github.com/impart-im/impart/internal/lab/campaign"
	"github.com/impart-im/impart/internal/lab/campaign/history"
	"github.com/impart-im/impart/internal/lab/world"
	"github.com/impart-im/impart/wire"
)

// watch is what the frames of a run are written down with.
type watch struct {
	mu   sync.Mutex // guards what follows
	tape *history.Tape
	plan *campaign.Plan
}

func (w *watch) set(tape *history.Tape, plan *campaign.Plan) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tape, w.plan = tape, plan
}

func (w *watch) get() (*history.Tape, *campaign.Plan) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tape, w.plan
}

// flushBytes is how much a gateway takes from its queue at once, about.
const flushBytes = 64 << 10

// look writes down what a frame shows. n.mu is held.
func (n *net) look(f world.Frame, fate world.Fate) {
	tape, plan := n.field.seen.get()
	if tape == nil {
		return
	}
	if !f.FromServer {
		if f.T == "ack" && fate != world.Drop && fate != world.Cut {
			n.lookAtAck(f)
		}
		return
	}
	switch f.T {
	case "event", "synced", "pulled", "hint", "welcome", "bye", "convs":
	default:
		return
	}
	frame, err := wire.DecodeServer(f.Text)
	if err != nil {
		tape.Wrong("D13", "a frame of the server that is none: %v", err)
		return
	}
	user := plan.Phones[n.device%100].User
	switch frame := frame.(type) {
	case *wire.Welcome:
		n.attempts = history.NewAttempts()
	case *wire.Event:
		tape.Saw(user, frame.Epoch, *frame.Event)
		n.lookAtPush(tape, frame, len(f.Text))
	case *wire.Synced:
		tape.Saw(user, frame.Page.Epoch, frame.Page.Events...)
	case *wire.Pulled:
		for i := range frame.Pulled.Convs {
			tape.Saw(user, frame.Pulled.Epoch, frame.Pulled.Convs[i].Events...)
		}
	case *wire.Hint:
		if frame.Why == wire.WhyResume {
			n.attempts.Anew()
		}
		if frame.Why != wire.WhyRetry {
			return
		}
		n.attempts.Hinted(tape, n.name(), frame.Conv)
	case *wire.Bye:
		if frame.Code == wire.ByeSuperseded {
			n.byes++
		}
	}
}

func (n *net) lookAtAck(f world.Frame) {
	frame, _, err := wire.Decode(f.Text)
	if err != nil {
		return
	}
	if ack, ok := frame.(*wire.Ack); ok {
		for _, item := range ack.Items {
			n.attempts.Acked(item.Conv)
		}
	}
}

// lookAtPush counts how often an event is pushed (D10), and how much comes at
// once after nothing could (D15).
func (n *net) lookAtPush(tape *history.Tape, frame *wire.Event, size int) {
	n.attempts.Pushed(tape, n.name(), frame.Event.Conv, frame.Event.Seq)
	if n.released.IsZero() || time.Since(n.released) > time.Millisecond {
		return
	}
	// What was taken from the queue to be written at once, the queue, and frames on their way.
	if n.burst += size; n.burst > flushBytes+2*queueBytes {
		tape.Wrong("D15", "%d bytes of events waited for device %d, which took nothing; %d may wait", n.burst, n.device, queueBytes)
	}
}

func (n *net) name() string { return fmt.Sprintf("device %d", n.device) }
