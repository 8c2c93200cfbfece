package sqlstore

import (
	"sync"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
)

// clock is the time of day that is never set back while the process runs. A
// conversation is found by when it was written (Written): were the machine's
// clock set back between two sweeps, what is written in the time that is lived
// through twice would be in the window of neither.
type clock struct {
	mu   sync.Mutex
	last impart.Millis // what it said last
	at   time.Duration // when that was, by a clock that nobody sets
}

// startClock starts at the machine's time.
func startClock() func() impart.Millis {
	c, began := new(clock), time.Now()
	return func() impart.Millis {
		now := time.Now()
		return c.read(impart.Millis(fault.Wall(now).UnixMilli()), now.Sub(began))
	}
}

// read is the machine's time, or where that was set back the last time and what
// has passed since.
func (c *clock) read(machine impart.Millis, passed time.Duration) impart.Millis {
	if fault.Planted(fault.ClockSetBack) {
		return machine
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	passed = max(passed, c.at) // two callers may come in the other order
	c.last = max(machine, c.last+impart.Millis((passed-c.at).Milliseconds()))
	c.at = c.at + (passed - c.at).Truncate(time.Millisecond)
	return c.last
}
