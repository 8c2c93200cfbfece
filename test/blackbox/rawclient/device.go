package rawclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// DeviceOptions describes one device.
type DeviceOptions struct {
	User, Device, Install, Token string
	// Address gives the server's address at each dial: it may change over a restart.
	Address func() string
	// PageLimit is the limit of pulls and syncs; 0 means 100.
	PageLimit int
	// OnFrame sees every frame of the server before the device handles it; nil for nobody.
	OnFrame func(Frame)
	// ResendAfter is how long an unanswered request is waited for before it is made again; 0 means 8 s.
	ResendAfter time.Duration
}

// Device is a small but correct client: a contiguous cursor per conversation, events once by seq, an ack only after the
// store, an outbox resent with the same cmid. What it holds survives Stop and Start, as a phone's store survives a crash
// of the application.
type Device struct {
	o DeviceOptions

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced whenever anything below changes
	logs     map[string]*convLog
	outbox   []*outgoing
	failed   []outgoing
	applied  []Event
	sents    []Receipt
	epoch    int64
	install  int64 // install epoch
	n        int64
	made     int
	dials    int
	welcomed int // sessions that began
	lastErr  error
	wrong    []string

	cancel context.CancelFunc
	done   chan struct{}
}

// convLog is what the device durably holds of one conversation.
type convLog struct {
	events   map[int64]Event
	recalled map[int64]bool // targets of the recalls among them
	// cursor: everything visible up to here is stored. acked <= cursor is what the server has confirmed.
	cursor, acked int64
}

// outgoing is one message of the outbox; it leaves it with a `sent` or a final error.
type outgoing struct {
	conv, cmid, body string
	rid              string          // of the attempt in flight, "" when none is
	tried            map[string]bool // the rids of all attempts on this connection: any of them may be answered late
	at               time.Time
	notBefore        time.Time
	failed           string
}

// NewDevice makes a device with an empty store.
func NewDevice(o DeviceOptions) *Device {
	if o.PageLimit == 0 {
		o.PageLimit = 100
	}
	if o.ResendAfter == 0 {
		o.ResendAfter = 8 * time.Second
	}
	return &Device{o: o, changed: make(chan struct{}), logs: map[string]*convLog{}}
}

// Name is user/device, for messages.
func (d *Device) Name() string { return d.o.User + "/" + d.o.Device }

// Start connects and keeps connected until Stop.
func (d *Device) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	d.cancel, d.done = cancel, make(chan struct{})
	go func() {
		defer close(d.done)
		d.run(ctx)
	}()
}

// Stop drops the connection and waits until nothing of the device runs. Its store stays.
func (d *Device) Stop() {
	if d.cancel == nil {
		return
	}
	d.cancel()
	<-d.done
	d.cancel = nil
}

func (d *Device) run(ctx context.Context) {
	for ctx.Err() == nil {
		wait := 50 * time.Millisecond
		err := d.session(ctx)
		var bye farewell
		if errors.As(err, &bye) {
			if bye.Bool("final") {
				d.note(err)
				return
			}
			wait = max(wait, time.Duration(bye.Int("reconnect_after_ms"))*time.Millisecond)
		}
		d.note(err)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// farewell is a bye frame as the reason a session ended.
type farewell struct{ Frame }

func (f farewell) Error() string { return "bye: " + f.Object.String() }

func (d *Device) note(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lastErr = err
	d.touch()
}

// touch tells everyone who waits that something changed. The caller holds mu.
func (d *Device) touch() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// Post puts a message into the outbox and gives its cmid.
func (d *Device) Post(conv, body string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.made++
	cmid := fmt.Sprintf("%s.%d", d.o.Device, d.made)
	d.outbox = append(d.outbox, &outgoing{conv: conv, cmid: cmid, body: body})
	d.touch()
	return cmid
}

// await waits until holds, which is called with mu held, is true.
func (d *Device) await(ctx context.Context, what string, holds func() bool) error {
	for {
		d.mu.Lock()
		ok, changed, last := holds(), d.changed, d.lastErr
		d.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s: %s: %w (last session ended by: %v; %s)", d.Name(), what, ctx.Err(), last, d.summary())
		}
	}
}

func (d *Device) summary() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := fmt.Sprintf("%d in the outbox, %d dials", len(d.outbox), d.dials)
	for _, conv := range slices.Sorted(maps.Keys(d.logs)) {
		l := d.logs[conv]
		s += fmt.Sprintf(", %s: %d stored, cursor %d, acked %d", conv, len(l.events), l.cursor, l.acked)
	}
	return s
}

