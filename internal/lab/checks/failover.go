package checks

import (
	"context"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/lab"
)

// asynchronous is a replication that nobody waits for, though the nodes were started
// when somebody did.
var asynchronous = lab.Sabotage{Name: "asynchronous", What: "no commit waits for the standby, which lacks the last of them"}

// failovers are the checks about a standby that takes the place of its primary.
func failovers() []lab.Check {
	return []lab.Check{
		{
			ID: "db-promotion-synchronous", Invariant: "D6", Only: onServers, Limit: 2 * time.Minute,
			What:   "The primary of a synchronous standby is killed under load from two nodes whose operator vouches for the replication; the standby is promoted.",
			Expect: "every acknowledged message is there with its seq and mid, the epoch stays, and everything has its answer within 30 s",
			Twins:  []lab.Sabotage{asynchronous},
			Run:    promotionSynchronous,
		},
		{
			ID: "db-promotion-asynchronous", Invariant: "D18", Only: onServers, Limit: 2 * time.Minute,
			What:   "The primary of an asynchronous standby is killed while apps talk through two nodes; the standby lacks the last messages and is promoted.",
			Expect: goesBackExpect,
			Twins:  []lab.Sabotage{keepsEpoch},
			Run:    promotionAsynchronous,
		},
		{
			ID: "db-promotion-nodes-down", Invariant: "D18", Only: onServers,
			What:   "Both nodes are killed, then the primary, and its standby is promoted; only then the nodes start again, and nobody vouches for the replication.",
			Expect: "the nodes start and judge by themselves within 30 s, the epoch rises, everything is there and more is taken",
			Twins:  []lab.Sabotage{keepsEpoch},
			Run:    promotionNodesDown,
		},
		{
			ID: "db-old-primary-thaws", Invariant: "D6", Only: onServers, Limit: 2 * time.Minute,
			What:   "A primary loses its synchronous standby, sessions that wait for it are ended, and clients send again; then it freezes, the standby is promoted, and the old primary thaws in its nodes' reach.",
			Expect: "nothing that no standby has is called sent, not even a repetition; nothing is written to the old primary any more; every acknowledged message is in the new one",
			Twins:  []lab.Sabotage{lab.Planted(fault.DupUnwritten, "a duplicate is answered without a write, which would wait for the standby")},
			Run:    oldPrimaryThaws,
		},
	}
}

// replicated is a primary with a synchronous standby and two nodes whose operator
// vouches for it.
func replicated(b *lab.Bench) (db, standby *lab.Database, nodes []*lab.Server) {
	db = b.Primary()
	standby = db.Standby("s1")
	db.Synchronous(standby)
	for range 2 {
		nodes = append(nodes, db.Node("IM_REPLICATION=sync", "IM_SWEEP_MS=500"))
	}
	nodes[0].PutConv(ab, ana, ben)
	if !db.Caught(20*time.Second, standby) {
		b.Broken("the standby does not stream")
	}
	return db, standby, nodes
}

func promotionSynchronous(ctx context.Context, b *lab.Bench) {
	db, standby, nodes := replicated(b)
	before := nodes[0].Epoch()
	l := newLedger()
	l.keepSending(b, nodes, time.Second, true)
	l.latencies(b)
	if b.Sabotaged(asynchronous.Name) {
		db.Synchronous()
		db.Deafen(standby)
	}
	b.Each(2, func(i int) {
		if i == 0 {
			l.keepSending(b, nodes, 7*time.Second, true)
			return
		}
		b.Pause(700 * time.Millisecond)
		db.Kill()
		db.Promote(standby)
	})
	b.Bit("promotions", 1)
	out := l.gap
	l.settle(b, 30*time.Second, nodes...)
	lost := l.judge(ctx, b, nodes[0])
	epoch := nodes[0].Epoch()
	b.Wants(epoch == before, "the epoch was %d and is %d, though a synchronous standby took over", before, epoch)
	b.Figure("longest time without an answer", out.Seconds()*1000, "ms")
	b.Saw("%d of %d acknowledged message(s) lost, epoch %d → %d, longest time without an answer %d ms", lost, len(l.sent), before, epoch, out.Milliseconds())
}

