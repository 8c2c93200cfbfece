package checks

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/lab"
	"github.com/impart-im/impart/internal/lab/link"
	"github.com/impart-im/impart/internal/lab/rows"
)

// apps are checks with real applications on the SDK.
func apps() []lab.Check {
	return []lab.Check{
		{
			ID: "app-story", Invariant: "D16",
			What:   "An app takes 60 messages while it is offline, is killed, starts again and comes online on a network that is slow and breaks off in the middle of frames, to a server that fails now and then.",
			Expect: "every message once and in order, in the log and in the other app; the outbox is empty",
			Twins: []lab.Sabotage{
				lab.AppInMemory, lab.Planted(fault.PrevIgnored, "prev is not looked at"),
				lab.Planted(fault.ClientForgetsSent, "a message leaves the outbox when it is sent"),
			},
			Run: appStory,
		},
		{
			ID: "lost-acks", Invariant: "D3",
			What:   "The first acknowledgements of an app are lost on their way; it has stored and handled everything.",
			Expect: "the cursor does not move for them, is at the head within 15 s all the same, and the app got each event once",
			Twins:  []lab.Sabotage{lab.Planted(fault.AckOnPush, "a pushed event counts as delivered")},
			Run:    lostAcks,
		},
		{
			ID: "rolled-back-phone", Invariant: "D9",
			What:   "A phone is restored from a backup of its store: it comes with an install that the server knows and a cursor that is ahead of the store.",
			Expect: "the install epoch rises, nothing beyond the backup counts as delivered, and the phone gets all again",
			Twins: []lab.Sabotage{
				lab.Planted(fault.NIgnored, "a rolled-back store is not noticed"),
				lab.Planted(fault.ClientHidesN, "the app does not tell how often its store was written"),
			},
			Run: rolledBackPhone,
		},
		{
			ID: "app-kills", Invariant: "D3",
			What:   "An app is killed 12 times while it receives, and some pushes to it are lost, so that there are gaps.",
			Expect: "it is given every event in order, one again at most for each kill, and its cursor ends at the head",
			Twins:  []lab.Sabotage{lab.Planted(fault.ClientCursorOverGap, "the app's cursor runs over what is missing"), lab.AppInMemory},
			Run:    appKills,
		},
		{
			ID: "kill-under-load", Invariant: "D1",
			What:   "Four apps talk in one group while the server is killed 12 times and each app once; all come back and settle.",
			Expect: "each message once, every app handles the whole log in order, what was called sent is where it was said to be, outboxes are empty",
			Twins: []lab.Sabotage{
				lab.Planted(fault.SentBeforeCommit, "the answer comes before the commit"), lab.AppInMemory,
			},
			Run: killUnderLoad,
		},
	}
}

func appStory(ctx context.Context, b *lab.Bench) {
	// The server fails now and then, in the middle of what is pipelined.
	s := b.Serve("IM_SWEEP_MS=500", "IM_FAULT=send.before_commit:error:2:3")
	s.PutConv(ab, ana, ben)
	net := b.Link(s)
	writer, reader := b.App(net.Addr(), ana), b.App(s.Addr(), ben)
	reader.Start()
	net.Refuse(true)
	writer.Start()
	const messages = 60
	for i := range messages {
		writer.Send(ab, cmid("m", i), fmt.Sprint("message ", i))
	}
	writer.Kill()
	b.Bit("messages written offline", len(writer.Lines("taken", nil)))
	net.Shape(link.Both, func(shape *link.Shape) { shape.Latency, shape.Jitter = 20*time.Millisecond, 60*time.Millisecond })
	net.Refuse(false)
	writer.Start()
	for i := range 12 {
		// Ever further into the conversation with the server, and always mid-frame.
		net.ShapeNew(link.Both, func(shape *link.Shape) { shape.CutAfter = int64(700 + 700*i) })
		b.Pause(250 * time.Millisecond)
		for _, l := range net.Links() {
			l.Shape(link.Up, func(shape *link.Shape) { shape.CutMiddle = true })
		}
	}
	net.Heal()
	net.Cut(link.Reset)
	cuts := net.Counts().Cut
	b.Bit("links cut", cuts)
	settled := b.Eventually(15*time.Second, func() bool { return s.Total() >= messages })
	b.Wants(settled, "%d of %d message(s) stored", s.Total(), messages)
	if !b.Sabotaged(lab.AppInMemory.Name) { // which has nothing left to commit
		b.Bit("commits failed", s.Struck(fault.BeforeCommit))
	}
	complete := settled && reader.Reaches(15*time.Second, ab, messages) && writer.Reaches(15*time.Second, ab, messages)
	judgeApps(ctx, b, s, messages, writer, reader)
	b.Saw("%d cut(s), %d row(s) for %d message(s), both apps complete: %v, outbox %d",
		cuts, s.Total(), messages, complete, writer.Outbox())
}

