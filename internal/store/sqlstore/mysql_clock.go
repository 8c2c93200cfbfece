package sqlstore

import (
	"context"
	"time"

	"github.com/impart-im/impart"
)

const (
	// gateCount is how many seconds the gates go back.
	gateCount = 1024
	// longestFlight is how long a transaction may be under way where gates tell nothing,
	// in ms: somewhat longer than one is tried for. What takes longer still is found when
	// a connection is compared in full.
	longestFlight = 20_000
)

// selectGates are the gates that nobody holds. It is a transaction by itself.
const selectGates = "SELECT gate FROM gates FORCE INDEX (PRIMARY) FOR UPDATE SKIP LOCKED"

// window implements [engine]. Whoever writes holds, from before it stamps its first row
// until it has ended, the gate of the second in which it began. The clock is read
// first: whoever holds no gate when those are looked at stamps its rows later than that.
// No server tells this of others' transactions without a right that a role should not
// need.
func (m *myEngine) window(ctx context.Context, since impart.Millis) (now, from impart.Millis, err error) {
	began := time.Now()
	if !m.flavour.gates {
		var clock impart.Millis
		err := m.read(ctx, func(c session) error {
			return c.query("SELECT "+myClock, func(r row) error { clock = impart.Millis(r.num(0)); return nil })
		})
		if err != nil {
			return 0, 0, err
		}
		now = clock - longestFlight
		return now, m.windows.from(since, now, clock, began), nil
	}
	var clock impart.Millis
	var held *[gateCount]bool
	err = m.again(ctx, func(within time.Duration) (err error) {
		clock, held, err = m.gates(ctx, within)
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	now = oldestGate(clock, held)
	return now, m.windows.from(since, now, clock, began), nil
}

// gates reads the clock, and then which gates are held.
func (m *myEngine) gates(ctx context.Context, within time.Duration) (clock impart.Millis, held *[gateCount]bool, err error) {
	ctx, done := m.identity.within(ctx)
	defer done()
	if err := m.identity.refusal(); err != nil {
		return 0, nil, err
	}
	m.s.reads.Add(1)
	err = m.readers.with(ctx, func(c *myConn) error {
		ctx, cancel := bounded(ctx, within)
		defer cancel()
		held = new([gateCount]bool)
		for i := range held {
			held[i] = true
		}
		t := &mySession{ctx: ctx, conn: c}
		err := t.send(
			myQuery("SELECT "+myClock, func(r row) error { clock = impart.Millis(r.num(0)); return nil }),
			&myStatement{text: selectGates, each: func(r row) error {
				if n := r.num(0); n >= 0 && n < gateCount {
					held[n] = false
				}
				return nil
			}})
		c.broken = c.broken || err != nil && myBreaks(err)
		return err
	})
	return clock, held, err
}

// oldestGate is the time before which no transaction that holds a gate began.
func oldestGate(clock impart.Millis, held *[gateCount]bool) impart.Millis {
	second := int64(clock) / 1000
	for age := int64(gateCount - 1); age >= 0; age-- {
		if held[(second-age)%gateCount] {
			return min(clock, impart.Millis((second-age)*1000))
		}
	}
	return clock
}
