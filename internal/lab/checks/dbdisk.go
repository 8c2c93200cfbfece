package checks

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/impart-im/impart/internal/lab"
	"github.com/impart-im/impart/internal/lab/crashfs"
)

// dbNoFsync is a database that never flushes.
var dbNoFsync = lab.Sabotage{
	Name: "fsync-off", What: "the database does not flush at all (fsync=off, innodb_flush_log_at_trx_commit=2)",
	Settings: lab.Settings{lab.PostgreSQL: {"fsync": "off"}, lab.MySQL: {"innodb_flush_log_at_trx_commit": "2"}}, Env: []string{"IM_ALLOW_UNSAFE_DURABILITY=true"},
}

// hidesErrors is a disk that fails to flush and says nothing.
var hidesErrors = lab.Sabotage{Name: "hides-errors", What: "the disk does not say that flushes fail"}

// dbFiles are patterns of a database server's files.
type dbFiles struct {
	tables string // and indexes
	log    string // that is flushed at a commit
	newLog string // that takes room as it is written
}

// filesOf knows the files of each engine. InnoDB's log has its size from the start:
// what grows is the binary log, which holds each commit too.
var filesOf = map[lab.Engine]dbFiles{
	lab.PostgreSQL: {tables: "[1-9]*", log: "0*", newLog: "xlogtemp*"},
	lab.MySQL:      {tables: "*.ibd", log: "ib_logfile*", newLog: "binlog.0*"},
}

// dbDisks are the checks about the disk under a database server.
func dbDisks() []lab.Check {
	return []lab.Check{
		{
			ID: "db-power-cut", Invariant: "D6", Only: onServers, Limit: 4 * time.Minute,
			What:   "The power of the disk under the database is cut 12 times under load, between two changes or at any moment, with nothing, a torn part or the first part kept of what was not flushed; the server goes on meanwhile.",
			Expect: "the database recovers each time, every acknowledged message is there with its seq and mid, cursors too, and what was in doubt ends as one row",
			Twins:  []lab.Sabotage{dbNoFsync, lyingDisk},
			Run:    dbPowerCut,
		},
		{
			ID: "db-disk-full", Invariant: "D1", Only: onServers,
			What:   "The disk is full for the database's tables for a while, and there is room again.",
			Expect: "no sent for what is not stored, both servers live, everything is sent again and there once",
			Twins:  []lab.Sabotage{beforeFlush},
			Run:    dbDiskFull,
		},
		{
			ID: "db-log-full", Invariant: "D1", Only: onServers,
			What:   "The disk is full for the database's log under load: PostgreSQL gives up (PANIC), MariaDB waits for room in its binary log, and the server is killed with it. There is room again, and both start.",
			Expect: "no sent for what is not stored, everything acknowledged is there, everything is sent again and there once",
			Twins:  []lab.Sabotage{beforeFlush},
			Run:    dbLogFull,
		},
		{
			ID: "db-write-error", Invariant: "D1", Only: onServers,
			What:   "A flush of the database's log fails with EIO under load: PostgreSQL gives up (PANIC) and recovers by itself, MariaDB gives up and is started again after its machine; once while the server goes on, once while that is killed too. Then the power is cut.",
			Expect: "no sent for what is not stored, everything acknowledged is there, also after the cut",
			Twins:  []lab.Sabotage{hidesErrors},
			Run:    dbWriteError,
		},
		{
			ID: "db-log-goes-back", Invariant: "D18", Only: onMySQL, Limit: 2 * time.Minute,
			What:   "A flush of MariaDB's log fails with EIO while apps talk through two nodes; it is started again on the same page cache and goes on with what the disk lacks; then the power is cut, and its log ends before what was acknowledged.",
			Expect: goesBackExpect,
			Twins:  []lab.Sabotage{keepsEpoch},
			Run:    dbLogGoesBack,
		},
	}
}