// judgeApps compares the log with what the apps were given, which has to be all of
// it, in order and once, and with what their messages were said to have become. An
// app may have one more line for each time that it was killed.
func judgeApps(ctx context.Context, b *lab.Bench, s *lab.Server, messages int, all ...*lab.App) {
	var log []rows.Event
	s.Look(func(db *rows.DB) (err error) { log, err = db.Events(ctx, ab); return err })
	b.Wants(len(log) == messages, "%d row(s) for %d message(s)", len(log), messages)
	checkLog(ctx, b, s)
	last := map[impart.UserID]int{}
	for _, e := range log {
		n := -1
		_, _ = fmt.Sscanf(e.Body, "message %d", &n)
		b.Wants(n > last[e.Sender] || n == 0, "%s's message %d is stored after %d", e.Sender, n, last[e.Sender])
		last[e.Sender] = n
	}
	for _, a := range all {
		judgeHandled(b, a, log)
		for _, l := range a.Lines("settled", nil) {
			ok := l.Err == "" && l.Seq >= 1 && int(l.Seq) <= len(log) && log[l.Seq-1].MID == l.MID && log[l.Seq-1].CMID == l.CMID
			b.Wants(ok, "%s was told that %s is sent as seq %d and it is not there %s", a.Name, l.CMID, l.Seq, l.Err)
		}
		b.Wants(b.Eventually(10*time.Second, func() bool { return a.Outbox() == 0 }), "the outbox of %s is not empty", a.Name)
	}
}

// judgeHandled compares the log with what one app was given.
func judgeHandled(b *lab.Bench, a *lab.App, log []rows.Event) {
	next, again := impart.Seq(1), 0
	for _, l := range a.Handled(ab) {
		if l.Seq < next {
			again++
			continue
		}
		right := l.Seq == next && int(next) <= len(log) && log[next-1].MID == l.MID && log[next-1].Body == l.Body
		b.Wants(right, "%s was given seq %d where the log has %d next", a.Name, l.Seq, next)
		next = l.Seq + 1
	}
	b.Wants(int(next) == len(log)+1, "%s was given the events up to %d of %d", a.Name, next-1, len(log))
	b.Wants(again <= a.Kills(), "%s was given %d event(s) again and was killed %d time(s)", a.Name, again, a.Kills())
}

func lostAcks(ctx context.Context, b *lab.Bench) {
	s := b.Serve("IM_SWEEP_MS=500")
	s.PutConv(ab, ana, ben)
	s.Restart("IM_FAULT=gw.ack:drop")
	phone, reader := b.Device(s.Addr(), ana), b.App(s.Addr(), ben)
	reader.Start()
	reader.Online()
	const messages = 20
	for i := range messages {
		phone.MustSend(ab, cmid("m", i), fmt.Sprint("message ", i))
	}
	b.Wants(reader.Reaches(10*time.Second, ab, messages), "the app was not given everything")
	moved := b.Eventually(3*time.Second, func() bool { return s.Cursor(ben, "d-1", ab) > 0 })
	b.Wants(!moved, "the cursor is at %d and every ack was lost", s.Cursor(ben, "d-1", ab))
	s.Restart("IM_FAULT=gw.ack:drop:0:2") // two more on the connection that then goes on
	began := time.Now()
	healed := b.Eventually(15*time.Second, func() bool { return s.Cursor(ben, "d-1", ab) == messages })
	b.Wants(healed, "the cursor is at %d of %d", s.Cursor(ben, "d-1", ab), messages)
	took := time.Since(began)
	b.Bit("acks lost", s.Struck(fault.Ack))
	n := len(reader.Handled(ab))
	b.Wants(n == messages, "the app was given %d event(s) instead of %d", n, messages)
	b.Saw("%d ack(s) lost, cursor moved by them: %v, at the head %d ms after the network healed; %d event(s) given for %d",
		s.Struck(fault.Ack), moved, took.Milliseconds(), n, messages)
}

func rolledBackPhone(ctx context.Context, b *lab.Bench) {
	s := b.Serve("IM_SWEEP_MS=500")
	s.PutConv(ab, ana, ben)
	phone, reader := b.Device(s.Addr(), ana), b.App(s.Addr(), ben)
	reader.Start()
	const before, after = 10, 20
	send := func(from, to int) {
		for i := from; i < to; i++ {
			phone.MustSend(ab, cmid("m", i), fmt.Sprint("message ", i))
		}
		reached := b.Eventually(15*time.Second, func() bool { return int(s.Cursor(ben, "d-1", ab)) == to })
		b.Wants(reached, "the app has not acknowledged %d event(s)", to)
	}
	send(0, before)
	reader.Kill()
	backup := filepath.Join(b.Data, "backup")
	copyStore(b, reader.Store(), backup)
	reader.Start()
	send(before, after)
	reader.Kill()
	copyStore(b, backup, reader.Store())
	b.Bit("events that the backup lacks", after-before)
	first := len(reader.Handled(ab))
	reader.Start()
	b.Wants(reader.Reaches(15*time.Second, ab, after), "the restored phone was not given everything")
	got := b.Eventually(15*time.Second, func() bool { return len(reader.Handled(ab)) >= first+after-before })
	again := len(reader.Handled(ab)) - first
	b.Wants(got, "the restored phone was given %d event(s), its backup lacks %d", again, after-before)
	epoch := s.InstallEpoch(ben, "d-1")
	b.Wants(epoch == 2, "the install epoch is %d instead of 2", epoch)
	reached := b.Eventually(15*time.Second, func() bool { return s.Cursor(ben, "d-1", ab) == after })
	b.Wants(reached, "the cursor is at %d of %d in the end", s.Cursor(ben, "d-1", ab), after)
	b.Saw("install epoch %d, %d event(s) given again, cursor %d", epoch, again, s.Cursor(ben, "d-1", ab))
}

