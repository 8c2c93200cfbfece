package checks

import (
	"context"
	"fmt"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/lab"
	"github.com/impart-im/impart/internal/lab/link"
)

// apart are the checks about gateways, logic nodes and what is between them.
func apart() []lab.Check {
	return []lab.Check{
		{
			ID: "logic-kill-in-doubt", Invariant: "D2", Shape: lab.Apart,
			What:   "One of two logic nodes dies between a commit and its reply (api.after_send_commit); the gateway asks the other one.",
			Expect: "exit code 137, the sender sees sent for every message all the same, 1 row each",
			Twins:  []lab.Sabotage{noDedup},
			Run:    logicKill,
		},
		{
			ID: "hop-partition", Invariant: "D2", Shape: lab.Apart, Limit: 2 * time.Minute,
			What:   "The way between a gateway and its logic node is cut under load: in one direction, in the other, in both, and by resets.",
			Expect: "no sent for what is not stored; everything is sent again and there once; the gateway finds its way back by itself",
			Twins:  []lab.Sabotage{noDedup},
			Run:    hopPartition,
		},
		{
			ID: "gateway-kill-inherited", Invariant: "D10", Shape: lab.Apart,
			What:   "One of two gateways is killed with unacknowledged pushes; its device comes back at the other one.",
			Expect: "the dead gateway's ack:pending is empty within 15 s, and the device has every message within 15 s",
			Twins:  []lab.Sabotage{lab.Planted(fault.SetsOrphaned, "nobody takes over what a dead gateway has left")},
			Run:    inherited,
		},
	}
}

func logicKill(ctx context.Context, b *lab.Bench) {
	dies := b.Logic("IM_FAULT=api.after_send_commit:halt:0:1")
	rules := []*lab.Server{dies, dies.Logic()}
	s := b.Gateway(rules)
	phone := b.Device(s.Addr(), ana)
	const convs = 16 // so that some belong to either node
	sent, twice := 0, 0
	for i := range convs {
		conv := impart.ConvID(fmt.Sprint("c-", i))
		s.PutConv(conv, ana, ben)
		answer, err := phone.Send(conv, cmid("m", i), "hi")
		b.Wants(err == nil && answer.Seq == 1, "message %d was answered with seq %d, %v", i, answer.Seq, err)
		if err == nil {
			sent++
		}
		if n := s.Copies(ana, cmid("m", i)); n != 1 {
			b.Violated("%d row(s) hold message %d", n, i)
			twice++
		}
	}
	b.Bit("exit code 137", count(dies.Exit(time.Second) == halted))
	b.Saw("exit code %d, %d of %d message(s) called sent, %d not there once", dies.Process().ExitCode(), sent, convs, twice)
}

func hopPartition(ctx context.Context, b *lab.Bench) {
	rules := b.Logic()
	net := b.LinkTo("hop", rules.Hop)
	s := b.Gateway([]*lab.Server{rules}, "IM_LOGIC="+net.Addr())
	s.PutConv(ab, ana, ben)
	l := newLedger()
	for _, cut := range []func(){
		func() { net.Shape(link.Up, func(s *link.Shape) { s.BlackHole = true }) },
		func() { net.Shape(link.Down, func(s *link.Shape) { s.BlackHole = true }) },
		func() { net.Shape(link.Both, func(s *link.Shape) { s.BlackHole = true }) },
		func() { net.Refuse(true); net.Cut(link.Reset) },
	} {
		b.Each(2, func(i int) {
			if i == 0 {
				l.keepSending(b, []*lab.Server{s}, 4*time.Second, true)
				return
			}
			b.Pause(500 * time.Millisecond)
			cut()
			b.Pause(2500 * time.Millisecond)
			net.Heal()
			if b.Sabotage.Honest() {
				b.Wants(b.Eventually(15*time.Second, func() bool { return s.Ready() }), "the gateway is not ready again within 15 s")
			}
		})
	}
	b.Bit("bytes swallowed", int(net.Counts().Swallowed))
	b.Bit("messages that were sent again", l.repeated)
	l.settle(b, 20*time.Second, s)
	lost := l.judge(ctx, b, s)
	n := s.Total()
	b.Wants(int(n) == len(l.sent), "%d row(s) for %d message(s)", n, len(l.sent))
	b.Figure("longest time without an answer", float64(l.gap.Milliseconds()), "ms")
	b.Saw("%d message(s) sent again, %d row(s) for %d message(s), %d lost", l.repeated, n, len(l.sent), lost)
}

func inherited(ctx context.Context, b *lab.Bench) {
	const bound = 15 * time.Second
	rules := []*lab.Server{b.Logic()}
	dies := b.Gateway(rules, "IM_FAULT=gw.push:drop", "IM_RETRY_MS=60000,60000,60000,60000")
	other := b.Gateway(rules, "IM_SWEEP_MS=500")
	convs := []impart.ConvID{"c-1", "c-2", "c-3"}
	phone, reader := b.Device(other.Addr(), ana), b.Device(dies.Addr(), ben)
	for i, conv := range convs {
		dies.PutConv(conv, ana, ben)
		phone.MustSend(conv, cmid("m", i), "hi")
	}
	owed := b.Eventually(5*time.Second, func() bool { return dies.Pending() >= len(convs) })
	b.Wants(owed, "%d flow(s) are pending, not %d", dies.Pending(), len(convs))
	dies.KillEdge()
	b.Bit("exit code 137", count(dies.Process().ExitCode() == halted))
	b.Bit("flows left behind", dies.Pending())
	reader.Close()
	began := time.Now()
	reader = b.Device(other.Addr(), ben)
	have := 0
	for _, page := range reader.Pull().Convs {
		have += len(page.Events)
		_, err := reader.Ack(page.Conv, page.Through)
		b.Must(err)
	}
	pulled := time.Since(began)
	b.Wants(have == len(convs), "the pull brings %d of %d message(s)", have, len(convs))
	empty := b.Eventually(bound-pulled, func() bool { return dies.Pending() == 0 })
	took := time.Since(began)
	b.Wants(empty, "%d flow(s) of the dead gateway are still there after %v", dies.Pending(), bound)
	b.Saw("%d of %d message(s) %d ms after the kill, the set is empty after %d ms", have, len(convs), pulled.Milliseconds(), took.Milliseconds())
}