func dbPowerCut(ctx context.Context, b *lab.Bench) {
	disk := b.Disk()
	db := b.DatabaseOn(disk, lab.Settings{lab.PostgreSQL: {"wal_writer_delay": "10s"}})
	s := db.Node()
	s.PutConv(ab, ana, ben)
	l := newLedger()
	modes := []crashfs.Mode{crashfs.Clean, crashfs.Torn, crashfs.Prefix}
	const cycles = 12
	cuts, dropped, lost := 0, 0, 0
	for cycle := range cycles {
		if b.Sabotaged(lyingDisk.Name) {
			disk.Fault(crashfs.Faults{SyncLies: true})
		}
		mode, seed := modes[cycle%len(modes)], uint64(cycle)
		armed := cycle%2 == 0
		if armed { // at a change of the disk: in the middle of a commit, most likely
			b.Must(disk.ArmCut(mode, seed, 100+37*cycle))
		}
		var dark atomic.Bool
		least := time.Now().Add(time.Second)
		b.Each(2, func(i int) {
			if i == 0 { // until the cut, which comes with the changes that this makes
				l.sendWhile(b, []*lab.Server{s}, 20*time.Second, true, func() bool { return !dark.Load() || time.Now().Before(least) })
				return
			}
			defer dark.Store(true)
			if armed {
				dropped += disk.AwaitArmed(mode)
			} else {
				b.Pause(time.Duration(300+20*cycle) * time.Millisecond)
				dropped += disk.Cut(mode, seed)
			}
			db.Crashed()
		})
		cuts++
		disk.PowerOn()
		if err := db.TryStart(); err != nil {
			b.Violated("the database does not start after the power cut: %v", err)
			break
		}
		if lost = l.judge(ctx, b, s); lost > 0 {
			break
		}
	}
	b.Bit("power cuts", cuts)
	b.Bit("unflushed pages of the log dropped", dropped)
	b.Wants(s.Process().Running(), "the server has ended with exit code %d", s.Process().ExitCode())
	if lost == 0 && db.Running() {
		l.settle(b, 20*time.Second, s)
		n := s.Total()
		b.Wants(int(n) == len(l.sent), "%d row(s) for %d message(s)", n, len(l.sent))
	}
	b.Saw("%d cut(s), %d unflushed page(s) of the log dropped, %d of %d acknowledged message(s) lost", cuts, dropped, lost, len(l.sent))
}

// dbOnDisk is a server whose database is on a disk of its own, and what was sent to
// it so far.
func dbOnDisk(b *lab.Bench, settings lab.Settings) (*lab.Disk, *lab.Database, *lab.Server, *ledger) {
	disk := b.Disk()
	db := b.DatabaseOn(disk, settings)
	s := db.Node()
	s.PutConv(ab, ana, ben)
	l := newLedger()
	l.body = strings.Repeat("x", 1500) // so that files have to grow
	l.load(b, s, 300*time.Millisecond, true)
	return disk, db, s, l
}

// dbRecovered settles what is in doubt and compares.
func dbRecovered(ctx context.Context, b *lab.Bench, s *lab.Server, l *ledger) (lost int) {
	if lost = l.judge(ctx, b, s); lost > 0 {
		return lost
	}
	l.settle(b, 20*time.Second, s)
	l.load(b, s, 200*time.Millisecond, true)
	l.settle(b, 5*time.Second, s)
	b.Wants(s.Process().Running(), "the server has ended with exit code %d", s.Process().ExitCode())
	lost = l.judge(ctx, b, s)
	n := s.Total()
	b.Wants(int(n) == len(l.sent), "%d row(s) for %d acknowledged message(s)", n, len(l.sent))
	return lost
}

func dbDiskFull(ctx context.Context, b *lab.Bench) {
	disk, db, s, l := dbOnDisk(b, nil)
	before := len(l.sent)
	disk.Fault(crashfs.Faults{Full: true, Match: filesOf[b.Engine].tables})
	l.keepSending(b, []*lab.Server{s}, 2*time.Second, true)
	refused := len(l.doubt)
	b.Bit("writes refused", disk.Counted().NoSpace)
	b.Wants(db.Panics() == 0 && db.Running(), "the database gave up %d time(s)", db.Panics())
	disk.Fault(crashfs.Faults{})
	lost := dbRecovered(ctx, b, s, l)
	b.Saw("%d sent before, %d in doubt while it was full, %d sent in the end, %d lost", before, refused, len(l.sent), lost)
}

