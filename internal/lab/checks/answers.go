package checks

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/lab"
	"github.com/impart-im/impart/internal/lab/rows"
	"github.com/impart-im/impart/wire"
)

// answers are the checks about answers and deliveries under load.
func answers() []lab.Check {
	return []lab.Check{
		{
			ID: "002-no-duplicate-seq", Invariant: "D7", Short: true,
			What:   "Four senders pipeline, send some messages twice and some that are refused, and the server is killed in the middle; then the log is counted.",
			Expect: "no (conversation, seq), mid or message twice, no hole, as many rows as messages",
			Twins: []lab.Sabotage{
				noDedup,
				lab.Planted(fault.SeqHole, "a refused message uses up a seq"),
			},
			Run: noDuplicateSeq,
		},
		{
			ID: "002-same-cmid-same-answer", Invariant: "D2", Short: true,
			What:   "One client_msg_id is sent twice over HTTP, and again over the WebSocket.",
			Expect: "the same msg_id and seq each time, im_dedup_hit_total +1 for each repetition, 1 row",
			Twins:  []lab.Sabotage{noDedup},
			Run:    sameAnswer,
		},
		{
			ID: "002-gateway-kill-repaired", Invariant: "D5", Short: true,
			What:   "Pushes are lost on their way and then the server is killed with all of them unacknowledged; it starts again.",
			Expect: "the offline pull brings every message within 15 s",
			Twins:  []lab.Sabotage{lab.Planted(fault.AckOnPush, "a pushed event counts as delivered")},
			Run:    killRepaired,
		},
		{
			ID: "002-pending-drains", Invariant: "D10", Short: true,
			What:   "Messages flow to devices that acknowledge and to one that never does; im_pending_flows is watched, or with a Redis ZCARD ack:pending:ID.",
			Expect: "at most one flow a device and conversation, 0 in the end, im_deliver_failed_total counts what was given up",
			Twins:  []lab.Sabotage{lab.Planted(fault.RetriesForEver, "retries do not stop")},
			Run:    pendingDrains,
		},
	}
}

func noDuplicateSeq(ctx context.Context, b *lab.Bench) {
	s := b.Serve()
	const senders, each = 4, 60
	users := []impart.UserID{"u-1", "u-2", "u-3", "u-4"}
	s.PutConv(ab, users...)
	var answered atomic.Int64
	send := func(from, to int) (lost int64) {
		before := answered.Load()
		b.Each(senders, func(i int) {
			phone, err := b.TryDevice(s.Addr(), users[i], impart.DeviceID(cmid("d", from)), "i-1", nil)
			if err != nil {
				return // the server was killed
			}
			defer phone.Close()
			for n := from; n < to; n++ {
				if _, err := phone.Send(ab, cmid(string(users[i]), n), "hi"); err == nil {
					answered.Add(1)
				}
				if n%5 == 0 {
					_, _ = phone.Send(ab, cmid(string(users[i]), n), "hi")
				}
				if n%7 == 0 {
					_, _ = phone.Ask(ctx, &wire.Send{Conv: ab, CMID: cmid("no", n), Body: "refused", Prev: "never-sent"})
				}
			}
		})
		return int64(senders*(to-from)) - answered.Load() + before
	}
	send(0, each/2)
	b.Each(2, func(i int) {
		if i == 0 {
			send(each/2, each)
			return
		}
		begun := answered.Load()
		b.Eventually(10*time.Second, func() bool { return answered.Load() >= begun+senders })
		s.Kill()
	})
	b.Bit("exit code 137", count(s.Process().ExitCode() == halted))
	s.Start()
	// Every client sends again what it is not sure of.
	again := send(0, each)
	b.Wants(again == 0, "%d send(s) got no answer from a server that runs", again)
	var faults []string
	n := int64(0)
	s.Look(func(db *rows.DB) (err error) {
		if faults, err = db.LogFaults(ctx); err == nil {
			n, err = db.Total(ctx)
		}
		return err
	})
	for _, f := range faults {
		b.Violated("%s", f)
	}
	b.Wants(n == senders*each, "%d row(s) for %d message(s)", n, senders*each)
	b.Saw("%d row(s), %d fault(s) of the log", n, len(faults))
}

