package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

// fleet are the live devices of a run and what they have counted together.
type fleet struct {
	ledger  *ledger
	start   time.Time     // stamps count from here
	loss    float64       // share of pushes that the devices lose, as if the link had cut them
	ackWait time.Duration // what is stored within it is acked together
	body    int           // bytes of a message
	sends   *meter        // own sends, from when they were due
	pushes  *meter        // first arrivals of pushed events, from when the message was due
	devices []*device

	frames   atomic.Int64 // event frames
	repeated atomic.Int64 // of events that the device had
	lost     atomic.Int64 // thrown away, see loss
	synced   atomic.Int64 // events that a sync brought
	acks     atomic.Int64
	hints    atomic.Int64
	receipts atomic.Int64

	refused refusals
	gone    atomic.Int64 // connections that ended
	why     atomic.Pointer[error]
}

// device is one live connection in one conversation. It acks what it has stored
// without a hole, and asks for what is missing, as a client has to.
type device struct {
	*conn
	fleet *fleet
	index int
	place int // its conversation in the ledger
	conv  impart.ConvID
	out   flights
	next  atomic.Int64
	end   chan struct{} // closed when its reader has ended

	mu      sync.Mutex // guards what follows
	cursor  impart.Seq // everything up to here is stored
	beyond  map[impart.Seq]struct{}
	acked   impart.Seq
	timer   *time.Timer
	armed   bool
	deaf    bool // what is pushed until the timer is lost
	syncing bool
	closing bool
}

// join connects one device and starts to read.
func (f *fleet) join(ctx context.Context, t *Target, index, place int) (*device, error) {
	c, err := t.connect(ctx, index, "bench", true)
	if err != nil {
		return nil, err
	}
	d := &device{
		conn: c, fleet: f, index: index, place: place, conv: f.ledger.convs[place].id,
		out: flights{due: map[int64]time.Time{}}, end: make(chan struct{}),
	}
	d.timer = time.AfterFunc(time.Hour, d.settle)
	d.timer.Stop()
	go func() {
		defer close(d.end)
		err := fmt.Errorf("device %d: %w", index, d.read())
		d.mu.Lock()
		defer d.mu.Unlock()
		if !d.closing {
			f.gone.Add(1)
			f.why.CompareAndSwap(nil, &err)
		}
	}()
	return d, nil
}

// leave closes the connection and waits for its reader.
func (d *device) leave() {
	d.mu.Lock()
	d.closing = true
	d.timer.Stop()
	d.mu.Unlock()
	d.close()
	<-d.end
}

func (f *fleet) leave() {
	for _, d := range f.devices {
		if d != nil {
			d.leave()
		}
	}
}

// broken is why a device is gone; nil while all are there.
func (f *fleet) broken() error {
	if err := f.why.Load(); err != nil {
		return *err
	}
	return nil
}

var receiptBegin = []byte(`{"t":"receipt"`)

// read handles what comes until the connection ends, and says why it did.
func (d *device) read() error {
	for {
		text, err := d.nextText()
		if err != nil {
			return err
		}
		if seq, stamp, ok := scanEvent(text); ok {
			d.pushed(seq, stamp)
			continue
		}
		if bytes.HasPrefix(text, receiptBegin) {
			d.fleet.receipts.Add(1)
			continue
		}
		frame, err := wire.DecodeServer(text)
		if errors.Is(err, wire.ErrUnknownFrame) {
			continue
		}
		if err != nil {
			return fmt.Errorf("a frame that the protocol does not have: %w: %.200s", err, text)
		}
		if err := d.take(frame); err != nil {
			return err
		}
	}
}

// take handles a frame that is not an event of this run.
func (d *device) take(frame wire.ServerFrame) error {
	switch f := frame.(type) {
	case *wire.Event:
		return fmt.Errorf("event %s %d, which is not of this run", f.Event.Conv, f.Event.Seq)
	case *wire.Sent:
		return d.sent(f)
	case *wire.Hint:
		d.fleet.hints.Add(1)
		return d.sync()
	case *wire.Synced:
		return d.fill(f.Page)
	case *wire.ErrorFrame:
		return d.refused(f)
	case *wire.Bye:
		return fmt.Errorf("%w: bye %s", errClosed, f.Code)
	}
	return nil
}

// pushed takes an event that the server pushed.
func (d *device) pushed(seq impart.Seq, stamp time.Duration) {
	f := d.fleet
	f.frames.Add(1)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing {
		return
	}
	if !d.armed {
		d.deaf = f.loss > 0 && rand.Float64() < f.loss
		d.arm()
	}
	switch {
	case d.deaf:
		f.lost.Add(1)
	case !d.store(seq):
		f.repeated.Add(1)
	default:
		f.pushes.finish(time.Since(f.start) - stamp)
	}
}

// arm lets what was stored be acked a while later, together with what comes
// until then. d.mu is held.
func (d *device) arm() {
	if !d.armed {
		d.armed = true
		d.timer.Reset(d.fleet.ackWait)
	}
}

