package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

// ModelLoad is how [Env.Model] measures. The zero value of a field is its default.
type ModelLoad struct {
	Multiple float64       // of the baseline's rates in each window; 0.5
	Devices  int           // connected in the mix; 2,000
	Body     int           // bytes of a message; 150
	Duration time.Duration // of each window; 5 s
	Senders  int           // in the windows of one kind of operation, with as many conversations; 64
	Together bool          // in one process, also where a gateway and a logic node can be measured apart
	Assumed  Assumptions
}

// ownServer is how the report begins to say what was measured.
const ownServer = "a server of its own, with its defaults and "

// Storage is what a store has counted since it was made.
type Storage struct {
	Rows float64 // inserted, updated and deleted; 0: not known
	Log  float64 // bytes logged, or written
	Disk float64 // bytes that it takes now
}

// Model measures what one operation costs, one kind of operation a window and then
// all of them in the baseline's mix, and computes from that what multiples need.
func (e *Env) Model(ctx context.Context, l ModelLoad) error {
	defaultTo(&l.Multiple, 0.5)
	defaultTo(&l.Devices, 2000)
	defaultTo(&l.Body, 150)
	defaultTo(&l.Duration, 5*time.Second)
	defaultTo(&l.Senders, 64)
	if err := e.room(max(l.Devices, l.Senders)); err != nil {
		return err
	}
	m := &costing{Env: e, load: l, costs: Costs{Store: strings.TrimPrefix(e.Report.Server, ownServer), Body: l.Body, Multiple: l.Multiple}}
	if err := m.alone(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := m.mixed(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	model, err := NewModel(m.costs, l.Assumed)
	if err != nil {
		return fmt.Errorf("the windows were too short to compute anything from them: %w", err)
	}
	e.Report.Model = model
	return nil
}

// costing is one run of [Env.Model].
type costing struct {
	*Env
	load  ModelLoad
	costs Costs
}

// start starts a server: the roles apart where they can share a store.
func (m *costing) start(ctx context.Context) (*Target, error) {
	if m.StartApart != nil && !m.load.Together {
		return m.StartApart(ctx)
	}
	return m.Start(ctx, false)
}

// spent is what a server and its database have used while something was done.
type spent struct {
	counters
	storage Storage
}

// look is what has been used so far. The server's own metrics are read last before
// a window and first after it.
func (m *costing) look(ctx context.Context, t *Target, before bool) (s spent, err error) {
	ctx = context.WithoutCancel(ctx)
	read := []func(){
		func() {
			if t.Storage != nil {
				s.storage, err = t.Storage(ctx)
			}
		},
		func() { s.counters = m.counters(ctx, t) },
	}
	if !before {
		slices.Reverse(read)
	}
	for _, r := range read {
		r()
	}
	if err == nil && s.counters == nil {
		err = fmt.Errorf("the server shows no metrics, so that nothing is known of its costs")
	}
	return s, err
}

// cost is the mean of n operations.
func (after spent) cost(before spent, n float64) Cost {
	if n == 0 {
		return Cost{}
	}
	d := after.since(before.counters)
	return Cost{
		Server: 1e6 * d["process_cpu_seconds_total"] / n, Logic: 1e6 * d[logicCPU] / n, Database: 1e6 * d[storeCPU] / n,
		Transactions: d["im_store_commits_total"] / n,
		Rows:         (after.storage.Rows - before.storage.Rows) / n,
		Log:          (after.storage.Log - before.storage.Log) / n, Count: int64(n),
	}
}

// alone measures one kind of operation after the other: frames that only the edge
// sees, sends to nobody, acks, and reads of one event.
func (m *costing) alone(ctx context.Context) error {
	t, err := m.start(ctx)
	if err != nil {
		return err
	}
	m.costs.InStore, m.costs.Apart = t.Database == nil, t.Logic != nil
	c, err := m.newCrowd(ctx, t, m.load.Senders, m.load.Senders, m.load.Body)
	if err != nil {
		return err
	}
	defer c.close()
	for _, step := range m.steps(ctx, c) {
		grown, err := m.paced(ctx, t, c, step.name, step.rate, step.cost, step.do)
		if err != nil {
			return err
		}
		if step.cost == &m.costs.Send && step.cost.Count > 0 {
			m.costs.Disk = grown / float64(step.cost.Count)
		}
		if ctx.Err() != nil {
			return nil
		}
	}
	if n := m.costs.Send.Transactions; n > 0 {
		m.costs.BatchedSends = 1 / n
	}
	if err := m.verify(ctx, t, c.ledger, anybody); err != nil {
		return err
	}
	return t.end()
}

// fewDevices are too few to tell the memory of a connection by: the server's own
// growth is more.
const fewDevices = 500

// step is a window of one kind of operation. do is the k-th of a sender, from 0.
type step struct {
	name string
	cost *Cost
	rate float64
	do   func(s *sender, k int64) error
}

// steps are the windows of [costing.alone]; acks and reads go to what the sends
// have stored.
func (m *costing) steps(ctx context.Context, c *crowd) []step {
	sends := m.load.Multiple * baselineSends
	acks := m.load.Multiple * baselinePushes * acksPerPush
	stored := sync.OnceValue(c.ledger.least) // first asked when the sends are done
	place := func(s *sender, k int64) (impart.ConvID, impart.Seq, error) {
		head := stored()
		if head == 0 {
			return "", 0, errors.New("too few messages were stored to measure with: a longer --duration, or a higher --at")
		}
		conv := (int64(s.index) + k/head) % int64(len(c.ledger.convs))
		return c.ledger.convs[conv].id, impart.Seq(1 + k%head), nil
	}
	return []step{
		{"frames that only the edge sees", &m.costs.Frame, acks, func(s *sender, _ int64) error {
			_, err := ask[*wire.Pong](s.conn, &wire.Ping{RID: "p"})
			return err
		}},
		{"sends to nobody", &m.costs.Send, sends, func(s *sender, _ int64) error {
			answered, err := c.one(ctx, s)
			if err == nil && !answered && ctx.Err() == nil {
				err = errors.New("a send was not answered")
			}
			return err
		}},
		{"acks", &m.costs.Ack, acks, func(s *sender, k int64) error {
			conv, seq, err := place(s, k)
			if err != nil {
				return err
			}
			return acknowledge(s.conn, conv, seq)
		}},
		{"reads of one event", &m.costs.Fetch, acks, func(s *sender, k int64) error {
			conv, seq, err := place(s, k)
			if err != nil {
				return err
			}
			return fetch(s.conn, conv, seq-1)
		}},
	}
}

// least is the length of the shortest log.
func (l *ledger) least() int64 {
	least := int64(math.MaxInt64)
	for i := range l.convs {
		c := &l.convs[i]
		c.mu.Lock()
		least = min(least, int64(len(c.hash)))
		c.mu.Unlock()
	}
	return least
}

// end ends a server of our own, so that it takes no part in what is measured next.
func (t *Target) end() error {
	var errs []error
	for _, p := range []*Process{t.Process, t.Logic} {
		if p != nil {
			errs = append(errs, p.Stop())
		}
	}
	return errors.Join(errs...)
}

// acknowledge acks up to seq.
func acknowledge(c *conn, conv impart.ConvID, seq impart.Seq) error {
	got, err := ask[*wire.Acked](c, &wire.Ack{RID: "a", Items: []impart.AckItem{{Conv: conv, Seq: seq}}})
	if err != nil {
		return err
	}
	if len(got.Items) != 1 || got.Items[0].Delivered < seq {
		return fmt.Errorf("an ack of %d in %s was answered with %+v", seq, conv, got.Items)
	}
	return nil
}

// fetch reads the event after one.
func fetch(c *conn, conv impart.ConvID, after impart.Seq) error {
	one := 1
	got, err := ask[*wire.Synced](c, &wire.Sync{RID: "y", Conv: conv, After: &after, Limit: &one})
	if err == nil && len(got.Page.Events) != 1 {
		err = fmt.Errorf("a sync after %d of %s brought %d events", after, conv, len(got.Page.Events))
	}
	return err
}

// paced runs one kind of operation as an open loop, and notes what each cost. It
// returns by how many bytes the store has grown.
func (m *costing) paced(ctx context.Context, t *Target, c *crowd, name string, rate float64, cost *Cost, do func(s *sender, k int64) error) (grown float64, err error) {
	before, err := m.look(ctx, t, true)
	if err != nil {
		return 0, err
	}
	done := newMeter()
	run, err := m.window(ctx, window{name: name, unit: "operations", of: m.load.Duration, grace: lateAnswer}, done, func(ctx context.Context) error {
		start := time.Now()
		plans := schedules(start, rate, len(c.senders))
		return together(len(c.senders), func(i int) error {
			k := int64(0)
			return plans[i].keep(ctx, start.Add(m.load.Duration), func(due time.Time) error {
				if err := do(c.senders[i], k); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				k++
				done.finish(time.Since(due))
				return nil
			})
		})
	})
	if err != nil {
		return 0, err
	}
	after, err := m.look(ctx, t, false)
	if err != nil {
		return 0, err
	}
	*cost = after.cost(before, float64(done.done.Load()))
	run.Loop, run.Of = Open, "one, from when it was due to its answer"
	after.since(before.counters).describe(&run)
	m.Report.Runs = append(m.Report.Runs, run)
	return after.storage.Disk - before.storage.Disk, nil
}

// together runs do(0..n-1) at the same time and returns the first error.
func together(n int, do func(i int) error) error {
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- do(i) }()
	}
	var failed error
	for range n {
		if err := <-errs; err != nil && failed == nil {
			failed = err
		}
	}
	return failed
}

