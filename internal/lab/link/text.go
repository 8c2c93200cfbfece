package link

import (
	"fmt"
	"strings"
)

// String is "up", "down" or "both ways".
func (d Direction) String() string {
	switch d {
	case Up:
		return "up"
	case Down:
		return "down"
	}
	return "both ways"
}

// String is what the shape does, in words: "20ms later, 2000 bytes a second".
func (s Shape) String() string {
	var does []string
	say := func(so bool, format string, args ...any) {
		if so {
			does = append(does, fmt.Sprintf(format, args...))
		}
	}
	say(s.Latency > 0, "%v later", s.Latency)
	say(s.Jitter > 0, "up to %v later by chance", s.Jitter)
	say(s.Rate > 0, "%d bytes a second", s.Rate)
	say(s.Frozen, "frozen")
	say(s.BlackHole, "all is lost")
	say(s.CutAfter > 0, "cut after %d bytes", s.CutAfter)
	say(s.CutMiddle, "cut in the middle of a frame")
	if len(does) == 0 {
		return "as it comes"
	}
	return strings.Join(does, ", ")
}
