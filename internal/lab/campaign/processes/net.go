package processes

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/lab/campaign"
	"github.com/impart-im/impart/internal/lab/link"
)

// net is the network of one device: a relay of its own.
type net struct {
	proxy *link.Proxy
	http  *http.Client

	mu   sync.Mutex // guards what follows
	draw *rand.Rand
}

// Network implements [campaign.World].
func (f *Field) Network(device int) campaign.Network {
	n := f.nets[device]
	if n == nil {
		target := f.addr
		if f.reachable != nil {
			target = f.reachable
		}
		proxy, err := link.New(f.seed, target)
		if err != nil {
			panic(fmt.Sprintf("no port for a relay: %v", err)) // the machine is out of ports
		}
		n = &net{
			proxy: proxy, draw: rand.New(rand.NewPCG(f.seed, uint64(device))),
			http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
		}
		f.nets[device] = n
	}
	return n
}

// URL implements [campaign.Network].
func (n *net) URL() string { return "http://" + n.proxy.Addr() }

// HTTPClient implements [campaign.Network].
func (n *net) HTTPClient() *http.Client { return n.http }

// Cut implements [campaign.Network]: in the middle of what comes next, or at once.
func (n *net) Cut() {
	n.mu.Lock()
	middle := n.draw.IntN(2) == 0
	n.mu.Unlock()
	if middle {
		for _, l := range n.proxy.Links() {
			l.Shape(link.Both, func(s *link.Shape) { s.CutMiddle = true })
		}
		return
	}
	n.proxy.Cut(link.Reset)
}

// Set implements [campaign.Network]. What loses frames elsewhere swallows the
// present connections here, in a way drawn.
func (n *net) Set(w campaign.Weather) {
	n.proxy.Heal()
	if w.Off {
		n.proxy.Refuse(true)
		n.proxy.Cut(link.Reset)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if w.Cut > 0 {
		after := 200 + n.draw.Int64N(8000)
		n.proxy.Shape(link.Both, func(s *link.Shape) { s.CutAfter = after })
	}
	if w.Late > 0 {
		n.proxy.Shape(link.Both, func(s *link.Shape) { s.Latency, s.Jitter = 2*time.Millisecond, 40*time.Millisecond })
	}
	if w.Lose > 0 {
		way := []link.Direction{link.Up, link.Down, link.Both}[n.draw.IntN(3)]
		for _, l := range n.proxy.Links() {
			l.Shape(way, func(s *link.Shape) { s.BlackHole = true })
		}
	}
}

// Lose implements [campaign.Network]: a relay of bytes knows no frames.
func (n *net) Lose(...string) bool { return false }

// Hold implements [campaign.Network].
func (n *net) Hold() { n.freeze(true) }

// Release implements [campaign.Network].
func (n *net) Release() { n.freeze(false) }

func (n *net) freeze(frozen bool) {
	n.proxy.Shape(link.Down, func(s *link.Shape) { s.Frozen = frozen })
}

// Byes implements [campaign.Network]: they are not seen here.
func (n *net) Byes() int { return 0 }

// OnAck implements [campaign.Network].
func (n *net) OnAck(func([]impart.AckItem)) bool { return false }
