package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// SendLoad is what [Env.Send] does. The zero value of a field is its default.
type SendLoad struct {
	Senders       int           // connections that send; 256
	Conversations int           // all senders write to all of them; 200
	Body          int           // bytes of a message; 150
	Duration      time.Duration // of each window; 10 s
	Turns         int           // of the lone sender, with lone commits; 1,000
	Rounds        int           // how often each window is measured; 1, or 3 with a comparison. Medians count
	// Rate is sends a second of an open loop; 0: none. With Share it is instead that
	// share (0..1) of what the closed loop has just done.
	Rate, Share float64
	Apart       bool // also a gateway and a logic node apart, turn about
	Naive       bool // also a server with one transaction per message, turn about
	Raw         bool // also the store called directly with batches of 256, turn about
}

func (l *SendLoad) setDefaults() {
	defaultTo(&l.Senders, 256)
	defaultTo(&l.Conversations, 200)
	defaultTo(&l.Body, 150)
	defaultTo(&l.Duration, 10*time.Second)
	defaultTo(&l.Turns, loneTurns)
	rounds := 1
	if l.Naive || l.Raw || l.Apart {
		rounds = 3
	}
	defaultTo(&l.Rounds, rounds)
}

func defaultTo[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// rawBatch is the batch of the store's ceiling.
const rawBatch = 256

// Send measures durable sends over WebSocket: a lone sender, many in closed
// loop, and an open loop with a rate.
func (e *Env) Send(ctx context.Context, l SendLoad) error {
	l.setDefaults()
	b := &sendBench{Env: e, load: l}
	defer b.close()
	if err := b.prepare(ctx); err != nil {
		return err
	}
	failed := b.measure(ctx)
	for _, s := range []struct {
		target *Target
		crowd  *crowd
	}{{b.server, b.crowd}, {b.naive, b.slow}, {b.roles, b.apart}} {
		if s.target == nil {
			continue
		}
		if err := e.verify(ctx, s.target, s.crowd.ledger, anybody); err != nil {
			return errors.Join(failed, err)
		}
	}
	b.summarize()
	return failed
}

// sendBench is one run of [Env.Send].
type sendBench struct {
	*Env
	load                 SendLoad
	server, naive, roles *Target
	crowd, slow, apart   *crowd
	yard                 *yardstick

	alone, commit      Run
	group, single, raw []Run
	hops               []Run // with the roles apart
	paced              *Run  // the open loop
}

func (b *sendBench) prepare(ctx context.Context) (err error) {
	if b.server, err = b.Start(ctx, false); err != nil {
		return err
	}
	l := &b.load
	if b.crowd, err = b.newCrowd(ctx, b.server, l.Senders, l.Conversations, l.Body); err != nil {
		return err
	}
	if l.Naive {
		if b.naive, err = b.Start(ctx, true); err != nil {
			return err
		}
		b.naive.Label = ", one transaction per message"
		if b.slow, err = b.newCrowd(ctx, b.naive, l.Senders, l.Conversations, l.Body); err != nil {
			return err
		}
	}
	if l.Apart {
		if b.roles, err = b.StartApart(ctx); err != nil {
			return err
		}
		b.roles.Label = ", gateway and logic apart"
		if b.apart, err = b.newCrowd(ctx, b.roles, l.Senders, l.Conversations, l.Body); err != nil {
			return err
		}
	}
	if b.OpenStore != nil {
		b.yard, err = b.newYardstick(ctx, l.Senders, l.Conversations, l.Body)
	}
	return err
}

func (b *sendBench) close() {
	for _, c := range []*crowd{b.crowd, b.slow, b.apart} {
		if c != nil {
			c.close()
		}
	}
	if b.yard != nil {
		_ = b.yard.close()
	}
}

func (b *sendBench) measure(ctx context.Context) (err error) {
	before, start := b.counters(ctx, b.server), time.Now()
	if b.alone, b.commit, err = b.lone(ctx, b.crowd, b.yard, b.load.Turns); err != nil {
		return err
	}
	b.counters(ctx, b.server).since(before).others(&b.alone, time.Since(start).Seconds())
	for round := range b.load.Rounds {
		if err := b.round(ctx, round); err != nil || ctx.Err() != nil {
			return err
		}
	}
	rate := b.load.Rate
	if b.load.Share > 0 {
		rate = b.load.Share * medianRate(b.group)
	}
	if rate > 0 {
		run, err := b.openLoop(ctx, rate)
		b.paced = &run
		if err != nil {
			return err
		}
	}
	return nil
}

// round measures each way of sending once.
func (b *sendBench) round(ctx context.Context, round int) error {
	name := func(what string) string {
		if b.load.Rounds == 1 {
			return what
		}
		return fmt.Sprintf("%s, round %d", what, round+1)
	}
	run, err := b.closedLoop(ctx, b.server, b.crowd, name(fmt.Sprintf("%d senders", b.load.Senders)))
	b.group = append(b.group, run)
	if err != nil {
		return err
	}
	if b.load.Naive && ctx.Err() == nil {
		run, err := b.closedLoop(ctx, b.naive, b.slow, name("one transaction per message"))
		if err != nil {
			return err
		}
		b.single = append(b.single, run)
	}
	if b.load.Apart && ctx.Err() == nil {
		run, err := b.closedLoop(ctx, b.roles, b.apart, name("gateway and logic apart"))
		if err != nil {
			return err
		}
		b.hops = append(b.hops, run)
	}
	if b.load.Raw && b.yard != nil && ctx.Err() == nil {
		run, err := b.ceiling(ctx, name("the store alone, batches of 256"))
		if err != nil {
			return err
		}
		b.raw = append(b.raw, run)
	}
	return nil
}

func (b *sendBench) closedLoop(ctx context.Context, t *Target, c *crowd, name string) (Run, error) {
	before := b.counters(ctx, t)
	m := newMeter()
	run, err := b.window(ctx, window{name: name, unit: "sends", of: b.load.Duration}, m, func(ctx context.Context) error {
		return c.closed(ctx, m)
	})
	run.Loop, run.Of = Closed, "a send, by the client"
	c.refused.describe(&run)
	b.counters(ctx, t).since(before).describe(&run)
	return run, err
}

// ceiling calls the store directly.
func (b *sendBench) ceiling(ctx context.Context, name string) (Run, error) {
	m := newMeter()
	run, err := b.window(ctx, window{name: name, unit: "sends", of: b.load.Duration}, m, func(ctx context.Context) error {
		for ctx.Err() == nil {
			start := time.Now()
			if err := b.yard.batch(context.WithoutCancel(ctx), rawBatch); err != nil {
				return err
			}
			m.lat.record(time.Since(start))
			m.done.Add(rawBatch)
		}
		return nil
	})
	run.Loop, run.Of = Closed, "a batch of 256"
	return run, err
}

func medianRate(runs []Run) float64 {
	var rates []float64
	for i := range runs {
		rates = append(rates, runs[i].figure("sends a second"))
	}
	return median(rates)
}

// median of some figures; 0 of none. Of an even number it is the mean of the two
// in the middle.
func median(figures []float64) float64 {
	if len(figures) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(figures))
	mid := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[mid]
	}
	return (sorted[mid-1] + sorted[mid]) / 2
}