// copyStore puts a copy of a client's store, with its log, in place of another.
func copyStore(b *lab.Bench, from, to string) {
	for _, part := range []string{"", "-wal", "-shm"} {
		_ = os.Remove(to + part) // it may not be there
		in, err := os.Open(from + part)
		if os.IsNotExist(err) {
			continue
		}
		b.Must(err)
		out, err := os.Create(to + part)
		b.Must(err)
		_, err = io.Copy(out, in)
		b.Must(err)
		b.Must(in.Close())
		b.Must(out.Close())
	}
}

func killUnderLoad(ctx context.Context, b *lab.Bench) {
	s := b.Serve("IM_SWEEP_MS=500")
	users := []impart.UserID{"u-1", "u-2", "u-3", "u-4"}
	s.PutConv(ab, users...)
	var all []*lab.App
	for _, user := range users {
		a := b.App(s.Addr(), user)
		a.Start()
		all = append(all, a)
	}
	const kills = 12
	over := make(chan struct{})
	sent := make([]int, len(all))
	b.Each(len(all)+1, func(i int) {
		if i == len(all) { // who kills the server while the others talk
			defer close(over)
			for n := range kills {
				// A kill bites while the apps talk, and not while they wait to come back.
				b.Eventually(5*time.Second, func() bool { return s.Metric("im_connections") >= float64(len(all)) })
				b.Pause(time.Duration(150+20*n) * time.Millisecond)
				s.Restart()
			}
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
			if sent[i] == 50+10*i {
				all[i].Kill()
				all[i].Start()
			}
			all[i].Send(ab, cmid(string(users[i]), sent[i]), fmt.Sprint("message ", sent[i]))
			b.Pause(10 * time.Millisecond)
		}
	})
	b.Bit("server killed", kills)
	messages, killed := 0, 0
	for i, a := range all {
		messages += sent[i]
		killed += a.Kills()
	}
	b.Bit("apps killed", killed)
	stored := b.Eventually(20*time.Second, func() bool { return s.Total() >= int64(messages) })
	given := 0
	for _, a := range all {
		if stored {
			a.Reaches(15*time.Second, ab, impart.Seq(messages))
		}
		given += len(a.Handled(ab))
	}
	judgeApps(ctx, b, s, messages, all...)
	b.Saw("%d row(s) for %d message(s), %d event(s) given to %d app(s)", s.Total(), messages, given, len(all))
}

// appKills has a sender that the lab drives, so that only the receiver is at risk.
func appKills(ctx context.Context, b *lab.Bench) {
	// At several places: a kill right after one would let the pull fill the gap.
	s := b.Serve("IM_SWEEP_MS=500", "IM_FAULT=gw.push:drop:30:3,gw.push:drop:110:3,gw.push:drop:190:3,gw.push:drop:270:3")
	s.PutConv(ab, ana, ben)
	phone, reader := b.Device(s.Addr(), ana), b.App(s.Addr(), ben)
	reader.Start()
	const messages, kills = 400, 12
	b.Each(2, func(i int) {
		if i == 0 {
			for n := range messages {
				phone.MustSend(ab, cmid("m", n), fmt.Sprint("message ", n))
				b.Pause(8 * time.Millisecond)
			}
			return
		}
		for range kills {
			reader.Online()
			b.Pause(150 * time.Millisecond)
			reader.Kill()
			reader.Start()
		}
	})
	b.Bit("app killed", reader.Kills())
	b.Bit("pushes lost", s.Struck(fault.Push))
	complete := reader.Reaches(15*time.Second, ab, messages)
	b.Wants(complete, "the app was not given everything")
	cursor := b.Eventually(15*time.Second, func() bool { return s.Cursor(ben, "d-1", ab) == messages })
	b.Wants(cursor, "the cursor is at %d of %d", s.Cursor(ben, "d-1", ab), messages)
	var log []rows.Event
	s.Look(func(db *rows.DB) (err error) { log, err = db.Events(ctx, ab); return err })
	judgeHandled(b, reader, log)
	b.Saw("%d kill(s), %d push(es) lost, %d event(s) given for %d, cursor %d", reader.Kills(), s.Struck(fault.Push),
		len(reader.Handled(ab)), messages, s.Cursor(ben, "d-1", ab))
}
