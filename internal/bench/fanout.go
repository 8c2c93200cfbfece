package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/impart-im/impart"
)

// FanoutLoad is what [Env.Fanout] does. The zero value of a field is its default.
type FanoutLoad struct {
	Devices  int           // live devices of one conversation; 500
	Ahead    int           // messages that the one sender has in flight; 64
	Body     int           // bytes of a message; 150
	Duration time.Duration // 10 s
	// Rate makes it an open loop: messages a second; 0: as fast as Ahead allows.
	Rate float64
}

func (l *FanoutLoad) setDefaults() {
	defaultTo(&l.Devices, 500)
	defaultTo(&l.Ahead, 64)
	defaultTo(&l.Body, 150)
	defaultTo(&l.Duration, 10*time.Second)
}

// Fanout measures one conversation with many live devices and one sender.
func (e *Env) Fanout(ctx context.Context, l FanoutLoad) error {
	l.setDefaults()
	if err := e.room(l.Devices + 1); err != nil {
		return err
	}
	t, err := e.Start(ctx, false)
	if err != nil {
		return err
	}
	f, err := e.gather(ctx, t, l)
	if err != nil {
		return err
	}
	defer f.leave()
	before := e.counters(ctx, t)
	name := fmt.Sprintf("one sender, %d devices", l.Devices)
	frames := &track{name: "pushes to " + fmt.Sprint(l.Devices) + " devices", unit: "pushes", m: f.pushes}
	run, err := e.window(ctx, window{name: name, unit: "sends", of: l.Duration, grace: lateAnswer, also: []*track{frames}}, f.sends, func(ctx context.Context) error {
		return f.speak(ctx, f.devices[0], l)
	})
	if err == nil {
		err = f.broken()
	}
	if err != nil {
		return errors.Join(err, e.verify(ctx, t, f.ledger, anybody))
	}
	// Pushed events count as long as they come; what was not pushed is synced.
	behind := e.catchUp(ctx, f)
	seconds := time.Since(f.start).Seconds()
	run.Loop, run.Of = Closed, "a send, by the client"
	if l.Rate > 0 {
		run.Loop, run.Of = Open, "a send, from when it was due to its answer"
	}
	run.Latency = f.sends.lat.latency()
	f.refused.describe(&run)
	e.counters(ctx, t).since(before).describe(&run)
	pushes := frames.run(seconds)
	pushes.Loop, pushes.Of = run.Loop, "an event, from its send until a device had it by push"
	expected := float64(f.sends.done.Load()) * float64(l.Devices)
	pushes.add("events that came by push", 100*float64(f.pushes.done.Load())/max(expected, 1), "%")
	pushes.add("events that a sync had to fetch", float64(f.synced.Load()), "")
	pushes.add("hints", float64(f.hints.Load()), "")
	e.Report.Runs = append(e.Report.Runs, run, pushes)
	e.Report.add(f.complete(behind)...)
	return e.verify(ctx, t, f.ledger, anybody)
}

// gather makes one conversation and connects its devices; the first one sends.
func (e *Env) gather(ctx context.Context, t *Target, l FanoutLoad) (*fleet, error) {
	members := make([]impart.UserID, l.Devices+1)
	for i := range members {
		user, _, err := t.User(i)
		if err != nil {
			return nil, err
		}
		members[i] = user
	}
	f := &fleet{ledger: newLedger(e.Run(), []impart.ConvID{e.conv(0)}), ackWait: 200 * time.Millisecond, body: l.Body,
		sends: newMeter(), pushes: newMeter(), devices: make([]*device, l.Devices+1)}
	if err := t.PutConversation(ctx, e.conv(0), members); err != nil {
		return nil, err
	}
	err := e.joinAll(ctx, t, f, func(int) int { return 0 })
	f.start = time.Now()
	return f, err
}

// joinAll connects every device of f; place is the conversation of each. On an
// error none is connected.
func (e *Env) joinAll(ctx context.Context, t *Target, f *fleet, place func(i int) int) error {
	began := time.Now()
	err := each(ctx, 32, len(f.devices), func(i int) (err error) {
		f.devices[i], err = f.join(ctx, t, i, place(i))
		if i%500 == 499 {
			e.tell(Progress{Window: "connecting", Spent: time.Since(began), Done: int64(i + 1), Unit: "devices"})
		}
		return err
	})
	if err != nil {
		f.leave()
	}
	return err
}

// speak lets d send for the whole duration.
func (f *fleet) speak(ctx context.Context, d *device, l FanoutLoad) error {
	ctx, cancel := context.WithTimeout(ctx, l.Duration)
	defer cancel()
	if l.Rate > 0 {
		start := time.Now()
		return schedules(start, l.Rate, 1)[0].keep(ctx, start.Add(l.Duration), d.send)
	}
	d.out.slots = make(chan struct{}, l.Ahead)
	for {
		select {
		case <-ctx.Done():
			return nil
		case d.out.slots <- struct{}{}:
			if err := d.send(time.Now()); err != nil {
				return err
			}
		}
	}
}

// complete are the checks of the devices; behind of them lack something.
func (f *fleet) complete(behind int) []Check {
	detail := fmt.Sprintf("%d devices, %d of them behind %s after the last message", len(f.devices), behind, patience)
	if behind == 0 {
		detail = fmt.Sprintf("%d devices, each with every event of its conversation", len(f.devices))
	}
	gone := f.gone.Load()
	stayed := fmt.Sprintf("%d of %d connections ended", gone, len(f.devices))
	if err := f.broken(); err != nil {
		stayed += ": " + err.Error()
	}
	return []Check{
		{"every device has everything", behind == 0, detail},
		{"every connection stayed", gone == 0, stayed},
	}
}
