package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/impart-im/impart"
)

// IdleLoad is what [Env.Idle] does. The zero value of a field is its default.
type IdleLoad struct {
	Connections int           // 10,000
	Duration    time.Duration // how long they stay before the memory is read for the last time; 60 s
}

// Idle measures the memory of connections that have said hello and sub, and then
// only answer pings.
func (e *Env) Idle(ctx context.Context, l IdleLoad) error {
	defaultTo(&l.Connections, 10_000)
	defaultTo(&l.Duration, time.Minute)
	if err := e.room(l.Connections); err != nil {
		return err
	}
	t, err := e.Start(ctx, false)
	if err != nil {
		return err
	}
	m := &memory{Env: e, target: t}
	// One connection first: what the server needs for any at all is not counted.
	first, err := t.connect(ctx, l.Connections, "bench", true)
	if err != nil {
		return err
	}
	defer first.close()
	before, err := m.least(ctx, "the server alone", l.Duration)
	if err != nil {
		return err
	}
	f := &fleet{ledger: newLedger(e.Run(), []impart.ConvID{e.conv(0)}), devices: make([]*device, l.Connections)}
	began := time.Now()
	if err := e.joinAll(ctx, t, f, func(int) int { return 0 }); err != nil {
		return err
	}
	defer f.leave()
	connected := time.Since(began)
	after, err := m.least(ctx, fmt.Sprintf("%d connections", l.Connections), l.Duration)
	if err != nil {
		return err
	}
	share := (after - before) / float64(l.Connections)
	run := Run{Name: fmt.Sprintf("%d idle connections", l.Connections), Seconds: m.seconds, Points: m.points, PointsOf: "MiB resident"}
	run.add("the server alone", before/(1<<20), "MiB")
	run.add("with the connections", after/(1<<20), "MiB")
	run.add("a connection", share/1024, "KiB")
	run.add("connecting, with hello and sub", float64(l.Connections)/connected.Seconds(), "/s")
	e.Report.Runs = append(e.Report.Runs, run)
	e.Report.ratio(Ratio{Name: "KiB a connection", Value: share / 1024, Reach: 6, AtMost: true, Why: "resident memory beyond the server alone"})
	gone := f.gone.Load()
	detail := fmt.Sprintf("%d of %d connections ended", gone, l.Connections)
	if err := f.broken(); err != nil {
		detail += ": " + err.Error()
	}
	open := e.counters(ctx, t)["im_connections"]
	e.Report.add(Check{"every connection stayed", gone == 0, detail},
		Check{"the server has all of them", open >= float64(l.Connections), fmt.Sprintf("it counts %.0f connections", open)})
	return nil
}

// memory watches the resident memory of a server.
type memory struct {
	*Env
	target  *Target
	points  []Point
	seconds float64
}

// least looks once a second for d and returns the smallest figure, in bytes: the
// server gives memory back a while after it has become quiet.
func (m *memory) least(ctx context.Context, name string, d time.Duration) (least float64, err error) {
	start := time.Now()
	for time.Since(start) < d {
		if !sleep(ctx, time.Second) {
			break
		}
		m.seconds++
		now := m.counters(ctx, m.target)["process_resident_memory_bytes"]
		if now == 0 {
			return 0, fmt.Errorf("the server does not tell its memory: process_resident_memory_bytes is not in %s/metrics", m.target.URL)
		}
		if least == 0 || now < least {
			least = now
		}
		m.points = append(m.points, Point{At: m.seconds, Rate: now / (1 << 20)})
		m.tell(Progress{Window: name, Spent: time.Since(start), Of: d, Done: int64(now) >> 20, Unit: "MiB resident"})
	}
	if least == 0 {
		return 0, fmt.Errorf("interrupted before anything was measured")
	}
	return least, nil
}
