package checks

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/lab"
	"github.com/impart-im/impart/internal/lab/crashfs"
	"github.com/impart-im/impart/wire"
)

// Sabotages of disks and of what the server asks of them.
var (
	lyingDisk   = lab.Sabotage{Name: "lying-disk", What: "the disk says that it has flushed and has not"}
	noFlush     = lab.Sabotage{Name: "no-flush", What: "the store does not wait for the disk (synchronous=OFF)", Bug: fault.NoFlush, Env: []string{"IM_ALLOW_UNSAFE_DURABILITY=true"}}
	beforeFlush = lab.Planted(fault.SentBeforeCommit, "the answer comes before the commit")
)

func disks() []lab.Check {
	return []lab.Check{
		{
			ID: "power-cut", Invariant: "D6", Only: onSQLite, Limit: 3 * time.Minute,
			What:   "The power is cut 24 times under load: between two changes of the disk or at any moment, with nothing, a torn part or the first part kept of what was not flushed.",
			Expect: "every acknowledged message is there after each cut with its seq and mid, cursors too, the log has no hole, and what was in doubt ends as one row",
			Twins:  []lab.Sabotage{lyingDisk, noFlush},
			Run:    powerCut,
		},
		{
			ID: "disk-full", Invariant: "D1", Only: onSQLite,
			What:   "The disk is full for a while: no file may grow. Then there is room again, and the server is killed and started.",
			Expect: "no sent for what is not stored, the server lives, everything is sent again and there once",
			Twins:  []lab.Sabotage{beforeFlush},
			Run:    badDisk(crashfs.Faults{Full: true}, "writes refused", func(c crashfs.Counts) int { return c.NoSpace }),
		},
		{
			ID: "write-error", Invariant: "D1", Only: onSQLite,
			What:   "Writes and flushes of the log fail with EIO for a while under load; then the power is cut.",
			Expect: "no sent for what is not stored, the server lives, everything is sent again and there once",
			Twins:  []lab.Sabotage{beforeFlush},
			Run:    writeError,
		},
		{
			ID: "slow-flush", Invariant: "D1", Only: onSQLite,
			What:   "Each flush takes 3 s; the client waits for 1.5 s and sends again; at the end the power is cut in the middle of a flush.",
			Expect: "no answer before the flush, one row for each message, all that was answered is there after the cut",
			Twins:  []lab.Sabotage{beforeFlush, noFlush},
			Run:    slowFlush,
		},
	}
}

func powerCut(ctx context.Context, b *lab.Bench) {
	disk := b.Disk()
	s := b.NewServer(disk.Dir())
	s.Start()
	s.PutConv(ab, ana, ben)
	l := newLedger()
	modes := []crashfs.Mode{crashfs.Clean, crashfs.Torn, crashfs.Prefix}
	const cycles = 24
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
		b.Each(2, func(i int) {
			if i == 0 {
				l.load(b, s, 10*time.Second, true)
				return
			}
			defer s.Kill() // also ends the load
			if armed {
				dropped += disk.AwaitArmed(mode)
			} else {
				b.Pause(time.Duration(150+20*cycle) * time.Millisecond)
				dropped += disk.Cut(mode, seed)
			}
		})
		cuts++
		disk.PowerOn()
		if err := s.TryStart(); err != nil {
			b.Violated("the server does not start after the power cut: %v", err)
			break
		}
		if lost = l.judge(ctx, b, s); lost > 0 {
			break
		}
	}
	b.Bit("power cuts", cuts)
	b.Bit("unflushed pages dropped", dropped)
	if lost == 0 && s.Process().Running() { // what is still in doubt is settled now
		l.load(b, s, 5*time.Second, false)
		n := s.Total()
		b.Wants(len(l.doubt) == 0 && int(n) == len(l.sent), "%d row(s) for %d message(s), %d in doubt", n, len(l.sent), len(l.doubt))
	}
	b.Saw("%d cut(s), %d unflushed page(s) dropped, %d of %d acknowledged message(s) lost", cuts, dropped, lost, len(l.sent))
}

// badDisk is the story of a disk that refuses for a while. bit counts that.
func badDisk(faults crashfs.Faults, what string, bit func(crashfs.Counts) int) func(context.Context, *lab.Bench) {
	return func(ctx context.Context, b *lab.Bench) {
		disk := b.Disk()
		s := b.NewServer(disk.Dir())
		s.Start()
		s.PutConv(ab, ana, ben)
		l := newLedger()
		l.load(b, s, 300*time.Millisecond, true)
		before := len(l.sent)
		refuseFor(b, s, l, disk, faults)
		b.Bit(what, bit(disk.Counted()))
		refused := len(l.doubt)
		b.Wants(s.Process().Running(), "the server has ended with exit code %d", s.Process().ExitCode())
		l.judge(ctx, b, s)
		l.load(b, s, 300*time.Millisecond, true)
		l.load(b, s, 5*time.Second, false)
		b.Wants(len(l.doubt) == 0, "%d message(s) still refused with a good disk", len(l.doubt))
		s.Restart() // what only the process believed is gone
		l.judge(ctx, b, s)
		n := s.Total()
		b.Wants(int(n) == len(l.sent), "%d row(s) for %d acknowledged message(s)", n, len(l.sent))
		b.Saw("%d sent before, %d refused, %d sent in the end, %d row(s)", before, refused, len(l.sent), n)
	}
}

