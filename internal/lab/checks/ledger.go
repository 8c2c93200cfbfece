package checks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/lab"
	"github.com/impart-im/impart/internal/lab/rows"
)

// ledger is what senders know: what was answered, and what is in doubt.
type ledger struct {
	mu       sync.Mutex // guards what follows
	sent     map[impart.CMID]impart.Sent
	doubt    map[impart.CMID]bool
	next     int
	repeated int             // attempts at what was in doubt
	acked    impart.Seq      // the cursor of device d-0, as the server has answered it
	body     string          // of every message; "" is a short one
	took     []time.Duration // of each answer
	last     time.Time       // when the last answer came
	gap      time.Duration   // the longest time between two answers
}

func newLedger() *ledger {
	return &ledger{sent: map[impart.CMID]impart.Sent{}, doubt: map[impart.CMID]bool{}}
}

// load sends from four devices of ana's for a while: what is in doubt first, and
// then new messages, if there are to be any. It ends early when the connections do.
func (l *ledger) load(b *lab.Bench, s *lab.Server, d time.Duration, fresh bool) {
	end := time.Now().Add(d)
	b.Each(4, func(i int) { l.phone(b, i, s.Addr(), end, fresh, always) })
}

func always() bool { return true }

// phone sends from one device until the end, until more is false, or until its
// connection is lost.
func (l *ledger) phone(b *lab.Bench, i int, addr string, end time.Time, fresh bool, more func() bool) {
	phone, err := b.TryDeviceWithin(3*time.Second, addr, ana, impart.DeviceID(cmid("d", i)), "i-1", nil)
	if err != nil {
		return // the server is gone already
	}
	defer phone.Close()
	for time.Now().Before(end) && more() {
		m, ok := l.take(fresh)
		if !ok {
			return
		}
		began := time.Now()
		sent, err := phone.SendWithin(2*time.Second, ab, m, l.text())
		l.answered(b, m, sent, err)
		l.timed(began, err)
		if err == nil && i == 0 {
			l.ack(phone, sent.Seq)
		}
		var refused *impart.Error
		if err != nil && !errors.As(err, &refused) {
			return
		}
		if err != nil {
			b.Pause(5 * time.Millisecond)
		}
	}
}

// keepSending sends from four devices, two at each node, until the time is over:
// who loses a connection comes back, to another node.
func (l *ledger) keepSending(b *lab.Bench, nodes []*lab.Server, d time.Duration, fresh bool) {
	l.sendWhile(b, nodes, d, fresh, always)
}

// sendWhile is keepSending that ends before the time is over once more is false.
func (l *ledger) sendWhile(b *lab.Bench, nodes []*lab.Server, d time.Duration, fresh bool, more func() bool) {
	end := time.Now().Add(d)
	b.Each(4, func(i int) {
		for turn := i; time.Now().Before(end) && more(); turn++ {
			l.phone(b, i, nodes[turn%len(nodes)].Addr(), end, fresh, more)
			if !fresh && !l.inDoubt() {
				return
			}
			b.Pause(20 * time.Millisecond)
		}
	})
}

// settle sends what is in doubt until nothing is, or for that time.
func (l *ledger) settle(b *lab.Bench, within time.Duration, nodes ...*lab.Server) {
	l.keepSending(b, nodes, within, false)
	b.Wants(!l.inDoubt(), "%d message(s) have no answer within %v of the end of the fault", len(l.doubt), within)
}

func (l *ledger) inDoubt() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.doubt) > 0
}

func (l *ledger) text() string {
	if l.body == "" {
		return "hi"
	}
	return l.body
}

// timed notes how long an answer took, and since when none had come.
func (l *ledger) timed(began time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		return
	}
	now := time.Now()
	l.took = append(l.took, now.Sub(began))
	if !l.last.IsZero() {
		l.gap = max(l.gap, now.Sub(l.last))
	}
	l.last = now
}

// latencies reports how long answers took.
func (l *ledger) latencies(b *lab.Bench) {
	slices.Sort(l.took)
	for _, p := range []int{50, 95, 99} {
		if n := len(l.took); n > 0 {
			b.Figure(fmt.Sprintf("time to sent, p%d", p), l.took[min(n-1, n*p/100)].Seconds()*1000, "ms")
		}
	}
}

func (l *ledger) take(fresh bool) (impart.CMID, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for m := range l.doubt {
		delete(l.doubt, m)
		l.repeated++
		return m, true
	}
	if fresh {
		l.next++
	}
	return cmid("m", l.next), fresh
}

// ack acknowledges as a device does that has stored everything up to seq.
func (l *ledger) ack(phone *lab.Device, seq impart.Seq) {
	delivered, err := phone.Ack(ab, seq)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.acked = max(l.acked, delivered)
	}
}

func (l *ledger) answered(b *lab.Bench, m impart.CMID, sent impart.Sent, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.doubt[m] = true
		return
	}
	before, known := l.sent[m]
	b.Wants(!known || before.MID == sent.MID, "%s was answered twice and differently", m)
	l.sent[m] = sent
}

// judge compares what was answered with the rows.
func (l *ledger) judge(ctx context.Context, b *lab.Bench, s *lab.Server) (lost int) {
	sound := true
	s.Look(func(db *rows.DB) error {
		err := db.Sound(ctx)
		var events []rows.Event
		var cursor impart.Seq
		if err == nil {
			events, err = db.Events(ctx, ab)
		}
		if err == nil {
			cursor, err = db.Cursor(ctx, ana, "d-0", ab)
		}
		if err != nil {
			b.Must(ctx.Err())
			b.Violated("the rows cannot be read: %v", err)
			sound = false
			return nil
		}
		b.Wants(cursor >= l.acked, "a cursor is at %d that was acknowledged as %d", cursor, l.acked)
		there := map[impart.CMID]rows.Event{}
		for _, e := range events {
			there[e.CMID] = e
		}
		for m, sent := range l.sent {
			if e, ok := there[m]; !ok || e.Seq != sent.Seq || e.MID != sent.MID {
				lost++
			}
		}
		return nil
	})
	if !sound {
		return len(l.sent)
	}
	b.Wants(lost == 0, "%d of %d acknowledged message(s) not where the server said", lost, len(l.sent))
	if lost == 0 {
		checkLog(ctx, b, s)
	}
	return lost
}