// summarize puts runs and ratios into the report.
func (b *sendBench) summarize() {
	r := b.Report
	r.Runs = append(r.Runs, b.alone)
	if b.yard != nil {
		r.Runs = append(r.Runs, b.commit)
	}
	for _, runs := range [][]Run{b.group, b.single, b.hops, b.raw} {
		r.Runs = append(r.Runs, runs...)
	}
	if b.paced != nil {
		r.Runs = append(r.Runs, *b.paced)
	}
	r.ratio(Ratio{Name: "× one transaction per message", Value: medianRate(b.group) / medianRate(b.single), Reach: 8,
		Why: "sends a second, medians, both servers in this run"}, slices.Concat(b.group, b.single)...)
	r.ratio(Ratio{Name: "% of the single process, gateway and logic apart", Value: 100 * medianRate(b.hops) / medianRate(b.group), Reach: 70,
		Why: "sends a second, medians, both in this run; the processes apart share the machine"}, slices.Concat(b.group, b.hops)...)
	r.ratio(Ratio{Name: "% of the store alone", Value: 100 * medianRate(b.group) / medianRate(b.raw), Reach: 60,
		Why: "sends a second, medians, against batches of 256 without a server"}, b.group...)
	if b.commit.Latency == nil {
		return
	}
	lone := b.commit.Latency.P50
	if b.alone.Latency != nil {
		r.ratio(Ratio{Name: "× a lone commit, p50 of one sender", Value: b.alone.Latency.P50 / lone, Reach: 1.3, AtMost: true,
			Why: "in turns with it"}, b.alone)
	}
	if b.paced != nil && b.paced.Latency != nil {
		r.tail(b.paced, lone)
	}
}

// tail compares the slow sends of an open loop with lone commits: those on a
// machine without load, p50 of which is lone, and those meanwhile.
func (r *Report) tail(run *Run, lone float64) {
	p99 := run.Latency.P99
	r.ratio(Ratio{Name: "× a lone commit, p99 of a send in open loop", Value: p99 / lone, Reach: 8, AtMost: true,
		Why: "p50 of the lone commits before the load"}, *run)
	r.ratio(Ratio{Name: "× a lone commit meanwhile, both p99", Value: p99 / run.figure(controlP99),
		Why: "on a machine as busy as it was then"})
}

// ratio adds a comparison of runs, unless one of its sides was not measured.
func (r *Report) ratio(of Ratio, runs ...Run) {
	for i := range runs {
		of.Others = max(of.Others, runs[i].figure(othersCPU))
	}
	if of.Value > 0 && !math.IsInf(of.Value, 0) && !math.IsNaN(of.Value) {
		r.Ratios = append(r.Ratios, of)
	}
}