// AwaitSettled waits until the outbox is empty.
func (d *Device) AwaitSettled(ctx context.Context) error {
	return d.await(ctx, "outbox is not settled", func() bool { return len(d.outbox) == 0 })
}

// AwaitOnline waits until the device has a session that is newer than this call.
func (d *Device) AwaitOnline(ctx context.Context) error {
	d.mu.Lock()
	welcomed := d.welcomed
	d.mu.Unlock()
	return d.await(ctx, "is not online", func() bool { return d.welcomed > welcomed })
}

// AwaitWelcome waits until the device has, or has had, a session.
func (d *Device) AwaitWelcome(ctx context.Context) error {
	return d.await(ctx, "is not welcome", func() bool { return d.welcomed > 0 })
}

// AwaitCursor waits until the device has stored and acknowledged everything up to seq.
func (d *Device) AwaitCursor(ctx context.Context, conv string, seq int64) error {
	return d.await(ctx, fmt.Sprintf("does not reach %s seq %d", conv, seq), func() bool {
		l := d.logs[conv]
		return l != nil && l.acked >= seq
	})
}

// AwaitEnd waits until the device has stopped by itself: after a final bye.
func (d *Device) AwaitEnd(ctx context.Context) error {
	select {
	case <-d.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s still connects: %w", d.Name(), ctx.Err())
	}
}

// Log is what the device holds of a conversation, by seq.
func (d *Device) Log(conv string) []Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.logs[conv]
	if l == nil {
		return nil
	}
	var events []Event
	for _, seq := range slices.Sorted(maps.Keys(l.events)) {
		events = append(events, l.events[seq])
	}
	return events
}

// Applied is every event in the order in which the application saw it.
func (d *Device) Applied() []Event { d.mu.Lock(); defer d.mu.Unlock(); return slices.Clone(d.applied) }

// Receipts are all `sent` frames the device ever saw for its messages.
func (d *Device) Receipts() []Receipt {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.sents)
}

// Failed gives the final error code of each refused message by cmid.
func (d *Device) Failed() map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	codes := map[string]string{}
	for _, m := range d.failed {
		codes[m.cmid] = m.failed
	}
	return codes
}

// Wrong lists what the server told this device that cannot be true of its store.
func (d *Device) Wrong() []string { d.mu.Lock(); defer d.mu.Unlock(); return slices.Clone(d.wrong) }

// Clone is a stopped device with a copy of the store as it is now: what a phone backup holds.
func (d *Device) Clone() *Device {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := NewDevice(d.o)
	c.epoch, c.install, c.n, c.made = d.epoch, d.install, d.n, d.made
	c.failed, c.applied, c.sents = slices.Clone(d.failed), slices.Clone(d.applied), slices.Clone(d.sents)
	for _, m := range d.outbox {
		kept := *m
		kept.rid, kept.tried = "", nil
		c.outbox = append(c.outbox, &kept)
	}
	for conv, l := range d.logs {
		kept := *l
		kept.events, kept.recalled = maps.Clone(l.events), maps.Clone(l.recalled)
		c.logs[conv] = &kept
	}
	return c
}

// Dials is how often the device has tried to connect.
func (d *Device) Dials() int { d.mu.Lock(); defer d.mu.Unlock(); return d.dials }

func (d *Device) log(conv string) *convLog {
	l := d.logs[conv]
	if l == nil {
		l = &convLog{events: map[int64]Event{}, recalled: map[int64]bool{}}
		d.logs[conv] = l
	}
	return l
}

// store keeps one event, once. The caller holds mu.
func (d *Device) store(ev Event) {
	l := d.log(ev.Conv)
	if _, known := l.events[ev.Seq]; known {
		return
	}
	if l.recalled[ev.Seq] { // a resend's "sent" can come after the recall of what it says
		ev.Recalled, ev.Body, ev.Ext = true, "", ""
	}
	l.events[ev.Seq] = ev
	if ev.Kind == "recall" {
		l.recalled[ev.Target] = true
		if target, ok := l.events[ev.Target]; ok {
			target.Recalled, target.Body, target.Ext = true, "", ""
			l.events[ev.Target] = target
		}
	}
	for {
		next, ok := l.events[l.cursor+1]
		if !ok {
			return
		}
		l.cursor++
		d.applied = append(d.applied, next)
	}
}

// cover moves the cursor over seqs that a page has covered. The caller holds mu and has stored the page's events.
func (d *Device) cover(conv string, through int64) {
	l := d.log(conv)
	for l.cursor < through {
		l.cursor++
		if ev, ok := l.events[l.cursor]; ok {
			d.applied = append(d.applied, ev)
		}
	}
}
