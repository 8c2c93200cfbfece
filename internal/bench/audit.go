package bench

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

// auditors is how many connections read the logs back.
const auditors = 4

// audit holds the logs of a run against its ledger.
type audit struct {
	ledger *ledger

	mu       sync.Mutex
	read     int64 // events
	lost     int64 // answered with sent, and not there or other than answered
	holes    int64 // seqs that are missing
	doubled  int64 // messages that are there more than once
	strange  int64 // events that nobody was answered
	heads    int64 // conversations whose head is not their number of events
	first    string
	messages map[int64]bitmap // by sender: which of their messages were seen
}

func newAudit(l *ledger) *audit { return &audit{ledger: l, messages: map[int64]bitmap{}} }

// bitmap is a set of small numbers.
type bitmap []uint64

// add puts n in, and reports whether it was there.
func (b bitmap) add(n int64) (bitmap, bool) {
	for int64(len(b)) <= n/64 {
		b = append(b, 0)
	}
	bit := uint64(1) << (n % 64)
	was := b[n/64]&bit != 0
	b[n/64] |= bit
	return b, was
}

// note keeps the first finding as an example.
func (a *audit) note(format string, args ...any) {
	if a.first == "" {
		a.first = fmt.Sprintf(format, args...)
	}
}

// log checks one conversation; next gives its pages after a seq.
func (a *audit) log(conv int, next func(after impart.Seq) (impart.Page, error)) error {
	c := &a.ledger.convs[conv]
	var at impart.Seq
	events := int64(0)
	for {
		page, err := next(at)
		if err != nil {
			return fmt.Errorf("reading %s back: %w", c.id, err)
		}
		events += int64(len(page.Events))
		before := at
		at = a.page(c, at, page.Events)
		if page.More && len(page.Events) > 0 && at > before {
			continue
		}
		a.end(c, at, page.Head, events)
		return nil
	}
}

// page checks events that should follow at, and returns the last seq.
func (a *audit) page(c *convLedger, at impart.Seq, events []impart.Event) impart.Seq {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range events {
		ev := &events[i]
		a.read++
		switch {
		case ev.Seq <= at:
			a.doubled++
			a.note("%s: seq %d comes twice", c.id, ev.Seq)
			continue
		case ev.Seq > at+1:
			a.holes += int64(ev.Seq - at - 1)
			a.note("%s: no event %d", c.id, at+1)
			a.absent(c, at+1, ev.Seq-1)
		}
		at = ev.Seq
		a.event(c, ev)
	}
	return at
}

// event checks one event. a.mu is held.
func (a *audit) event(c *convLedger, ev *impart.Event) {
	m, ours := a.ledger.parse(ev.CMID)
	if !ours {
		a.strange++
		a.note("%s %d: a message %s that this run did not send", c.id, ev.Seq, ev.CMID)
		a.absent(c, ev.Seq, ev.Seq)
		return
	}
	seen, was := a.messages[m.sender].add(m.n)
	a.messages[m.sender] = seen
	if was {
		a.doubled++
		a.note("%s %d: message %s is there twice", c.id, ev.Seq, ev.CMID)
	}
	c.mu.Lock()
	answered := uint64(0)
	if int64(len(c.hash)) >= int64(ev.Seq) {
		answered = c.hash[ev.Seq-1]
	}
	c.mu.Unlock()
	switch answered {
	case 0:
		a.strange++ // stored, and the answer did not arrive
		a.note("%s %d: message %s, which was not answered", c.id, ev.Seq, ev.CMID)
	case a.ledger.hash(ev.CMID, ev.MID):
	default:
		a.lost++
		a.note("%s %d: message %s (%s), and another was answered with this place", c.id, ev.Seq, ev.CMID, ev.MID)
	}
}

// absent counts answers for places from..to, where no event of ours is. a.mu is held.
func (a *audit) absent(c *convLedger, from, to impart.Seq) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for seq := from; seq <= to && int64(seq) <= int64(len(c.hash)); seq++ {
		if c.hash[seq-1] != 0 {
			a.lost++
			a.note("%s %d: answered with sent, and not in the log", c.id, seq)
		}
	}
}

