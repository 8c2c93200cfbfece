package checks

import (
	"context"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/lab"
	"github.com/impart-im/impart/internal/lab/link"
	"github.com/impart-im/impart/internal/lab/probe"
)

// redises are the checks about a Redis that fails: whatever it forgets, no message
// is lost or doubled, and what the bus does not carry comes with the sweep.
func redises() []lab.Check {
	return []lab.Check{
		{
			ID: "redis-lost", Invariant: "D11", Shape: lab.Apart, Limit: 2 * time.Minute,
			What:   "Redis is killed under load and comes back empty, is wiped, is frozen and thaws, between two gateways with two logic nodes.",
			Expect: "every send is answered meanwhile, each message once, whoever listens has word of each within 3 s (sweep 500 ms), resends of old messages keep their seqs",
			Twins:  []lab.Sabotage{noSweep, noDedup},
			Run:    redisLost,
		},
		{
			ID: "redis-failover", Invariant: "D11", Shape: lab.Apart, Limit: 2 * time.Minute,
			What:   "The master of a Redis under three Sentinels is killed under load; its replica takes over.",
			Expect: "every send is answered meanwhile, each message once, word of each within 3 s, and the bus carries again afterwards",
			Twins:  []lab.Sabotage{noSweep, noDedup},
			Run:    redisFailover,
		},
		{
			ID: "redis-cut-from-one", Invariant: "D11", Shape: lab.Apart,
			What:   "One of two gateways is cut off from Redis, by resets and by a black hole; the other one is not.",
			Expect: "the one that is cut off has word of each message within 3 s, takes sends itself, and hears the bus again afterwards",
			Twins:  []lab.Sabotage{noSweep},
			Run:    redisCut,
		},
	}
}

// relay is a sender at one gateway and a listener at another one, in a conversation
// of their own.
type relay struct {
	b       *lab.Bench
	conv    impart.ConvID
	sender  *lab.Device
	reader  *lab.Device
	n       int
	slowest time.Duration
	lost    bool
}

// relayWithin bounds the way of a message that the bus does not carry: a few sweeps,
// on a machine with other work.
const relayWithin = 3 * time.Second

func newRelay(b *lab.Bench, name string, from, to *lab.Server) *relay {
	conv := impart.ConvID("c-" + name)
	from.PutConv(conv, ana, ben)
	device := impart.DeviceID("d-" + name)
	return &relay{b: b, conv: conv, sender: b.DeviceAs(from.Addr(), ana, device, "i-1", nil), reader: b.DeviceAs(to.Addr(), ben, device, "i-1", nil)}
}

// key is the cmid of a message.
func (r *relay) key(n int) impart.CMID { return cmid(string(r.conv), n) }

// passes sends a message and waits for word of it, at most that long.
func (r *relay) passes(within time.Duration) {
	if r.lost { // that is found already
		return
	}
	r.n++
	began := time.Now()
	sent, err := r.sender.Send(r.conv, r.key(r.n), "hi")
	if err != nil {
		r.b.Violated("message %d was answered with %v", r.n, err)
		r.lost = true
		return
	}
	_, came := r.reader.Hears(within, func(f frame) bool {
		return probe.IsEvent(r.conv, sent.Seq)(f) || probe.IsHint(r.conv, "")(f) && hintHead(f) >= sent.Seq
	})
	r.lost = !came
	r.b.Wants(came, "the listener has no word of message %d within %v", r.n, within)
	r.slowest = max(r.slowest, time.Since(began))
	if _, err := r.reader.Ack(r.conv, sent.Seq); err != nil {
		r.b.Violated("the listener cannot acknowledge: %v", err)
	}
}

// resends sends an old message again.
func (r *relay) resends(i int) {
	if i > r.n || r.lost {
		return
	}
	again, err := r.sender.Send(r.conv, r.key(i), "hi")
	r.b.Wants(err == nil && again.Dup && again.Seq == impart.Seq(i), "message %d sent again was answered with seq %d, dup=%v, %v", i, again.Seq, again.Dup, err)
}

// pair are two gateways on two logic nodes.
func pair(b *lab.Bench, env ...string) (one, other *lab.Server) {
	first := b.Logic(env...)
	rules := []*lab.Server{first, first.Logic(env...)}
	env = append([]string{"IM_SWEEP_MS=500"}, env...)
	return b.Gateway(rules, env...), b.Gateway(rules, env...)
}

