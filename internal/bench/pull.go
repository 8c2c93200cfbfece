package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

// PullLoad is what [Env.Pull] does. The zero value of a field is its default.
type PullLoad struct {
	Devices  int           // that catch up at the same time; 4
	Backlog  int           // events that each lacks; 10,000
	Body     int           // bytes of a message; 150
	Duration time.Duration // how long devices catch up, one after the other; 10 s
}

// pullSenders fill the backlog.
const pullSenders = 64

// Pull measures devices that were away: each catches up with the same
// conversation by pulling and acknowledging page after page.
func (e *Env) Pull(ctx context.Context, l PullLoad) error {
	defaultTo(&l.Devices, 4)
	defaultTo(&l.Backlog, 10_000)
	defaultTo(&l.Body, 150)
	defaultTo(&l.Duration, 10*time.Second)
	t, err := e.Start(ctx, false)
	if err != nil {
		return err
	}
	c, err := e.newCrowd(ctx, t, pullSenders, 1, l.Body)
	if err != nil {
		return err
	}
	defer c.close()
	if err := e.fill(ctx, c, l.Backlog); err != nil {
		return err
	}
	p := &puller{Env: e, target: t, conv: c.ledger.convs[0].id, backlog: l.Backlog}
	events := newMeter()
	devices := newRecorder()
	before := e.counters(ctx, t)
	run, err := e.window(ctx, window{name: fmt.Sprintf("%d devices at a time, %d events behind", l.Devices, l.Backlog), unit: "events", of: l.Duration, grace: time.Minute}, events, func(ctx context.Context) error {
		return p.all(ctx, l, events, devices)
	})
	if err != nil {
		return errors.Join(err, e.verify(ctx, t, c.ledger, anybody))
	}
	run.Loop, run.Of, run.Latency = Closed, "a device, from its first pull until it had everything", devices.latency()
	for i := range run.Points {
		run.Points[i].P50, run.Points[i].P99 = 0, 0
	}
	e.counters(ctx, t).since(before).describe(&run)
	e.Report.Runs = append(e.Report.Runs, run)
	e.Report.add(Check{"every device got everything, once and in order", p.wrong.Load() == 0 && p.caught.Load() > 0,
		fmt.Sprintf("%d devices caught up, %d of them not with events 1 to %d", p.caught.Load(), p.wrong.Load(), l.Backlog)})
	return e.verify(ctx, t, c.ledger, anybody)
}

// fill sends at least n messages to the only conversation.
func (e *Env) fill(ctx context.Context, c *crowd, n int) error {
	m := newMeter()
	var left atomic.Int64
	left.Store(int64(n))
	_, err := e.window(ctx, window{name: "storing the backlog", unit: "sends"}, m, func(ctx context.Context) error {
		return c.while(ctx, c.senders, m, func() bool { return left.Add(-1) >= 0 })
	})
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// puller catches up.
type puller struct {
	*Env
	target        *Target
	conv          impart.ConvID
	backlog       int
	next          atomic.Int64
	caught, wrong atomic.Int64
}

// all keeps some devices catching up until the time of the load is over. Each is
// new to the server, so that it lacks everything.
func (p *puller) all(ctx context.Context, l PullLoad, events *meter, devices *recorder) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	start := time.Now()
	var group sync.WaitGroup
	for range l.Devices {
		group.Go(func() {
			for ctx.Err() == nil && time.Since(start) < l.Duration {
				n := p.next.Add(1)
				if err := p.one(ctx, fmt.Sprintf("bench-%d", n), int(n%pullSenders), events, devices); err != nil {
					cancel(err)
				}
			}
		})
	}
	group.Wait()
	return failure(ctx)
}

// one catches up a single device. It asks for the next page together with the
// ack of the last one, and is done when nothing more comes.
func (p *puller) one(ctx context.Context, device string, user int, events *meter, devices *recorder) error {
	c, err := p.target.connect(ctx, user, impart.DeviceID(device), false)
	if err != nil {
		return err
	}
	defer c.close()
	start := time.Now()
	at, right := impart.Seq(0), true
	limit := impart.MaxLimit
	page, err := ask[*wire.Pulled](c, &wire.Pull{RID: "p", Limit: &limit})
	for ctx.Err() == nil {
		if err != nil {
			return fmt.Errorf("pulling: %w", err)
		}
		if len(page.Pulled.Convs) == 0 {
			break
		}
		got := &page.Pulled.Convs[0]
		for i := range got.Events {
			right = right && got.Events[i].Seq == at+1
			at = got.Events[i].Seq
		}
		events.done.Add(int64(len(got.Events)))
		ack := &wire.Ack{RID: "a", Items: []impart.AckItem{{Conv: p.conv, Seq: got.Through}}}
		if err := c.write(ack); err != nil {
			return err
		}
		page, err = ask[*wire.Pulled](c, &wire.Pull{RID: "p", Limit: &limit})
	}
	if ctx.Err() != nil {
		return nil // cut short: it counts for nothing
	}
	devices.record(time.Since(start))
	p.caught.Add(1)
	if !right || int(at) < p.backlog {
		p.wrong.Add(1)
	}
	return nil
}