func promotionAsynchronous(ctx context.Context, b *lab.Bench) {
	db := b.Primary()
	standby := db.Standby("s1")
	nodes := []*lab.Server{db.Node("IM_SWEEP_MS=500"), db.Node("IM_SWEEP_MS=500")}
	c := newCrowd(b, nodes)
	c.talk(b, time.Second)
	if !db.Caught(20*time.Second, standby) {
		b.Broken("the standby does not stream")
	}
	had := nodes[0].Total()
	db.Deafen(standby)
	c.talk(b, 1500*time.Millisecond)
	b.Bit("events that the standby lacks", int(nodes[0].Total()-had))
	before := nodes[0].Epoch()
	began := time.Now()
	db.Kill()
	db.Promote(standby)
	c.talk(b, time.Second)
	c.judgeRaised(ctx, b, nodes, before, began)
}

func promotionNodesDown(ctx context.Context, b *lab.Bench) {
	db := b.Primary()
	standby := db.Standby("s1")
	nodes := []*lab.Server{db.Node(), db.Node()}
	nodes[0].PutConv(ab, ana, ben)
	l := newLedger()
	l.keepSending(b, nodes, time.Second, true)
	l.settle(b, 5*time.Second, nodes...)
	if !db.Caught(20*time.Second, standby) {
		b.Broken("the standby does not stream")
	}
	before := nodes[0].Epoch()
	for _, s := range nodes {
		s.Kill()
	}
	db.Kill()
	db.Promote(standby)
	b.Bit("promotions", 1)
	began := time.Now()
	for _, s := range nodes {
		if err := s.TryStart(); err != nil {
			b.Violated("a node does not start after the promotion: %v", err)
			return
		}
	}
	took := time.Since(began)
	l.keepSending(b, nodes, time.Second, true)
	l.settle(b, 15*time.Second, nodes...)
	lost := l.judge(ctx, b, nodes[0])
	epoch := nodes[0].Epoch()
	b.Wants(epoch > before, "the epoch is still %d, and nobody vouches for the replication", epoch)
	b.Figure("until both nodes serve", took.Seconds()*1000, "ms")
	b.Saw("both nodes serve after %d ms, epoch %d → %d, %d of %d acknowledged message(s) lost", took.Milliseconds(), before, epoch, lost, len(l.sent))
}

func oldPrimaryThaws(ctx context.Context, b *lab.Bench) {
	db, standby, nodes := replicated(b)
	l := newLedger()
	l.keepSending(b, nodes, time.Second, true)
	safe := len(l.sent)
	// Nobody says hello any more once the standby is gone: that is written too.
	phones := make([]*lab.Device, 4)
	for i := range phones {
		phones[i] = b.DeviceAs(nodes[i%2].Addr(), ana, impart.DeviceID(cmid("d", i)), "i-1", nil)
	}
	db.Deafen(standby)
	// Each commit now waits for a standby that never answers. What waits is ended,
	// as by whoever gives it up: it is committed on the primary and nowhere else.
	ended := 0
	b.Each(len(phones)+1, func(i int) {
		if i < len(phones) {
			m, _ := l.take(true)
			sent, err := phones[i].SendWithin(6*time.Second, ab, m, "hi")
			l.answered(b, m, sent, err)
			return
		}
		for range 4 {
			b.Pause(1200 * time.Millisecond)
			ended += db.Waiters()
		}
	})
	b.Bit("commits that waited for a standby, ended", ended)
	promised := len(l.sent) - safe
	b.Wants(promised == 0, "%d message(s) were called sent that no standby has", promised)
	db.Pause()
	db.Promote(standby)
	b.Bit("promotions", 1)
	l.keepSending(b, nodes, 3*time.Second, true)
	db.OldThaws()
	l.keepSending(b, nodes, 5*time.Second, true)
	l.settle(b, 40*time.Second, nodes...)
	lost := l.judge(ctx, b, nodes[0])
	b.Saw("%d waiting commit(s) ended, %d called sent meanwhile, %d of %d acknowledged message(s) not in the new primary", ended, promised, lost, len(l.sent))
}
