package sqlstore

import (
	"context"
	"sync"
	"time"

	"github.com/impart-im/impart"
)

// windows are what an engine's window remembers of the last time.
type windows struct {
	mu   sync.Mutex
	now  impart.Millis // what it said
	read impart.Millis // what the server's clock showed
	at   time.Time     // when that was, by the monotonic clock
}

// selectOldest is when the oldest transaction began that has written and not ended,
// of any node: all of them have one role. A transaction has a number as soon as it
// has locked or written a row, and stamps rows only then.
const selectOldest = `SELECT min(floor(extract(epoch FROM xact_start) * 1000)::bigint) FROM pg_stat_activity
	WHERE datname = current_database() AND usename = session_user AND backend_xid IS NOT NULL`

// window implements [engine]. The clock is read first: whoever is not among the
// transactions that are looked at afterwards stamps its rows later than that.
//
// Rows are found by when they were written, so that a clock of the server that is
// set back would hide what is written in the time that is lived through twice. What
// was written since the last time is at most as old as that time is ago.
func (p *pgEngine) window(ctx context.Context, since impart.Millis) (now, from impart.Millis, err error) {
	began := time.Now()
	var clock impart.Millis
	err = p.read(ctx, func(c session) error {
		err := c.query("SELECT "+pgClock, func(r row) error {
			clock = impart.Millis(r.num(0))
			return nil
		})
		if err != nil {
			return err
		}
		now = clock
		return c.query(selectOldest, func(r row) error {
			if !r.null(0) {
				now = min(now, impart.Millis(r.num(0)))
			}
			return nil
		})
	})
	if err != nil {
		return 0, 0, err
	}
	return now, p.windows.from(since, now, clock, began), nil
}

// from is since, moved back as far as the clock was set back since the last time. The
// clock was read after began, and now is what is said to be now.
func (w *windows) from(since, now, clock impart.Millis, began time.Time) impart.Millis {
	w.mu.Lock()
	defer w.mu.Unlock()
	from := since
	if passed := impart.Millis(began.Sub(w.at).Milliseconds()); since != 0 && w.read != 0 && clock < w.read+passed-clockStep {
		from = max(min(since, clock-passed-max(w.now-since, 0)-clockStep), 1)
	}
	w.now, w.read, w.at = now, clock, began
	return from
}

// clockStep is by how many milliseconds two clocks may differ that nobody has set.
const clockStep = 1000
