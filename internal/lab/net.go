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

// clockName is the file that tells the servers of a bench how far their clocks
// are set.
const clockName = "clock"

// Clock is the setting with which a server's clock can be moved; see [Bench.SetClock].
func (b *Bench) Clock() string { return "IM_CLOCK=" + filepath.Join(b.Data, clockName) }

// clockSettles is more than a server takes to read its clock's file again.
const clockSettles = 100 * time.Millisecond

// SetClock sets the clocks of servers with [Bench.Clock] to the machine's time
// and by.
func (b *Bench) SetClock(by time.Duration) {
	name := filepath.Join(b.Data, clockName)
	b.Must(os.WriteFile(name+".new", []byte(by.String()), 0o644))
	b.Must(os.Rename(name+".new", name))
	b.Pause(clockSettles)
	b.Note("clock", "set", "by %v", by)
}
