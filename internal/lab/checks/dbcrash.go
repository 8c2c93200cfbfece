package checks

import (
	"context"
	"time"

	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/lab"
	"github.com/impart-im/impart/internal/lab/link"
)

// dbUnflushed lets a commit of messages wait for nothing.
var dbUnflushed = lab.Sabotage{
	Name: "no-flush", What: "commits wait for no flush (synchronous_commit off, innodb_flush_log_at_trx_commit 0)", Bug: fault.NoFlush,
	Env: []string{"IM_ALLOW_UNSAFE_DURABILITY=true"}, Settings: lab.Settings{lab.MySQL: {"innodb_flush_log_at_trx_commit": "0"}},
}

// dbCrashes are the checks about a database server that ends, freezes or cannot
// be reached.
func dbCrashes() []lab.Check {
	return []lab.Check{
		{
			ID: "06-db-immediate-stop-keeps-acked", Invariant: "D6", Only: onServers, Short: true,
			What:   "The database is stopped at once without a checkpoint (PostgreSQL's immediate stop), or all its processes are killed, 4 times under load; it recovers each time while the server goes on.",
			Expect: "every acknowledged message is there after each recovery with its seq and mid, cursors too, and what was in doubt ends as one row",
			Twins:  []lab.Sabotage{dbUnflushed},
			Run:    dbImmediateStop,
		},
		{
			ID: "db-paused", Invariant: "D2", Only: onServers,
			What:   "All processes of the database are stopped (SIGSTOP) for 4 s under load; clients time out, come back and send again; then it goes on and meets what had piled up.",
			Expect: "one row for each message, nothing acknowledged is lost, and everything has its answer within 15 s",
			Twins:  []lab.Sabotage{noDedup},
			Run:    dbPaused,
		},
		{
			ID: "db-partition", Invariant: "D2", Only: onServers,
			What:   "One of two nodes is cut from the database under load, 3 s each time: what it asks is lost, then what it is answered, then both, then everything is held up; the other node has the same conversation.",
			Expect: "one row for each message, nothing acknowledged is lost, the other node goes on within 15 s, and everything has its answer within 30 s of the end",
			Twins:  []lab.Sabotage{noDedup},
			Run:    dbPartition, Limit: 3 * time.Minute,
		},
	}
}

func dbImmediateStop(ctx context.Context, b *lab.Bench) {
	// Nothing but commits writes the log to the disk.
	db := b.Database(lab.Settings{lab.PostgreSQL: {"wal_writer_delay": "10s"}})
	s := db.Node()
	s.PutConv(ab, ana, ben)
	l := newLedger()
	const cycles = 4
	lost := 0
	for cycle := range cycles {
		b.Each(2, func(i int) {
			if i == 0 {
				l.keepSending(b, []*lab.Server{s}, 1200*time.Millisecond, true)
				return
			}
			b.Pause(time.Duration(300+70*cycle) * time.Millisecond)
			if cycle%2 == 0 {
				db.Stop()
			} else {
				db.Kill()
			}
			db.Start()
		})
		if lost = l.judge(ctx, b, s); lost > 0 {
			break
		}
	}
	b.Bit("recoveries", db.Recoveries())
	b.Wants(s.Process().Running(), "the server has ended with exit code %d", s.Process().ExitCode())
	if lost == 0 {
		l.settle(b, 15*time.Second, s)
		n := s.Total()
		b.Wants(int(n) == len(l.sent), "%d row(s) for %d message(s)", n, len(l.sent))
	}
	l.latencies(b)
	b.Saw("%d recoveries, %d of %d acknowledged message(s) lost, longest time without an answer %d ms",
		db.Recoveries(), lost, len(l.sent), l.gap.Milliseconds())
}

func dbPaused(ctx context.Context, b *lab.Bench) {
	db := b.Database(nil)
	s := db.Node()
	s.PutConv(ab, ana, ben)
	l := newLedger()
	b.Each(2, func(i int) {
		if i == 0 {
			l.keepSending(b, []*lab.Server{s}, 6*time.Second, true)
			return
		}
		b.Pause(500 * time.Millisecond)
		db.Pause()
		b.Pause(4 * time.Second)
		db.Resume()
	})
	b.Bit("time without an answer, in seconds", int(l.gap.Seconds()))
	l.settle(b, 15*time.Second, s)
	lost := l.judge(ctx, b, s)
	n := s.Total()
	b.Wants(int(n) == len(l.sent), "%d row(s) for %d message(s)", n, len(l.sent))
	b.Wants(s.Process().Running(), "the server has ended with exit code %d", s.Process().ExitCode())
	b.Saw("%d row(s) for %d message(s), %d lost, longest time without an answer %d ms", n, len(l.sent), lost, l.gap.Milliseconds())
}

func dbPartition(ctx context.Context, b *lab.Bench) {
	db := b.Database(nil)
	net := db.Link()
	cut := db.NewNodeAt(net.Addr())
	cut.Start()
	other := db.Node()
	cut.PutConv(ab, ana, ben)
	l := newLedger()
	phone := b.DeviceAs(other.Addr(), ben, "d-1", "i-1", nil)
	slowest, n := time.Duration(0), 0
	for _, way := range []struct {
		dir   link.Direction
		shape link.Shape
	}{{link.Up, link.Shape{BlackHole: true}}, {link.Down, link.Shape{BlackHole: true}}, {link.Both, link.Shape{BlackHole: true}}, {link.Both, link.Shape{Frozen: true}}} {
		b.Each(2, func(i int) {
			if i == 0 {
				l.keepSending(b, []*lab.Server{cut}, 4*time.Second, true)
				return
			}
			b.Pause(500 * time.Millisecond)
			net.Shape(way.dir, func(s *link.Shape) { *s = way.shape })
			end := time.Now().Add(3 * time.Second)
			for ; time.Now().Before(end); n++ {
				began := time.Now()
				_, err := phone.SendWithin(15*time.Second, ab, cmid("other", n), "hi")
				b.Wants(err == nil, "the other node does not take a message within 15 s: %v", err)
				slowest = max(slowest, time.Since(began))
				b.Pause(50 * time.Millisecond)
			}
			net.Heal()
		})
		l.settle(b, 30*time.Second, cut)
	}
	counts := net.Counts()
	b.Bit("bytes lost on the way", int(counts.Swallowed))
	b.Bit("reads held up", counts.Held)
	lost := l.judge(ctx, b, other)
	rows := int(other.Total())
	b.Wants(rows == len(l.sent)+n, "%d row(s) for %d message(s)", rows, len(l.sent)+n)
	for _, s := range []*lab.Server{cut, other} {
		b.Wants(s.Process().Running(), "a node has ended with exit code %d", s.Process().ExitCode())
	}
	b.Figure("longest time without an answer at the node that was cut", l.gap.Seconds()*1000, "ms")
	b.Figure("longest time to sent at the other node", slowest.Seconds()*1000, "ms")
	b.Saw("%d byte(s) lost, %d row(s) for %d message(s), %d acknowledged lost; the other node took at most %d ms for one",
		counts.Swallowed, rows, len(l.sent)+n, lost, slowest.Milliseconds())
}
