//go:build fault

package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"
)

// clockFor is how long a read of the clock's file counts.
const clockFor = 50 * time.Millisecond

// wall is the clock that IM_CLOCK moves.
var wall = &steps{file: os.Getenv("IM_CLOCK")}

// Wall is t as the time of day would be had somebody set the machine's clock. The
// file that IM_CLOCK names holds how far, as "1h" or "-30m"; it may be written
// anew at any time, at once (by a rename), and counts within 50 ms. No file, or an
// empty one, moves nothing. Whatever leaves the process or is stored as a time of
// day goes through here. What measures how long something takes must not: setting
// a clock does not move the monotonic one, and t.Sub with a moved time would be
// wrong by the step.
func Wall(t time.Time) time.Time { return wall.move(t) }

// steps moves times by what its file says.
type steps struct {
	file string // "": none

	mu   sync.Mutex // guards what follows
	by   time.Duration
	read time.Time // when by was read
}

func (s *steps) move(t time.Time) time.Time {
	if s.file == "" {
		return t
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read.IsZero() || time.Since(s.read) >= clockFor {
		by, err := readStep(s.file)
		if err != nil {
			panic(err) // a run with another clock than the one that is meant shows nothing
		}
		s.by, s.read = by, time.Now()
	}
	return t.Add(s.by)
}

func readStep(file string) (time.Duration, error) {
	raw, err := os.ReadFile(file)
	text := strings.TrimSpace(string(raw))
	if errors.Is(err, fs.ErrNotExist) || err == nil && text == "" {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("IM_CLOCK: %w", err)
	}
	by, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("IM_CLOCK: %s holds %q and should hold how far the clock is moved, as 1h or -30m", file, text)
	}
	return by, nil
}
