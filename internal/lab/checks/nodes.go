package checks

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/lab"
	"github.com/impart-im/impart/internal/lab/link"
	"github.com/impart-im/impart/internal/lab/probe"
	"github.com/impart-im/impart/wire"
)

// nodes are the checks about several nodes on one database.
func nodes() []lab.Check {
	return []lab.Check{
		{
			ID: "node-paused", Invariant: "D2", Only: onServers,
			What:   "One of two nodes is stopped (SIGSTOP) for 5 s under load; its devices go to the other one and send again; then it goes on with what it had begun. It takes 20 ms for a commit, so that it freezes with one under way.",
			Expect: "one row for each message, nothing acknowledged is lost, and a device that has moved is told so where it was, and acknowledges nothing there any more",
			Twins:  []lab.Sabotage{noDedup},
			Run:    nodePaused,
		},
		{
			ID: "listen-cut", Invariant: "D5", Only: onPostgres, Shape: lab.Whole,
			What:   "The connection on which a node listens is cut for 2 s, ended by the database, and swallowed without a word; each time a message is stored at the other node meanwhile. The sweep runs once a minute.",
			Expect: "each message is with the device within 12 s, long before the sweep",
			Twins:  []lab.Sabotage{lab.Planted(fault.MissedUntold, "a bus that hears again does not say that it was deaf")},
			Run:    listenCut,
		},
		{
			ID: "rolling-restart", Invariant: "D2", Only: onServers, Limit: 2 * time.Minute,
			What:   "Three nodes behind a balancer are restarted one after another while apps talk, first in good order, then by kill -9; each loses 10 replies, so that apps send again, and takes 20 ms for a commit, so that every end finds some under way.",
			Expect: "each message once, every app handles the whole log in order, what was called sent is where it was said to be, outboxes are empty",
			Twins:  []lab.Sabotage{lab.Planted(fault.ClientForgetsSent, "a message leaves the outbox when it is sent")},
			Run:    rollingRestart,
		},
		{
			ID: "sweep-cost", Invariant: "D5", Only: onServers, Limit: 3 * time.Minute,
			What:   "One conversation is busy beside 20 devices and 20 conversations at rest, and then beside 2,000 of each.",
			Expect: "a sweep reads the database as often as before",
			Twins:  []lab.Sabotage{lab.Planted(fault.SweepAsksAll, "each sweep compares every connection in full")},
			Run:    sweepCost,
		},
	}
}

func nodePaused(ctx context.Context, b *lab.Bench) {
	db := b.Database(nil)
	// Commits take their time there, so that it freezes with one under way.
	frozen, other := db.Node("IM_SWEEP_MS=500", "IM_FAULT=send.before_commit:delay=20"), db.Node("IM_SWEEP_MS=500")
	frozen.PutConv(ab, ana, ben)
	l := newLedger()
	l.load(b, frozen, 500*time.Millisecond, true)
	before := b.DeviceAs(frozen.Addr(), ben, "d-moves", "i-1", nil)
	b.Each(2, func(i int) {
		if i == 0 {
			l.keepSending(b, []*lab.Server{frozen, other}, 7*time.Second, true)
			return
		}
		b.Pause(500 * time.Millisecond)
		frozen.Pause()
		b.DeviceAs(other.Addr(), ben, "d-moves", "i-1", nil)
		b.Pause(5 * time.Second)
		frozen.Resume()
	})
	b.Bit("messages that were sent again", l.repeated)
	_, told := before.Hears(replySoon, isBye(wire.ByeSuperseded))
	b.Wants(told, "a device that has moved is not told so where it was")
	_, err := before.Ack(ab, 1)
	b.Wants(err != nil, "an ack where the device was is taken")
	l.settle(b, 20*time.Second, frozen, other)
	lost := l.judge(ctx, b, other)
	n := other.Total()
	b.Wants(int(n) == len(l.sent), "%d row(s) for %d message(s)", n, len(l.sent))
	b.Saw("%d message(s) sent again, %d row(s) for %d message(s), %d lost, the device that moved was told: %v", l.repeated, n, len(l.sent), lost, told)
}

func listenCut(ctx context.Context, b *lab.Bench) {
	db := b.Database(nil)
	net := db.Link()
	deaf := db.NewNode("IM_SWEEP_MS=60000", db.ListenAt(net.Addr()))
	deaf.Start()
	other := db.Node("IM_SWEEP_MS=60000")
	deaf.PutConv(ab, ana, ben)
	phone, reader := b.Device(other.Addr(), ana), b.Device(deaf.Addr(), ben)
	const within = 12 * time.Second
	slowest, n := time.Duration(0), 0
	lost := false
	arrives := func(meanwhile, after func()) {
		if lost { // that is found already
			return
		}
		n++
		meanwhile()
		began := time.Now()
		sent := phone.MustSend(ab, cmid("m", n), "hi")
		after()
		_, came := reader.Hears(within, func(f frame) bool { return probe.IsEvent(ab, sent.Seq)(f) || hintHead(f) >= sent.Seq })
		b.Wants(came, "message %d did not come within %v", n, within)
		lost = !came
		took := time.Since(began)
		b.Note("judge", "heard", "message %d after %v", n, took.Round(time.Millisecond))
		slowest = max(slowest, took)
		if _, err := reader.Ack(ab, sent.Seq); err != nil {
			b.Violated("the reader cannot acknowledge: %v", err)
		}
	}
	nothing := func() {}
	arrives(nothing, nothing)
	arrives(func() {
		net.Refuse(true)
		net.Cut(link.Reset)
	}, func() {
		b.Pause(2 * time.Second)
		net.Heal()
	})
	ended := 0
	arrives(func() { net.Refuse(true); ended = db.Terminate("impart-%") }, func() { b.Pause(time.Second); net.Heal() })
	arrives(func() {
		for _, l := range net.Links() { // those to come are good
			l.Shape(link.Both, func(s *link.Shape) { s.BlackHole = true })
		}
	}, nothing)
	breaks := deaf.Metric("im_bus_break_total", `purpose="listen"`)
	b.Bit("connections lost", int(breaks))
	if !lost {
		b.Bit("sessions ended by the database", ended)
		b.Bit("bytes swallowed", int(net.Counts().Swallowed))
	}
	b.Saw("%v time(s) deaf, %d message(s) of %d with the device, the slowest after %d ms", breaks, reader.Count(isPush)+reader.Count(probe.IsHint(ab, "")), n, slowest.Milliseconds())
}

