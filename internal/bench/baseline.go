package bench

import (
	"context"
	"errors"
	"time"

	"github.com/impart-im/impart"
)

// The baseline of seed 000 (06, section 2).
const (
	baselineSends  = 1300   // messages a second
	baselinePushes = 9067   // pushes a second
	baselineLoss   = 0.03   // of pushes are delivered again
	baselineDevice = 10_000 // devices
)

// BaselineLoad is what [Env.Baseline] does. The zero value of a field is its default.
type BaselineLoad struct {
	Devices  int           // 10,000: one a user, in groups of eight, all connected
	Multiple float64       // of the baseline's rates; 1
	Duration time.Duration // 60 s
	Body     int           // bytes of a message; 150
	// FindLimit raises the multiple, by Step, until the load is not carried any more.
	FindLimit bool
	Step      time.Duration // 15 s
}

func (l *BaselineLoad) setDefaults() {
	defaultTo(&l.Devices, baselineDevice)
	defaultTo(&l.Multiple, 1)
	defaultTo(&l.Duration, time.Minute)
	defaultTo(&l.Body, 150)
	defaultTo(&l.Step, 15*time.Second)
}

// groupSize is how many devices are in a group; every oddGroup-th has one less, so
// that a message is pushed to 9,067/1,300 others in the mean.
const (
	groupSize = 8
	oddGroup  = 39
)

// groupsOf cuts devices into groups: each is a range of device indexes.
func groupsOf(devices int) (groups [][2]int) {
	for from := 0; from < devices; {
		size := groupSize
		if len(groups)%oddGroup == oddGroup-1 {
			size--
		}
		to := min(from+size, devices)
		if devices-to == 1 {
			to++ // nobody is alone
		}
		groups = append(groups, [2]int{from, to})
		from = to
	}
	return groups
}

// Baseline runs seed 000's load, or a multiple of it.
func (e *Env) Baseline(ctx context.Context, l BaselineLoad) error {
	l.setDefaults()
	if err := e.room(l.Devices); err != nil {
		return err
	}
	t, err := e.Start(ctx, false)
	if err != nil {
		return err
	}
	b := &baseline{Env: e, load: l, target: t}
	if err := b.lone(ctx); err != nil {
		return err
	}
	defer b.close()
	if err := b.connect(ctx); err != nil {
		return err
	}
	if l.FindLimit {
		err = b.findLimit(ctx)
	} else {
		err = b.hold(ctx)
	}
	if err == nil {
		e.Report.add(b.fleet.complete(b.behind)...)
	}
	return errors.Join(err, e.verify(ctx, t, b.fleet.ledger, func(conv int) int { return b.ranges[conv][0] }))
}

// baseline is one run of [Env.Baseline].
type baseline struct {
	*Env
	load   BaselineLoad
	target *Target
	ranges [][2]int
	fleet  *fleet
	talk   *talk
	yard   *yardstick // nil where the server is elsewhere
	commit Run
	behind int // devices that never caught up
}

// lone measures lone commits, before there is any load.
func (b *baseline) lone(ctx context.Context) (err error) {
	if b.OpenStore == nil {
		return nil
	}
	if b.yard, err = b.newYardstick(ctx, groupSize, 100, b.load.Body); err != nil {
		return err
	}
	lat := newRecorder()
	for range loneTurns {
		if ctx.Err() != nil {
			break
		}
		took, err := b.yard.commit(context.WithoutCancel(ctx))
		if err != nil {
			return errors.Join(err, b.yard.close())
		}
		lat.record(took)
	}
	b.commit = Run{Name: "a lone commit", Of: "one message committed by the store alone, before the load", Latency: lat.latency()}
	b.Report.Runs = append(b.Report.Runs, b.commit)
	return nil
}

func (b *baseline) close() {
	if b.fleet != nil {
		b.fleet.leave()
	}
	if b.yard != nil {
		_ = b.yard.close()
	}
}

// connect makes the groups and signs all devices in.
func (b *baseline) connect(ctx context.Context) error {
	b.ranges = groupsOf(b.load.Devices)
	ids := make([]impart.ConvID, len(b.ranges))
	for i := range ids {
		ids[i] = b.conv(i)
	}
	b.fleet = &fleet{ledger: newLedger(b.Run(), ids), start: time.Now(), loss: baselineLoss, ackWait: 200 * time.Millisecond,
		body: b.load.Body, devices: make([]*device, b.load.Devices)}
	b.talk = &talk{fleet: b.fleet}
	err := each(ctx, 8, len(ids), func(i int) error {
		var members []impart.UserID
		for k := b.ranges[i][0]; k < b.ranges[i][1]; k++ {
			user, _, err := b.target.User(k)
			if err != nil {
				return err
			}
			members = append(members, user)
		}
		return b.target.PutConversation(ctx, ids[i], members)
	})
	if err != nil {
		return err
	}
	place := make([]int, b.load.Devices)
	for i, r := range b.ranges {
		for k := r[0]; k < r[1]; k++ {
			place[k] = i
		}
	}
	if err := b.joinAll(ctx, b.target, b.fleet, func(i int) int { return place[i] }); err != nil {
		return err
	}
	for _, r := range b.ranges {
		b.talk.groups = append(b.talk.groups, b.fleet.devices[r[0]:r[1]])
	}
	return nil
}

// hold runs one multiple for the whole duration.
func (b *baseline) hold(ctx context.Context) error {
	held, err := b.window(ctx, b.load.Multiple, b.load.Duration)
	if err != nil {
		return err
	}
	b.Report.Runs = append(b.Report.Runs, held.sends, held.pushes)
	r := b.Report
	r.ratio(Ratio{Name: "cursor writes a push", Value: held.cursors, Reach: 0.25, AtMost: true, Why: "cursors that moved over pushes, as the server counts them"})
	if b.commit.Latency != nil && held.sends.Latency != nil {
		r.tail(&held.sends, b.commit.Latency.P50)
	}
	if ctx.Err() == nil {
		r.add(Check{"the rate was held", held.carried(), held.why()})
	}
	return nil
}