// refuseFor sends ten messages one after another on a disk with faults, and gives
// the disk back good.
func refuseFor(b *lab.Bench, s *lab.Server, l *ledger, disk *lab.Disk, faults crashfs.Faults) {
	phone := b.Device(s.Addr(), ana) // a hello is written too
	disk.Fault(faults)
	for i := range 10 {
		m := impart.CMID(fmt.Sprintf("bad-%d-%d", len(l.sent), i))
		sent, err := phone.SendWithin(2*time.Second, ab, m, "hi")
		l.answered(b, m, sent, err)
	}
	phone.Close()
	disk.Fault(crashfs.Faults{})
}

func writeError(ctx context.Context, b *lab.Bench) {
	disk := b.Disk()
	s := b.NewServer(disk.Dir())
	s.Start()
	s.PutConv(ab, ana, ben)
	l := newLedger()
	for _, faults := range []crashfs.Faults{{WriteFails: true}, {SyncFails: true}, {SyncFails: true, Match: "*-wal", Count: 3}} {
		refuseFor(b, s, l, disk, faults)
		b.Wants(s.Process().Running(), "the server has ended with exit code %d", s.Process().ExitCode())
		l.load(b, s, 200*time.Millisecond, true)
		l.load(b, s, 5*time.Second, false)
	}
	counts := disk.Counted()
	b.Bit("writes failed", counts.WritesFailed)
	b.Bit("flushes failed", counts.SyncsFailed)
	b.Wants(len(l.doubt) == 0, "%d message(s) still refused with a good disk", len(l.doubt))
	l.judge(ctx, b, s)
	disk.Cut(crashfs.Clean, 1)
	s.Kill()
	disk.PowerOn()
	s.Start()
	lost := l.judge(ctx, b, s)
	b.Saw("%d write(s) and %d flush(es) failed; %d of %d acknowledged message(s) lost", counts.WritesFailed, counts.SyncsFailed, lost, len(l.sent))
}

// sendPatiently repeats a message as long as nothing answers it, and takes the
// answer to any attempt.
func sendPatiently(ctx context.Context, b *lab.Bench, phone *lab.Device, m impart.CMID) impart.Sent {
	for attempt := range 20 {
		b.Must(phone.Say(ctx, &wire.Send{RID: fmt.Sprint(m, ".", attempt), Conv: ab, CMID: m, Body: "hi"}))
		answer, came := phone.Hears(replyTimeout, func(f frame) bool {
			sent, ok := f.(*wire.Sent)
			return ok && strings.HasPrefix(sent.RID, string(m)+".")
		})
		if came {
			return answer.Frame.(*wire.Sent).Sent
		}
	}
	b.Broken("20 attempts at %s got no answer", m)
	return impart.Sent{}
}

func slowFlush(ctx context.Context, b *lab.Bench) {
	disk := b.Disk()
	s := b.NewServer(disk.Dir())
	s.Start()
	s.PutConv(ab, ana, ben)
	l := newLedger()
	phone := b.Device(s.Addr(), ana)
	const delay = 3 * time.Second
	disk.Fault(crashfs.Faults{SyncDelay: delay})
	early := time.Duration(0)
	for i := range 2 {
		b.Pause(delay + delay/6) // no flush is under way that the answer could hide behind
		began := time.Now()
		l.answered(b, cmid("m", i), sendPatiently(ctx, b, phone, cmid("m", i)), nil)
		took := time.Since(began)
		b.Note("judge", "answered", "after %v", took.Round(time.Millisecond))
		b.Wants(took >= delay, "the answer came after %v and a flush takes %v", took.Round(time.Millisecond), delay)
		early = max(early, delay-took)
	}
	if b.Sabotaged(noFlush.Name) {
		b.Bit("flushes left out", count(disk.Counted().SyncsDelayed == 0))
	} else {
		b.Bit("flushes delayed", disk.Counted().SyncsDelayed)
	}
	b.Wants(s.Process().Running(), "the server has ended with exit code %d", s.Process().ExitCode())
	b.Eventually(2*delay, func() bool { return s.Metric("im_store_queue") == 0 }) // the repetitions are through
	if sent, err := phone.SendWithin(delay/2, ab, "cut", "hi"); err == nil {
		l.answered(b, "cut", sent, nil)
	}
	disk.Cut(crashfs.Clean, 1)
	s.Kill()
	disk.PowerOn()
	s.Start()
	lost := l.judge(ctx, b, s)
	n := s.Copies(ana, "m-0") + s.Copies(ana, "m-1")
	b.Wants(int(n) == 2, "%d row(s) for 2 messages that were answered", n)
	b.Saw("answers never before the flush: %v; %d of %d acknowledged message(s) lost in the cut", early <= 0, lost, len(l.sent))
}