// store notes an event; false if it was there. d.mu is held.
func (d *device) store(seq impart.Seq) bool {
	if _, there := d.beyond[seq]; there || seq <= d.cursor {
		return false
	}
	if seq > d.cursor+1 {
		if d.beyond == nil {
			d.beyond = map[impart.Seq]struct{}{}
		}
		d.beyond[seq] = struct{}{}
		return true
	}
	d.reach(seq)
	return true
}

// reach moves the cursor, and on over what is stored beyond it. d.mu is held.
func (d *device) reach(seq impart.Seq) {
	d.cursor = max(d.cursor, seq)
	for len(d.beyond) > 0 {
		if _, there := d.beyond[d.cursor+1]; !there {
			break
		}
		d.cursor++
		delete(d.beyond, d.cursor)
	}
}

// settle is the timer: it acks, or fetches what is missing.
func (d *device) settle() {
	d.mu.Lock()
	d.armed, d.deaf = false, false
	at, holes, closing := d.cursor, len(d.beyond) > 0, d.closing
	moved := at > d.acked
	d.acked = at
	d.mu.Unlock()
	if closing {
		return
	}
	if moved {
		d.fleet.acks.Add(1)
		_ = d.write(&wire.Ack{RID: "a", Items: []impart.AckItem{{Conv: d.conv, Seq: at}}}) // the reader finds the connection broken
	}
	if holes {
		_ = d.sync()
	}
}

// sync asks for what comes after the cursor, unless that is under way.
func (d *device) sync() error {
	d.mu.Lock()
	after, busy := d.cursor, d.syncing
	d.syncing = true
	d.mu.Unlock()
	if busy {
		return nil
	}
	limit := impart.MaxLimit
	return d.write(&wire.Sync{RID: "y", Conv: d.conv, After: &after, Limit: &limit})
}

// fill takes a page of a sync.
func (d *device) fill(page impart.Page) error {
	d.mu.Lock()
	for i := range page.Events {
		if d.store(page.Events[i].Seq) {
			d.fleet.synced.Add(1)
		}
	}
	d.reach(page.Through)
	d.syncing = false
	d.arm()
	d.mu.Unlock()
	if page.More {
		return d.sync()
	}
	return nil
}

// send writes a message that was due at a time.
func (d *device) send(due time.Time) error {
	n := d.next.Add(1) - 1
	d.out.add(n, due)
	d.fleet.ledger.unanswered.Add(1)
	return d.write(d.message(n, due))
}

func (d *device) message(n int64, due time.Time) *wire.Send {
	return &wire.Send{
		RID: strconv.FormatInt(n, 10), Conv: d.conv, CMID: d.fleet.ledger.cmid(message{int64(d.index), n}),
		Body: stamped(due.Sub(d.fleet.start), d.fleet.body),
	}
}

// sent takes the answer to an own message, which is stored from it.
func (d *device) sent(f *wire.Sent) error {
	n, err := strconv.ParseInt(f.RID, 10, 64)
	due, known := d.out.take(n)
	if err != nil || !known {
		return fmt.Errorf("an answer to %q, which was not asked or is answered already", f.RID)
	}
	d.fleet.sends.finish(time.Since(due))
	d.fleet.ledger.unanswered.Add(-1)
	d.mu.Lock()
	d.store(f.Sent.Seq)
	d.arm()
	d.mu.Unlock()
	return d.fleet.ledger.sent(d.place, d.fleet.ledger.cmid(message{int64(d.index), n}), f.Sent.Seq, f.Sent.MID)
}

// refused takes an error frame. What may be repeated is: a message with the time
// at which it was due, a sync at the next occasion.
func (d *device) refused(f *wire.ErrorFrame) error {
	if err := d.fleet.refused.take(f); err != nil {
		return err
	}
	if f.RID == "y" {
		d.mu.Lock()
		d.syncing = false
		d.mu.Unlock()
	}
	n, err := strconv.ParseInt(f.RID, 10, 64)
	if err != nil {
		return nil
	}
	due, waits := d.out.get(n)
	if !waits {
		return nil
	}
	time.AfterFunc(max(f.Err.RetryAfter, 10*time.Millisecond), func() {
		_ = d.write(d.message(n, due)) // the reader finds the connection broken
	})
	return nil
}

// at is how far the device has come.
func (d *device) at() impart.Seq {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cursor
}

// behind counts devices that lack what was answered in their conversation, and
// messages that have no answer yet.
func (f *fleet) behind() (devices int, unanswered int64) {
	for _, d := range f.devices {
		c := &f.ledger.convs[d.place]
		c.mu.Lock()
		head := impart.Seq(len(c.hash))
		c.mu.Unlock()
		if d.at() < head {
			devices++
		}
	}
	return devices, f.ledger.unanswered.Load()
}

// patience is how long the devices may take to have everything after the last
// message: longer than all retries and a sweep.
const patience = 60 * time.Second

// catchUp waits until every device has everything, or patience ends, and returns
// how many lack something. It goes on when ctx has ended.
func (e *Env) catchUp(ctx context.Context, f *fleet) int {
	wait := patience
	if e.patience > 0 {
		wait = e.patience
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait)
	defer cancel()
	for {
		devices, unanswered := f.behind()
		if devices == 0 && unanswered == 0 || f.broken() != nil || ctx.Err() != nil {
			return devices
		}
		pause(ctx, 50*time.Millisecond)
	}
}