// mixed measures the baseline's mix, and from it what a push costs.
func (m *costing) mixed(ctx context.Context) error {
	t, err := m.start(ctx)
	if err != nil {
		return err
	}
	t.Label = ", in the mix"
	b := &baseline{Env: m.Env, target: t, load: BaselineLoad{Devices: m.load.Devices, Multiple: m.load.Multiple, Duration: m.load.Duration, Body: m.load.Body}}
	defer b.close()
	memory := &memory{Env: m.Env, target: t}
	watch := min(m.load.Duration, 5*time.Second)
	empty, err := memory.least(ctx, "the server alone", watch)
	if err != nil {
		return err
	}
	if err := b.connect(ctx); err != nil {
		return err
	}
	full, err := memory.least(ctx, fmt.Sprintf("%d devices connected", m.load.Devices), watch)
	if err != nil {
		return err
	}
	if m.load.Devices >= fewDevices {
		m.costs.Connection = max(full-empty, 0) / float64(m.load.Devices)
	}
	before, err := m.look(ctx, t, true)
	if err != nil {
		return err
	}
	tallied := b.fleet.tally()
	held, err := b.window(ctx, m.load.Multiple, m.load.Duration)
	if err != nil {
		return err
	}
	after, err := m.look(ctx, t, false)
	if err != nil {
		return err
	}
	m.Report.Runs = append(m.Report.Runs, held.sends, held.pushes)
	if ctx.Err() == nil {
		m.Report.add(Check{"the rate was held", held.carried(), held.why()})
	}
	m.costs.mix(after, before, held.sent, b.fleet.tally().since(tallied))
	m.Report.add(b.fleet.complete(held.behind)...)
	return m.verify(ctx, t, b.fleet.ledger, func(conv int) int { return b.ranges[conv][0] })
}

// mix notes what a message of the mix costs, and takes its send and its acks off
// to have what its pushes cost.
func (c *Costs) mix(after, before spent, messages float64, t tally) {
	c.Mix = after.cost(before, messages)
	if messages == 0 || t.frames == 0 {
		return
	}
	c.PushesPer, c.AcksPer = float64(t.frames)/messages, float64(t.acks)/messages
	rest := func(of func(Cost) float64) float64 {
		return beyond(of(c.Mix), of(c.Send)+c.AcksPer*of(c.Ack)) / c.PushesPer
	}
	c.Push = Cost{
		Server: rest(func(c Cost) float64 { return c.Server }), Logic: rest(func(c Cost) float64 { return c.Logic }), Database: rest(func(c Cost) float64 { return c.Database }),
		Transactions: rest(func(c Cost) float64 { return c.Transactions }), Rows: rest(func(c Cost) float64 { return c.Rows }),
		Log: rest(func(c Cost) float64 { return c.Log }), Count: t.frames,
	}
}