func sameAnswer(ctx context.Context, b *lab.Bench) {
	s := b.Serve()
	s.PutConv(ab, ana, ben)
	type answer struct {
		MID impart.MID `json:"msg_id"`
		Seq impart.Seq `json:"seq"`
		Dup bool       `json:"dup"`
	}
	post := func() (a answer) {
		b.Must(s.Post(ana, "/api/msg/send", map[string]string{"conv_id": ab, "client_msg_id": "c-1a2b3c", "text": "hi"}, &a))
		return a
	}
	before := s.Metric("im_dedup_hit_total")
	first, second := post(), post()
	hits := s.Metric("im_dedup_hit_total") - before
	b.Bit("repetitions", 2)
	b.Wants(second.MID == first.MID && second.Seq == first.Seq && second.Dup, "the second answer is %+v, the first was %+v", second, first)
	b.Wants(hits == 1, "im_dedup_hit_total rose by %v instead of 1 for the first repetition", hits)
	sent := b.Device(s.Addr(), ana).MustSend(ab, "c-1a2b3c", "hi")
	b.Wants(sent.MID == first.MID && sent.Seq == first.Seq, "over the WebSocket it is seq %d and mid %s", sent.Seq, sent.MID)
	all := s.Metric("im_dedup_hit_total") - before
	b.Wants(all == 2, "im_dedup_hit_total rose by %v instead of 2 for both repetitions", all)
	n := s.Copies(ana, "c-1a2b3c")
	b.Wants(n == 1, "%d row(s) instead of 1", n)
	b.Saw("seq %d, %d and %d, same msg_id %v, im_dedup_hit_total +%v for 2 repetitions, %d row(s)",
		first.Seq, second.Seq, sent.Seq, first.MID == second.MID && first.MID == sent.MID, all, n)
}

func killRepaired(ctx context.Context, b *lab.Bench) {
	s := b.Serve("IM_FAULT=gw.push:drop")
	s.PutConv(ab, ana, ben)
	phone, other := b.Device(s.Addr(), ana), b.Device(s.Addr(), ben)
	const messages = 50
	for i := range messages {
		phone.MustSend(ab, cmid("m", i), "hi")
	}
	lost := b.Eventually(5*time.Second, func() bool { return s.Metric("im_push_total") >= messages })
	b.Wants(lost, "%v of %d message(s) pushed", s.Metric("im_push_total"), messages)
	counted := b.Eventually(500*time.Millisecond, func() bool { return s.Cursor(ben, other.ID, ab) > 0 })
	b.Wants(!counted, "a message counts as delivered that was lost")
	b.Bit("pushes lost", s.Struck(fault.Push))
	other.Close()
	s.KillEdge()
	b.Bit("exit code 137", count(s.Process().ExitCode() == halted))
	began := time.Now()
	s.Start()
	other = b.Device(s.Addr(), ben)
	have := impart.Seq(0)
	for time.Since(began) < 15*time.Second && have < messages {
		pulled := other.Pull()
		for _, page := range pulled.Convs {
			have = max(have, page.Through)
			_, err := other.Ack(page.Conv, page.Through)
			b.Must(err)
		}
		if len(pulled.Convs) == 0 {
			break
		}
	}
	took := time.Since(began)
	b.Wants(have == messages, "%d of %d message(s) came within %v", have, messages, took.Round(time.Millisecond))
	b.Saw("%d of %d message(s) %d ms after the kill", have, messages, took.Milliseconds())
}

func pendingDrains(ctx context.Context, b *lab.Bench) {
	s := b.Serve("IM_RETRY_MS=100,200,300,400", "IM_SWEEP_MS=60000")
	s.PutConv(ab, ana, ben, "u-mute")
	phone, other := b.Device(s.Addr(), ana), b.Device(s.Addr(), ben)
	b.Device(s.Addr(), "u-mute")   // never acknowledges
	const messages, flows = 100, 3 // every device, the sender's own too
	highest := 0
	for i := range messages {
		sent := phone.MustSend(ab, cmid("m", i), "hi")
		for _, d := range []*lab.Device{phone, other} {
			_, err := d.Ack(ab, sent.Seq)
			b.Must(err)
		}
		highest = max(highest, s.Pending())
	}
	drained := b.Eventually(6*time.Second, func() bool { return s.Pending() == 0 })
	left := s.Pending()
	failed := s.Metric("im_deliver_failed_total", `reason="ack_timeout"`)
	b.Bit("retries", int(s.Metric("im_retry_total")))
	b.Wants(highest <= flows, "%d flow(s) pending at once with %d devices", highest, flows)
	b.Wants(drained, "%d flow(s) still pending", left)
	b.Wants(failed == 1, "im_deliver_failed_total is %v instead of 1", failed)
	b.Saw("at most %d pending, %d in the end, %v given up", highest, left, failed)
}
