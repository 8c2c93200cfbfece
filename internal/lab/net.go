package lab

import (
	"os"
	"path/filepath"
	"time"

	"github.com/impart-im/impart/internal/lab/link"
)

// Link puts a network between clients and a server: connect to its Addr. It is
// drawn from a fixed seed.
func (b *Bench) Link(s *Server) *link.Proxy {
	p, err := link.New(1, s.Addr)
	b.Must(err)
	b.Cleanup(p.Close)
	return p
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
