package simulate

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/lab/campaign"
	"github.com/impart-im/impart/internal/lab/campaign/history"
	"github.com/impart-im/impart/internal/lab/world"
	"github.com/impart-im/impart/wire"
)

// maxLate bounds how late a frame may be.
const maxLate = 1500 * time.Millisecond

// net is the network of one device.
type net struct {
	field  *Field
	device int
	link   *world.Link

	mu       sync.Mutex // guards what follows
	draw     *rand.Rand
	weather  campaign.Weather
	lose     []string
	held     chan struct{} // closed when it ends; nil: nothing is held
	released time.Time
	burst    int // bytes of events that came with the release
	onAck    func([]impart.AckItem)
	attempts *history.Attempts
	byes     int
}

// URL implements [campaign.Network].
func (n *net) URL() string { return world.URL }

// HTTPClient implements [campaign.Network].
func (n *net) HTTPClient() *http.Client { return n.link.HTTPClient() }

// Cut implements [campaign.Network].
func (n *net) Cut() { n.link.Cut() }

// Byes implements [campaign.Network].
func (n *net) Byes() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.byes
}

// Set implements [campaign.Network].
func (n *net) Set(w campaign.Weather) {
	n.mu.Lock()
	n.weather = w
	n.mu.Unlock()
	if w.Off {
		n.link.Off()
		return
	}
	n.link.On()
}

// Lose implements [campaign.Network].
func (n *net) Lose(kinds ...string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lose = kinds
	return true
}

// Hold implements [campaign.Network].
func (n *net) Hold() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.held == nil {
		n.held = make(chan struct{})
	}
}

// Release implements [campaign.Network].
func (n *net) Release() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.held != nil {
		close(n.held)
		n.held, n.released, n.burst = nil, time.Now(), 0
	}
}

// OnAck implements [campaign.Network].
func (n *net) OnAck(f func([]impart.AckItem)) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.onAck = f
	return true
}

// rule decides about one frame, and looks at it.
func (n *net) rule(f world.Frame) world.Fate {
	n.field.counts.Frames.Add(1)
	if f.FromServer {
		n.wait()
	}
	if f.T == "" {
		return world.Pass
	}
	n.mu.Lock()
	fate, late := n.fate(f)
	n.look(f, fate)
	caught := n.catch(f)
	n.mu.Unlock()
	if n.field.Trace != nil {
		n.trace(f, fate, late)
	}
	if caught != nil {
		caught()
		return world.CutAfter
	}
	if late > 0 {
		n.field.counts.Late.Add(1)
		time.Sleep(late)
	}
	switch fate {
	case world.Drop:
		n.field.counts.Lost.Add(1)
	case world.Twice:
		n.field.counts.Twice.Add(1)
	case world.Cut, world.CutAfter:
		n.field.counts.Cut.Add(1)
	}
	return fate
}

// trace tells of one frame.
func (n *net) trace(f world.Frame, fate world.Fate, late time.Duration) {
	way := "→"
	if f.FromServer {
		way = "←"
	}
	if fate != world.Pass || late > 0 {
		way = fmt.Sprintf("%s %s after %v", way, [...]string{"passes", "lost", "cut off", "cut off behind", "twice"}[fate], late)
	}
	text := f.Text
	if len(text) > traceBytes {
		text = text[:traceBytes]
	}
	n.field.Trace(fmt.Sprintf("device %d %s %s", n.device, way, text))
}

// traceBytes is how much of a frame is told.
const traceBytes = 400

// wait holds a frame while the network holds everything.
func (n *net) wait() {
	n.mu.Lock()
	held := n.held
	n.mu.Unlock()
	if held != nil {
		<-held
	}
}

// catch takes the acks that somebody waits for. n.mu is held.
func (n *net) catch(f world.Frame) func() {
	if n.onAck == nil || f.FromServer || f.T != "ack" {
		return nil
	}
	frame, _, err := wire.Decode(f.Text)
	ack, ok := frame.(*wire.Ack)
	if err != nil || !ok {
		return nil
	}
	tell := n.onAck
	n.onAck = nil
	return func() { tell(ack.Items) }
}

// fate draws what happens to a frame. n.mu is held.
func (n *net) fate(f world.Frame) (world.Fate, time.Duration) {
	if len(n.lose) > 0 && slices.Contains(n.lose, kindOf(f)) {
		return world.Drop, 0
	}
	w := n.weather
	var late time.Duration
	if w.Late > 0 && n.draw.IntN(100) < w.Late {
		late = time.Duration(n.draw.Int64N(int64(maxLate)))
	}
	switch {
	case w.Lose > 0 && n.draw.IntN(100) < w.Lose:
		return world.Drop, late
	case w.Twice > 0 && n.draw.IntN(100) < w.Twice:
		return world.Twice, late
	case w.Cut > 0 && n.draw.IntN(100) < w.Cut:
		if n.draw.IntN(2) == 0 {
			return world.Cut, late
		}
		return world.CutAfter, late
	}
	return world.Pass, late
}

// kindOf is the type of a frame, "retry" for a hint that stands for one.
func kindOf(f world.Frame) string {
	if f.T == "hint" {
		if frame, err := wire.DecodeServer(f.Text); err == nil && frame.(*wire.Hint).Why == wire.WhyRetry {
			return "retry"
		}
	}
	return f.T
}
