package checks

import (
	"context"
	"fmt"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/lab"
	"github.com/impart-im/impart/internal/lab/rows"
)

// asynchronous is a replication that nobody waits for, though the nodes were started
// when somebody did.
var asynchronous = lab.Sabotage{Name: "asynchronous", What: "no commit waits for the standby, which lacks the last of them"}

// failovers are the checks about a standby that takes the place of its primary.
func failovers() []lab.Check {
	return []lab.Check{
		{
			ID: "db-promotion-synchronous", Invariant: "D6", Only: onPostgres, Limit: 2 * time.Minute,
			What:   "The primary of a synchronous standby is killed under load from two nodes whose operator vouches for the replication; the standby is promoted.",
			Expect: "every acknowledged message is there with its seq and mid, the epoch stays, and everything has its answer within 30 s",
			Twins:  []lab.Sabotage{asynchronous},
			Run:    promotionSynchronous,
		},
		{
			ID: "db-promotion-asynchronous", Invariant: "D18", Only: onPostgres, Limit: 2 * time.Minute,
			What:   "The primary of an asynchronous standby is killed while apps talk through two nodes; the standby lacks the last messages and is promoted.",
			Expect: "the epoch rises once, lost promises are counted, the apps send again what was undone, and all end with one log, without a hole and each message once",
			Twins:  []lab.Sabotage{lab.Planted(fault.KeepsEpoch, "the epoch stays, whatever is lost")},
			Run:    promotionAsynchronous,
		},
		{
			ID: "db-promotion-nodes-down", Invariant: "D18", Only: onPostgres,
			What:   "Both nodes are killed, then the primary, and its standby is promoted; only then the nodes start again, and nobody vouches for the replication.",
			Expect: "the nodes start and judge by themselves within 30 s, the epoch rises, everything is there and more is taken",
			Twins:  []lab.Sabotage{lab.Planted(fault.KeepsEpoch, "the epoch stays, whatever is lost")},
			Run:    promotionNodesDown,
		},
		{
			ID: "db-old-primary-thaws", Invariant: "D6", Only: onPostgres, Limit: 2 * time.Minute,
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
	db = b.Database(nil)
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
	db := b.Database(nil)
	standby := db.Standby("s1")
	nodes := []*lab.Server{db.Node("IM_SWEEP_MS=500"), db.Node("IM_SWEEP_MS=500")}
	users := []impart.UserID{"u-1", "u-2", "u-3"}
	nodes[0].PutConv(ab, users...)
	var all []*lab.App
	for i, user := range users {
		a := b.App(nodes[i%2].Addr(), user)
		a.Start()
		a.Online()
		all = append(all, a)
	}
	sent := make([]int, len(all))
	talk := func(d time.Duration) {
		end := time.Now().Add(d)
		b.Each(len(all), func(i int) {
			for ; time.Now().Before(end); sent[i]++ {
				all[i].Send(ab, cmid(string(users[i]), sent[i]), fmt.Sprint("message ", sent[i]))
				b.Pause(15 * time.Millisecond)
			}
		})
	}
	talk(time.Second)
	if !db.Caught(20*time.Second, standby) {
		b.Broken("the standby does not stream")
	}
	had := nodes[0].Total()
	db.Deafen(standby)
	talk(1500 * time.Millisecond)
	b.Bit("events that the standby lacks", int(nodes[0].Total()-had))
	before := nodes[0].Epoch()
	began := time.Now()
	db.Kill()
	db.Promote(standby)
	talk(time.Second)
	messages := 0
	for _, n := range sent {
		messages += n
	}
	stored := b.Eventually(25*time.Second, func() bool { return nodes[0].Total() >= int64(messages) })
	took := time.Since(began)
	b.Wants(stored, "%d row(s) for %d message(s)", nodes[0].Total(), messages)
	epoch := nodes[0].Epoch()
	b.Wants(epoch > before, "the epoch is still %d, and %d acknowledged event(s) are gone", epoch, nodes[0].Total()-had)
	counted := nodes[0].Metric("im_lost_acknowledged_total") + nodes[1].Metric("im_lost_acknowledged_total")
	b.Wants(counted > 0, "nothing is counted as lost")
	for i := 0; stored && i < len(all); i++ {
		judgeConverged(ctx, b, nodes[0], all[i])
	}
	checkLog(ctx, b, nodes[0])
	b.Wants(nodes[0].Epoch() == epoch, "the epoch rose again, to %d", nodes[0].Epoch())
	b.Figure("from the kill to all messages stored again", took.Seconds()*1000, "ms")
	b.Saw("epoch %d → %d, %v lost promise(s) counted, %d row(s) for %d message(s), all there %d ms after the kill", before, epoch, counted, nodes[0].Total(), messages, took.Milliseconds())
}

func promotionNodesDown(ctx context.Context, b *lab.Bench) {
	db := b.Database(nil)
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

// judgeConverged wants an app whose history was rewound to end with the log: what it
// holds after all that it was told, and what its messages were last said to be.
func judgeConverged(ctx context.Context, b *lab.Bench, s *lab.Server, a *lab.App) {
	var log []rows.Event
	s.Look(func(db *rows.DB) (err error) { log, err = db.Events(ctx, ab); return err })
	there := map[impart.CMID]rows.Event{}
	for _, e := range log {
		if e.Sender == a.User {
			there[e.CMID] = e
		}
	}
	holds := func() (map[impart.Seq]impart.MID, map[impart.CMID]impart.Seq) {
		has, told := map[impart.Seq]impart.MID{}, map[impart.CMID]impart.Seq{}
		for _, l := range a.All() {
			switch {
			case l.Saw == "handled" && l.Conv == ab:
				has[l.Seq] = l.MID
			case l.Saw == "rewound" && l.Conv == ab:
				for seq := range has {
					if seq > l.Seq {
						delete(has, seq)
					}
				}
			case l.Saw == "settled" && l.Err == "":
				told[l.CMID] = l.Seq
			}
		}
		return has, told
	}
	wrong := func() (n int) {
		has, _ := holds()
		for _, e := range log {
			if has[e.Seq] != e.MID {
				n++
			}
		}
		return n + max(0, len(has)-len(log))
	}
	b.Eventually(20*time.Second, func() bool { return wrong() == 0 && a.Outbox() == 0 })
	b.Wants(wrong() == 0, "%s differs from the log in %d of %d event(s)", a.Name, wrong(), len(log))
	b.Wants(a.Outbox() == 0, "the outbox of %s is not empty", a.Name)
	_, told := holds()
	for m, seq := range told {
		b.Wants(there[m].Seq == seq, "%s was last told that %s is sent as seq %d, and the log has it as %d", a.Name, m, seq, there[m].Seq)
	}
}

func oldPrimaryThaws(ctx context.Context, b *lab.Bench) {
	db, standby, nodes := replicated(b)
	old := db.Server()
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
	b.Must(old.Resume())
	b.Note("database", "resumed", "the old primary thaws")
	l.keepSending(b, nodes, 5*time.Second, true)
	l.settle(b, 40*time.Second, nodes...)
	lost := l.judge(ctx, b, nodes[0])
	b.Saw("%d waiting commit(s) ended, %d called sent meanwhile, %d of %d acknowledged message(s) not in the new primary", ended, promised, lost, len(l.sent))
}