// end checks what comes after the last event.
func (a *audit) end(c *convLedger, last, head impart.Seq, events int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c.mu.Lock()
	known := impart.Seq(len(c.hash))
	c.mu.Unlock()
	a.absent(c, last+1, known)
	if int64(head) != events {
		a.heads++
		a.note("%s: head %d, and %d events", c.id, head, events)
	}
}

// checks are the findings. Sends without an answer may be in the log: their
// outcome is what a client finds out by sending again.
func (a *audit) checks() []Check {
	a.mu.Lock()
	defer a.mu.Unlock()
	unanswered := a.ledger.unanswered.Load()
	detail := func(format string, args ...any) string {
		text := fmt.Sprintf(format, args...)
		if a.first != "" {
			text += "; first of all: " + a.first
		}
		return text
	}
	sent := a.ledger.count()
	checks := []Check{
		{"no message lost", a.lost == 0 && a.holes == 0, fmt.Sprintf("%d answers of sent held against %d events of %d logs: %d lost, %d holes", sent, a.read, len(a.ledger.convs), a.lost, a.holes)},
		{"no message twice", a.doubled == 0 && a.ledger.twice.Load() == 0, fmt.Sprintf("%d doubled, %d places given to two", a.doubled, a.ledger.twice.Load())},
		{"heads equal counts", a.heads == 0, fmt.Sprintf("%d of %d conversations differ", a.heads, len(a.ledger.convs))},
		{"nothing in the logs that nobody sent", a.strange <= unanswered, fmt.Sprintf("%d events without an answer, of %d sends whose answer did not come", a.strange, unanswered)},
	}
	for i := range checks {
		if !checks[i].OK {
			checks[i].Detail = detail("%s", checks[i].Detail)
		}
	}
	if sent == 0 {
		checks[0] = Check{"no message lost", false, "nothing was sent, so nothing was shown"}
	}
	return checks
}

// anybody is a reader of every log; see [Env.verify].
func anybody(int) int { return 0 }

// verify reads every log back and adds the checks to the report, also of a run that
// broke off: what was answered until then holds. reader is a
// user who may read a conversation.
func (e *Env) verify(ctx context.Context, t *Target, l *ledger, reader func(conv int) int) error {
	ctx, cancel := outlive(ctx)
	defer cancel()
	a := newAudit(l)
	var next atomic.Int64
	errs := make(chan error, auditors)
	for n := range auditors {
		device := impart.DeviceID("audit-" + strconv.Itoa(n))
		go func() { errs <- a.work(ctx, t, device, &next, reader) }()
	}
	var failed error
	for range auditors {
		if err := <-errs; err != nil {
			failed = err
		}
	}
	if failed != nil {
		return fmt.Errorf("what was sent could not be checked: %w", failed)
	}
	checks := a.checks()
	for i := range checks {
		checks[i].Name += t.Label
	}
	e.Report.add(checks...)
	return nil
}

// work takes conversations until none is left.
func (a *audit) work(ctx context.Context, t *Target, device impart.DeviceID, next *atomic.Int64, reader func(conv int) int) error {
	connected, user := (*conn)(nil), -1
	defer func() {
		if connected != nil {
			connected.close()
		}
	}()
	for {
		i := int(next.Add(1)) - 1
		if i >= len(a.ledger.convs) || ctx.Err() != nil {
			return ctx.Err()
		}
		if who := reader(i); who != user {
			if connected != nil {
				connected.close()
			}
			var err error
			if connected, err = t.connect(ctx, who, device, false); err != nil {
				connected = nil
				return err
			}
			user = who
		}
		limit := impart.MaxLimit
		err := a.log(i, func(after impart.Seq) (impart.Page, error) {
			answer, err := ask[*wire.Synced](connected, &wire.Sync{RID: "a", Conv: a.ledger.convs[i].id, After: &after, Limit: &limit})
			if err != nil {
				return impart.Page{}, err
			}
			return answer.Page, nil
		})
		if err != nil {
			return err
		}
	}
}

// connect signs in the i-th user.
func (t *Target) connect(ctx context.Context, i int, device impart.DeviceID, live bool) (*conn, error) {
	user, token, err := t.User(i)
	if err != nil {
		return nil, err
	}
	return dial(ctx, t.URL, user, token, device, live)
}