// underLoad sends from four devices at both gateways while do goes on, and judges.
func underLoad(ctx context.Context, b *lab.Bench, d time.Duration, one, other *lab.Server, do func()) *ledger {
	one.PutConv(ab, ana, ben)
	l := newLedger()
	over := make(chan struct{})
	b.Each(2, func(i int) {
		if i == 1 {
			defer close(over)
			do()
			return
		}
		l.sendWhile(b, []*lab.Server{one, other}, d, true, func() bool {
			select {
			case <-over:
				return false
			default:
				return true
			}
		})
	})
	l.settle(b, 20*time.Second, one, other)
	l.judge(ctx, b, one)
	b.Figure("longest time without an answer", float64(l.gap.Milliseconds()), "ms")
	b.Wants(l.gap < relayWithin, "for %v no send was answered", l.gap)
	return l
}

func redisLost(ctx context.Context, b *lab.Bench) {
	one, other := pair(b)
	redis := b.Redis()
	r := newRelay(b, "relay", one, other)
	l := underLoad(ctx, b, 25*time.Second, one, other, func() {
		r.passes(relayWithin)
		redis.Kill()
		b.Bit("kills", 1)
		r.passes(relayWithin)
		b.Pause(time.Second)
		r.passes(relayWithin)
		redis.Start()
		r.resends(1)
		b.Pause(time.Second)
		r.passes(relayWithin)
		redis.Wipe()
		b.Bit("wipes", 1)
		r.resends(2)
		r.passes(relayWithin)
		redis.Pause()
		b.Bit("freezes", 1)
		r.passes(relayWithin)
		r.resends(3)
		redis.Resume()
		b.Pause(time.Second)
		r.passes(relayWithin)
	})
	b.Saw("%d message(s) under load, %d relayed, the slowest after %d ms; longest time without an answer %d ms", len(l.sent), r.n, r.slowest.Milliseconds(), l.gap.Milliseconds())
}

func redisFailover(ctx context.Context, b *lab.Bench) {
	sentinel := b.Sentinels()
	one, other := pair(b)
	r := newRelay(b, "relay", one, other)
	l := underLoad(ctx, b, 40*time.Second, one, other, func() {
		r.passes(relayWithin)
		sentinel.Master.Kill()
		b.Note("redis", "killed", "the master, SIGKILL")
		b.Bit("kills", 1)
		began := time.Now()
		r.passes(relayWithin)
		r.resends(1)
		b.Must(sentinel.AwaitFailover(ctx, sentinel.Master))
		b.Note("redis", "promoted", "after %d ms", time.Since(began).Milliseconds())
		b.Bit("failovers", 1)
		r.passes(relayWithin)
		r.resends(2)
	})
	b.Saw("%d message(s) under load, %d relayed, the slowest after %d ms; longest time without an answer %d ms", len(l.sent), r.n, r.slowest.Milliseconds(), l.gap.Milliseconds())
}

func redisCut(ctx context.Context, b *lab.Bench) {
	redis := b.Redis()
	net := redis.Link()
	rules := []*lab.Server{b.Logic()}
	one, cut := b.Gateway(rules, "IM_SWEEP_MS=500"), b.Gateway(rules, "IM_SWEEP_MS=500", redis.At(net.Addr()))
	forth, back := newRelay(b, "forth", one, cut), newRelay(b, "back", cut, one)
	both := func() {
		forth.passes(relayWithin)
		back.passes(relayWithin)
	}
	both()
	net.Refuse(true)
	net.Cut(link.Reset)
	both()
	b.Bit("connections cut", net.Counts().Cut)
	net.Heal()
	b.Pause(time.Second)
	both()
	net.Shape(link.Both, func(s *link.Shape) { s.BlackHole = true })
	both()
	b.Pause(time.Second)
	both()
	b.Bit("bytes swallowed", int(net.Counts().Swallowed))
	net.Heal()
	b.Pause(time.Second)
	both()
	b.Saw("%d relayed to the one that is cut off, the slowest after %d ms; %d from it, the slowest after %d ms",
		forth.n, forth.slowest.Milliseconds(), back.n, back.slowest.Milliseconds())
}