func rollingRestart(ctx context.Context, b *lab.Bench) {
	db := b.Database(nil)
	var all []*lab.Server
	for range 3 { // commits take their time, so that every end finds some under way
		all = append(all, db.Node("IM_SWEEP_MS=500", "IM_FAULT=gw.reply.send:drop:10:10,send.before_commit:delay=20"))
	}
	net := b.Balance(all...)
	users := []impart.UserID{"u-1", "u-2", "u-3"}
	all[0].PutConv(ab, users...)
	var apps []*lab.App
	for _, user := range users {
		a := b.App(net.Addr(), user)
		a.Start()
		apps = append(apps, a)
	}
	over := make(chan struct{})
	sent := make([]int, len(apps))
	restarts := 0
	b.Each(len(apps)+1, func(i int) {
		if i == len(apps) {
			defer close(over)
			for _, end := range []func(*lab.Server){(*lab.Server).Drain, (*lab.Server).Kill} {
				for _, s := range all {
					b.Pause(1200 * time.Millisecond)
					end(s)
					s.Start()
					restarts++
				}
			}
			b.Pause(time.Second)
			return
		}
		for ; ; sent[i]++ {
			select {
			case <-over:
				return
			case <-ctx.Done():
				return
			default:
			}
			apps[i].Send(ab, cmid(string(users[i]), sent[i]), fmt.Sprint("message ", sent[i]))
			b.Pause(20 * time.Millisecond)
		}
	})
	b.Bit("restarts", restarts)
	messages, lost := 0, 0
	for _, n := range sent {
		messages += n
	}
	for _, s := range all {
		lost += s.Struck(fault.ReplySend)
	}
	b.Bit("replies lost", lost)
	stored := b.Eventually(20*time.Second, func() bool { return all[0].Total() >= int64(messages) })
	for _, a := range apps {
		if stored {
			a.Reaches(15*time.Second, ab, impart.Seq(messages))
		}
	}
	judgeApps(ctx, b, all[0], messages, apps...)
	b.Saw("%d restart(s), %d repl(ies) lost, %d row(s) for %d message(s)", restarts, lost, all[0].Total(), messages)
}

func sweepCost(ctx context.Context, b *lab.Bench) {
	db := b.Database(nil)
	s := db.Node("IM_SWEEP_MS=500")
	s.PutConv(ab, ana, ben)
	phone, other := b.Device(s.Addr(), ana), b.Device(s.Addr(), ben)
	there := 0
	grow := func(to int) {
		const hands = 8
		b.Each(hands, func(hand int) {
			for i := there + hand; i < to; i += hands {
				user, next := impart.UserID(fmt.Sprint("u-", i)), impart.UserID(fmt.Sprint("u-", i+1))
				s.PutConv(impart.ConvID(fmt.Sprint("c-", i)), user, next)
				b.Device(s.Addr(), user)
			}
		})
		there = to
	}
	var took []time.Duration
	n := 0
	measure := func() (reads, sweeps float64) {
		took = took[:0]
		b.Pause(1500 * time.Millisecond) // what the crowd has begun is over
		reads, sweeps = s.Metric("im_store_reads_total"), s.Metric("im_sweep_seconds_count")
		for end := time.Now().Add(6 * time.Second); time.Now().Before(end); n++ {
			began := time.Now()
			sent := phone.MustSend(ab, cmid("m", n), "hi")
			took = append(took, time.Since(began))
			for _, d := range []*lab.Device{phone, other} {
				_, err := d.Ack(ab, sent.Seq)
				b.Must(err)
			}
			b.Pause(50 * time.Millisecond)
		}
		return s.Metric("im_store_reads_total") - reads, s.Metric("im_sweep_seconds_count") - sweeps
	}
	const few, many = 20, 2000
	grow(few)
	reads, sweeps := measure()
	before := reads / max(sweeps, 1)
	grow(many)
	reads, sweeps = measure()
	after := reads / max(sweeps, 1)
	b.Bit("sweeps", int(sweeps))
	b.Bit("devices", int(s.Metric("im_connections"))-few)
	b.Wants(sweeps >= 6, "%v sweep(s) in 6 s", sweeps)
	// A connection is compared in full every few minutes, whatever happens.
	b.Wants(after <= 2*before+10, "a sweep with its traffic reads %.1f times, and read %.1f times with a hundredth of the devices", after, before)
	slices.Sort(took)
	for _, p := range []int{50, 95, 99} {
		b.Figure(fmt.Sprintf("time to sent, p%d", p), took[len(took)*p/100].Seconds()*1000, "ms")
	}
	b.Figure("reads of the database for each sweep, 20 devices", before, "")
	b.Figure("reads of the database for each sweep, 2,000 devices", after, "")
	b.Saw("%.1f read(s) a sweep with %d devices and conversations, %.1f with %d; traffic included", before, few, after, many)
}
