package lab

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/impart-im/impart/internal/lab/link"
)

// Net is a network between clients and a server, which can be spoilt. What is done
// to it, and what it does, is on the timeline.
type Net struct {
	*link.Proxy
	b    *Bench
	name string // on the timeline
}

// Link puts a network between clients and a server: connect to its Addr. It is
// drawn from a fixed seed.
func (b *Bench) Link(s *Server) *Net {
	return b.LinkTo("network", s.Addr)
}

// Balance puts a balancer in front of nodes: each connection goes to the next one
// that runs.
func (b *Bench) Balance(nodes ...*Server) *Net {
	var turn atomic.Int64
	return b.LinkTo("balancer", func() string {
		for range nodes {
			if n := nodes[int(turn.Add(1))%len(nodes)]; n.Process().Running() {
				return n.Addr()
			}
		}
		return nodes[0].Addr()
	})
}

// LinkTo is a network in front of an address.
func (b *Bench) LinkTo(name string, target func() string) *Net {
	p, err := link.New(1, target)
	b.Must(err)
	b.Cleanup(p.Close)
	p.Notify(func(what string) { b.Note(name, what, "") })
	return &Net{p, b, name}
}

// Shape is [link.Proxy.Shape], told.
func (n *Net) Shape(dir link.Direction, change func(*link.Shape)) {
	n.Proxy.Shape(dir, change)
	n.b.Note(n.name, "shaped", "%s, from now on: %s", dir, shapeText(change))
}

// ShapeNew is [link.Proxy.ShapeNew], told.
func (n *Net) ShapeNew(dir link.Direction, change func(*link.Shape)) {
	n.Proxy.ShapeNew(dir, change)
	n.b.Note(n.name, "shaped", "%s, links to come: %s", dir, shapeText(change))
}

// Refuse is [link.Proxy.Refuse], told.
func (n *Net) Refuse(refuse bool) {
	n.Proxy.Refuse(refuse)
	if refuse {
		n.b.Note(n.name, "refusing", "no connection gets through")
		return
	}
	n.b.Note(n.name, "healed", "connections get through again")
}

// Heal is [link.Proxy.Heal], told.
func (n *Net) Heal() {
	n.Proxy.Heal()
	n.b.Note(n.name, "healed", "it relays as it comes")
}

func shapeText(change func(*link.Shape)) string {
	var s link.Shape
	change(&s)
	return s.String()
}

// Clock is the setting with which a server's clock can be moved; see [Bench.SetClock].
func (b *Bench) Clock() string { return b.ClockOf("clock") }

// ClockOf is Clock for servers that share the clock of that name, and no other.
func (b *Bench) ClockOf(name string) string { return "IM_CLOCK=" + filepath.Join(b.Data, name) }

// clockSettles is more than a server takes to read its clock's file again.
const clockSettles = 100 * time.Millisecond

// SetClock sets the clocks of servers with [Bench.Clock] to the machine's time
// and by.
func (b *Bench) SetClock(by time.Duration) { b.SetClockOf("clock", by) }

// SetClockOf is SetClock for those with [Bench.ClockOf].
func (b *Bench) SetClockOf(name string, by time.Duration) {
	file := filepath.Join(b.Data, name)
	b.Must(os.WriteFile(file+".new", []byte(by.String()), 0o644))
	b.Must(os.Rename(file+".new", file))
	b.Pause(clockSettles)
	b.Note(name, "set", "by %v", by)
}
