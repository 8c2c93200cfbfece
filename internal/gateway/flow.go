package gateway

import (
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/pending"
)

// unknown is a cursor that this gateway has not seen yet.
const unknown impart.Seq = -1

// maxFlows bounds what is remembered of one connection; past it the sweep asks
// the store again.
const maxFlows = 1024

// flow is what a gateway knows of one device in one conversation, while it lags
// and until the sweep after that. A connection that has caught up holds none.
type flow struct {
	head      impart.Seq // the highest seq that the user may see, as far as known
	first     impart.Seq // the lowest seq that is missing, as far as known
	checked   impart.Seq // the conversation's head when the store was last asked
	delivered impart.Seq // the device's cursor, or unknown
	attempts  int        // since the cursor moved, the first push among them; the set, which counts them too, may forget
	spent     bool       // all attempts are used; only a moved cursor starts them anew
	retried   bool       // it was tried again or hinted: its time says nothing (Karn)
	timed     impart.Seq // the push whose acknowledgement is being timed; 0: none
	timedAt   time.Time
	since     time.Time // lagging since
	nextHint  time.Time // the sweep hints no earlier
	heardAt   uint32    // what the connection had heard at the last hint; 0: no hint yet
	pause     time.Duration
}

func (f *flow) lags() bool { return f.head > 0 && f.delivered < f.head }

// attempt counts one more, and reports whether the flow has none left. c.mu is held.
func (f *flow) attempt() (spent bool) {
	f.attempts++
	return f.attempts > pending.Attempts && !fault.Planted(fault.RetriesForEver)
}

// key names the flow of conv on this connection. c.mu is held.
func (c *conn) key(conv impart.ConvID) pending.Key {
	return pending.Key{User: c.session.User, Device: c.session.Device, Conv: conv, Conn: c.id}
}

// flow returns the flow of conv, made if need be; nil when there are too many.
// c.mu is held.
func (c *conn) flow(conv impart.ConvID) *flow {
	if f := c.flows[conv]; f != nil {
		return f
	}
	if len(c.flows) >= maxFlows {
		c.more = true
		return nil
	}
	if c.flows == nil {
		c.flows = make(map[impart.ConvID]*flow)
	}
	f := &flow{delivered: unknown}
	c.flows[conv] = f
	return f
}

// raise notes that the user may see events first..last. c.mu is held.
func (f *flow) raise(first, last impart.Seq, now time.Time) {
	if last <= f.head {
		return
	}
	if !f.lags() {
		f.first, f.since, f.heardAt, f.nextHint, f.pause = first, now, 0, time.Time{}, 0
	}
	f.head = last
}

// pushing notes that events first..last are about to be pushed, and returns the
// entry to register, unless the flow's attempts are spent. c.mu is held.
func (c *conn) pushing(conv impart.ConvID, first, last impart.Seq, now time.Time) (entry pending.Entry, register bool) {
	f := c.flow(conv)
	if f == nil {
		return entry, false
	}
	f.raise(first, last, now)
	if f.spent || !f.lags() {
		return entry, false
	}
	if f.timed == 0 {
		f.timed, f.timedAt, f.retried = last, now, false
	}
	f.attempts = max(1, f.attempts)
	return pending.Entry{Key: c.key(conv), Seq: last, Ladder: c.rtt.ladder(c.g.cfg.Ladder)}, true
}

// outcome is what a moved cursor means for the pending set.
type outcome uint8

const (
	unmoved outcome = iota
	moved           // but not to the end: attempts start anew
	settled         // caught up
)

// advance notes the device's cursor. An ack can come before the push that it
// answers: the sender of an event acks it when it reads "sent". c.mu is held.
func (c *conn) advance(conv impart.ConvID, delivered impart.Seq, now time.Time) (outcome, pending.Entry) {
	f := c.flow(conv)
	if f == nil || delivered <= f.delivered {
		return unmoved, pending.Entry{}
	}
	f.delivered = delivered
	if f.timed != 0 && delivered >= f.timed {
		if !f.retried {
			c.rtt.sample(now.Sub(f.timedAt))
		}
		f.timed, f.retried = 0, false
	}
	f.attempts, f.spent, f.first, f.since, f.heardAt, f.nextHint, f.pause = 0, false, delivered+1, now, 0, time.Time{}, 0
	entry := pending.Entry{Key: c.key(conv), Seq: f.head, Ladder: c.rtt.ladder(c.g.cfg.Ladder)}
	if !f.lags() {
		return settled, entry
	}
	f.attempts = 1 // what was pushed before
	return moved, entry
}

// rtt measures how long the device takes to acknowledge, as RFC 6298 measures
// round trips. The zero value has measured nothing.
type rtt struct {
	smoothed, variation time.Duration
}

// ackDelay is what a client may hold an ack back for, so that one ack carries
// several events; a measured time is at least this uncertain.
const ackDelay = 200 * time.Millisecond

// maxWait bounds the adaptive waits.
const maxWait = time.Minute

func (r *rtt) sample(d time.Duration) {
	if r.smoothed == 0 {
		r.smoothed, r.variation = d, d/2
		return
	}
	r.variation += ((r.smoothed - d).Abs() - r.variation) / 4
	r.smoothed += (d - r.smoothed) / 8
}

// timeout is how long an acknowledgement may take before it counts as missing.
func (r *rtt) timeout() time.Duration {
	if r.smoothed == 0 {
		return 0
	}
	return r.smoothed + max(4*r.variation, ackDelay)
}

// ladder is base, stretched for a connection on which acknowledgements take
// longer than its first wait.
func (r *rtt) ladder(base pending.Ladder) pending.Ladder {
	least := r.timeout()
	for i := range base {
		base[i] = min(max(base[i], least), max(base[i], maxWait))
		least *= 2
	}
	return base
}