func dbLogFull(ctx context.Context, b *lab.Bench) {
	// It stays down: what was under way when it gave up must be lost with the server.
	settings := lab.BinaryLog()
	settings[lab.PostgreSQL] = map[string]string{"restart_after_crash": "off"}
	disk, db, s, l := dbOnDisk(b, settings)
	full := false
	b.Each(2, func(i int) {
		if i == 0 {
			l.sendWhile(b, []*lab.Server{s}, 12*time.Second, true, s.Process().Running)
			return
		}
		b.Pause(500 * time.Millisecond) // in the midst of what is sent
		disk.Fault(crashfs.Faults{Full: true, Match: filesOf[b.Engine].newLog})
		full = b.Eventually(10*time.Second, db.FillsLog)
		b.Pause(500 * time.Millisecond)
		s.Kill()
	})
	b.Bit("writes refused", disk.Counted().NoSpace)
	b.Bit("found its log full", count(full))
	refused := len(l.doubt)
	disk.Fault(crashfs.Faults{})
	db.Crashed() // if it is still trying
	db.Start()
	s.Start()
	lost := dbRecovered(ctx, b, s, l)
	b.Saw("%d in doubt while it was full, %d sent in the end, %d lost", refused, len(l.sent), lost)
}

func dbWriteError(ctx context.Context, b *lab.Bench) {
	disk, db, s, l := dbOnDisk(b, nil)
	rounds := 2
	if b.Sabotaged(hidesErrors.Name) {
		rounds = 0
		disk.Fault(crashfs.Faults{SyncLies: true, Match: filesOf[b.Engine].log})
		l.keepSending(b, []*lab.Server{s}, time.Second, true)
	}
	for round := range rounds {
		disk.Fault(crashfs.Faults{SyncFails: true, Match: filesOf[b.Engine].log, From: 30, Count: 1})
		b.Each(2, func(i int) {
			if i == 0 {
				l.keepSending(b, []*lab.Server{s}, 2*time.Second, true)
				return
			}
			b.Eventually(10*time.Second, func() bool { return db.Panics() > round })
			if round == 1 {
				s.Kill()
			}
		})
		disk.Fault(crashfs.Faults{})
		if b.Engine == lab.MySQL {
			// It would go on with what the page cache holds and the disk does not.
			disk.Cut(crashfs.Clean, 1)
			db.Crashed()
			disk.PowerOn()
		}
		b.Wants(db.Recovers(20*time.Second), "the database does not recover")
		if round == 1 {
			s.Start()
		}
		if lost := l.judge(ctx, b, s); lost > 0 {
			break
		}
		l.settle(b, 20*time.Second, s)
	}
	if b.Sabotaged(hidesErrors.Name) {
		b.Bit("flushes failed", disk.Counted().SyncsLied)
	} else {
		b.Bit("flushes failed", disk.Counted().SyncsFailed)
		b.Bit("gave up", db.Panics())
	}
	disk.Cut(crashfs.Clean, 1)
	db.Crashed()
	disk.PowerOn()
	db.Start()
	lost := dbRecovered(ctx, b, s, l)
	b.Saw("%d flush(es) failed, given up %d time(s), %d of %d acknowledged message(s) lost after a power cut", disk.Counted().SyncsFailed, db.Panics(), lost, len(l.sent))
}

func dbLogGoesBack(ctx context.Context, b *lab.Bench) {
	disk := b.Disk()
	db := b.DatabaseOn(disk, nil)
	first := db.Checkpoint()
	nodes := []*lab.Server{db.Node("IM_SWEEP_MS=500"), db.Node("IM_SWEEP_MS=500")}
	c := newCrowd(b, nodes)
	c.body = strings.Repeat("x", 12000) // several pages of the log: later commits write all but the last of them no more
	c.talk(b, time.Second)
	// Were its next checkpoint past the hole in the log, it would not start again at all.
	db.CheckpointPast(first)
	disk.Fault(crashfs.Faults{SyncFails: true, Match: filesOf[b.Engine].log, Pages: 3, From: 10, Count: 1})
	b.Each(2, func(i int) {
		if i == 0 {
			c.talk(b, 2*time.Second)
			return
		}
		b.Eventually(10*time.Second, func() bool { return db.Panics() > 0 })
		disk.Fault(crashfs.Faults{})
		if !db.Recovers(20 * time.Second) {
			b.Broken("the database does not recover")
		}
	})
	b.Bit("gave up", db.Panics())
	c.stored(b, nodes, 20*time.Second)
	c.talk(b, time.Second)
	had, before := nodes[0].Total(), nodes[0].Epoch()
	disk.Cut(crashfs.Clean, 1)
	db.Crashed()
	disk.PowerOn()
	began := time.Now()
	db.Start()
	b.Bit("events that the disk lacked", int(had-nodes[0].Total()))
	c.talk(b, time.Second)
	c.judgeRaised(ctx, b, nodes, before, began)
}
