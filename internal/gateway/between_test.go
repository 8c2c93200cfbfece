package gateway

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
)

// between is the rules with something that happens, once, right after the store
// has answered and before the gateway learns of it.
type between struct {
	impart.Logic
	hello, lagging, lags, ranges, ack slot[func()]
	send, beforeAck                   slot[func()]                     // before each
	refuse                            slot[func(impart.Session) error] // of Lagging
	refuseStandings, refuseHello      slot[error]                      // the next one
	compared                          atomic.Int64                     // how often Lagging was asked
}

// slot holds what a story sets while the gateway runs.
type slot[T any] struct{ value atomic.Pointer[T] }

func (s *slot[T]) set(value T) { s.value.Store(&value) }

func (s *slot[T]) get() (value T) { return valueOf(s.value.Load()) }

// once gives the value for the last time.
func (s *slot[T]) once() T { return valueOf(s.value.Swap(nil)) }

func valueOf[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}

// settleTime is how long what happens in between is given to spread.
const settleTime = 10 * time.Millisecond

func do(what *slot[func()]) {
	if f := what.once(); f != nil {
		f()
		time.Sleep(settleTime)
	}
}

func (b *between) Hello(ctx context.Context, h impart.Hello) (impart.Welcome, error) {
	if err := b.refuseHello.once(); err != nil {
		return impart.Welcome{}, err
	}
	welcome, err := b.Logic.Hello(ctx, h)
	do(&b.hello)
	return welcome, err
}

func (b *between) Standings(ctx context.Context, q []impart.StandingQuery) ([]impart.Standing, error) {
	if err := b.refuseStandings.once(); err != nil {
		return nil, err
	}
	return b.Logic.Standings(ctx, q)
}

func (b *between) Send(ctx context.Context, sends []impart.Send) []impart.Sent {
	if wait := b.send.get(); wait != nil {
		wait()
	}
	return b.Logic.Send(ctx, sends)
}

func (b *between) Lagging(ctx context.Context, s impart.Session, all bool, limit int) (impart.LaggingPage, error) {
	if refuse := b.refuse.get(); refuse != nil {
		if err := refuse(s); err != nil {
			return impart.LaggingPage{}, err
		}
	}
	b.compared.Add(1)
	page, err := b.Logic.Lagging(ctx, s, all, limit)
	do(&b.lagging)
	return page, err
}

func (b *between) Ack(ctx context.Context, ack impart.Ack) []impart.Acked {
	if wait := b.beforeAck.get(); wait != nil {
		wait()
	}
	acked := b.Logic.Ack(ctx, ack)
	do(&b.ack)
	return acked
}

func (b *between) Lags(ctx context.Context, queries []impart.LagQuery) ([]impart.Lag, error) {
	lags, err := b.Logic.Lags(ctx, queries)
	do(&b.lags)
	return lags, err
}

func (b *between) Range(ctx context.Context, conv impart.ConvID, from, through impart.Seq) (impart.Range, error) {
	part, err := b.Logic.Range(ctx, conv, from, through)
	do(&b.ranges)
	return part, err
}

// inBetween is inWorld with something to do in between.
func inBetween(t *testing.T, set func(*Config), story func(w *world, b *between)) {
	t.Helper()
	b := &between{}
	inWorld(t, func(c *Config) {
		b.Logic = c.Logic
		c.Logic = b
		if set != nil {
			set(c)
		}
	}, func(w *world) { story(w, b) })
}

// said says hello, and gives the story time to go on.
func (w *world) said(user, device string) *client {
	cl := w.dial()
	cl.send(`{"t":"hello","rid":"h","token":"dev:%s","device":"%s","install":"i","proto":1}`, user, device)
	time.Sleep(2 * settleTime)
	return cl
}

// A user is revoked after the store took the hello and before the connection is
// open.
func TestARevocationDuringTheHelloIsHeard(t *testing.T) {
	inBetween(t, nil, func(w *world, b *between) {
		b.hello.set(func() {
			_, err := w.logic.RevokeUser(w.t.Context(), "u-ben")
			must(w.t, err)
		})
		ben := w.said("u-ben", "d-phone")
		if f := ben.wants("bye"); f["code"] != "REVOKED" {
			t.Fatalf("bye = %v", f)
		}
		<-ben.done
	})
}

// The device says hello on another node at the same time, and later.
func TestATakeoverDuringTheHelloIsHeard(t *testing.T) {
	inBetween(t, nil, func(w *world, b *between) {
		b.hello.set(func() {
			w.bus.Publish(w.t.Context(), bus.Message{Kind: bus.Takeover, User: "u-ben", Device: "d-tablet", Session: 99})
			w.bus.Publish(w.t.Context(), bus.Message{Kind: bus.Takeover, User: "u-ben", Device: "d-phone", Session: 99})
		})
		ben := w.said("u-ben", "d-phone")
		if f := ben.wants("welcome", "bye"); f["code"] != "SUPERSEDED" {
			t.Fatalf("bye = %v", f)
		}
		<-ben.done
	})
}

func TestAnEpochRaisedDuringTheHelloIsTold(t *testing.T) {
	inBetween(t, nil, func(w *world, b *between) {
		var epoch impart.Epoch
		b.hello.set(func() {
			var err error
			epoch, err = w.logic.RaiseEpoch(w.t.Context())
			must(w.t, err)
		})
		ben := w.said("u-ben", "d-phone")
		if f := ben.wants("welcome", "hint"); f["why"] != "resume" || f.num("epoch") != impart.Seq(epoch) {
			t.Fatalf("hint = %v", f)
		}
	})
}

// A hello that failed leaves nothing behind, and the next one may be another
// user's.
func TestAHelloThatFailedMayBeRepeated(t *testing.T) {
	inBetween(t, nil, func(w *world, b *between) {
		cl := w.dial()
		b.refuseHello.set(impart.Errorf(impart.Unavailable, "the database does not answer"))
		cl.send(`{"t":"hello","rid":"1","token":"dev:u-ben","device":"d","proto":1}`)
		if f := cl.wants("error"); f["code"] != "UNAVAILABLE" || f["retry"] != true {
			t.Fatalf("error = %v", f)
		}
		cl.send(`{"t":"hello","rid":"2","token":"dev:u-ana","device":"d","proto":1}`)
		cl.wants("welcome")
		if n := len(w.g.conns.of("u-ben")); n != 0 {
			t.Errorf("ben has %d connections", n)
		}
		_, err := w.logic.RevokeUser(w.t.Context(), "u-ben")
		must(w.t, err)
		cl.wants()
	})
}

// What the store said before the epoch was raised is not taken for true after.
func TestNothingOfAnOlderEpochIsRemembered(t *testing.T) {
	inBetween(t, func(c *Config) { c.Sweep, c.Ladder = time.Second, noRetry }, func(w *world, b *between) {
		ana, ben := w.connect("u-ana", "d-phone"), w.connect("u-ben", "d-phone")
		raise := func() {
			_, err := w.logic.RaiseEpoch(w.t.Context())
			must(w.t, err)
		}
		forgotten := func(when string) {
			t.Helper()
			time.Sleep(2 * settleTime)
			c := w.g.conns.of("u-ben")[0]
			c.mu.Lock()
			defer c.mu.Unlock()
			if len(c.flows) != 0 {
				t.Errorf("%s: %+v", when, *c.flows["c-ab"])
			}
		}
		b.ranges.set(raise)
		ana.says("c-ab", "m1", "hi")
		forgotten("pushed")
		if got := ben.only("event"); len(got) != 0 {
			t.Errorf("pushed all the same: %v", got)
		}
		b.lagging.set(raise)
		ben.send(`{"t":"sub","rid":"s"}`)
		forgotten("compared")
		b.ack.set(raise)
		ben.send(`{"t":"ack","rid":"a","conv":"c-ab","seq":1}`)
		forgotten("acknowledged")
		w.bus.lose.Store(int32(bus.Wake))
		ana.says("c-ab", "m2", "hi")
		b.lags.set(raise)
		time.Sleep(time.Second)
		forgotten("asked")
	})
}

// A receipt of an older epoch speaks of seqs that may be other events' by now.
func TestAReceiptOfAnOlderEpochIsNotPassedOn(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		ana, ben := w.connect("u-ana", "d-phone"), w.connect("u-ben", "d-phone")
		_, err := w.logic.RaiseEpoch(w.t.Context())
		must(w.t, err)
		ana.wants("hint")
		ben.wants("hint")
		w.g.hear(bus.Message{Kind: bus.Receipt, Conv: "c-ab", User: "u-ben", Device: "d-phone", Delivered: 7, Epoch: 1})
		ana.wants()
	})
}

// A connection of which the store cannot be asked does not keep the others from
// their hints.
func TestOneSickConnectionStopsNoHints(t *testing.T) {
	inBetween(t, func(c *Config) { c.Compare = time.Second }, func(w *world, b *between) {
		ana, ben := w.connect("u-ana", "d-phone"), w.connect("u-ben", "d-phone")
		w.connect("u-dan", "d-sick")
		b.refuse.set(func(s impart.Session) error {
			if s.Device == "d-sick" {
				return impart.Errorf(impart.NotFound, "no such device")
			}
			return nil
		})
		w.bus.lose.Store(int32(bus.Wake))
		ana.says("c-ab", "m1", "hi")
		time.Sleep(2 * w.g.cfg.Sweep)
		if hints := ben.only("hint"); len(hints) == 0 {
			t.Error("ben was not hinted")
		}
	})
}

// A client whose sub failed and that leaves it at that is live, and is told at
// the next sweep what it lacks.
func TestAFailedSubIsMadeGood(t *testing.T) {
	inBetween(t, func(c *Config) { c.Compare = time.Hour }, func(w *world, b *between) {
		ana := w.connect("u-ana", "d-phone")
		ana.says("c-ab", "m1", "hi")
		time.Sleep(time.Minute) // no sweep of heads comes back to it
		ben := w.said("u-ben", "d-phone")
		ben.wants("welcome")
		var down atomic.Bool
		down.Store(true)
		b.refuse.set(func(impart.Session) error {
			if down.Load() {
				return impart.Errorf(impart.Unavailable, "the database does not answer")
			}
			return nil
		})
		ben.send(`{"t":"sub","rid":"s"}`)
		if f := ben.wants("error"); f["code"] != "UNAVAILABLE" {
			t.Fatalf("error = %v", f)
		}
		down.Store(false)
		time.Sleep(2 * w.g.cfg.Sweep)
		if hints := ben.only("hint"); len(hints) == 0 {
			t.Error("ben was not hinted")
		}
	})
}

// A revocation that the bus lost is found by the next check, and at once when
// the bus says that it missed something.
func TestALostRevocationIsFound(t *testing.T) {
	for _, told := range []bool{false, true} {
		inBetween(t, nil, func(w *world, b *between) {
			ana, ben := w.connect("u-ana", "d-phone"), w.said("u-ben", "d-phone") // without a sub
			ben.wants("welcome")
			w.bus.lose.Store(int32(bus.Revoked))
			_, err := w.logic.RevokeUser(w.t.Context(), "u-ben")
			must(w.t, err)
			wait := 3 * w.g.cfg.Compare / 2
			if told {
				b.refuseStandings.set(impart.Errorf(impart.Unavailable, "not now; the next sweep tries again"))
				w.bus.Publish(w.t.Context(), bus.Message{Kind: bus.Missed})
				wait = 0
			}
			time.Sleep(wait + w.g.cfg.Sweep)
			if f := ben.wants("bye"); f["code"] != "REVOKED" {
				t.Fatalf("bye = %v", f)
			}
			ana.wants()
		})
	}
}

// A hello that was held up on its way does not outdo the connection that the
// device has made since, and has its last words on.
func TestAHelloThatWasHeldUpDoesNotOutdoANewerConnection(t *testing.T) {
	var heldUp, pass chan struct{} // made in the bubble that waits on them
	var first atomic.Bool
	inWorld(t, func(c *Config) {
		heldUp, pass = make(chan struct{}), make(chan struct{})
		verify := c.Verify
		c.Verify = func(ctx context.Context, token string) (impart.Identity, error) {
			if first.CompareAndSwap(false, true) {
				close(heldUp)
				<-pass
			}
			return verify(ctx, token)
		}
	}, func(w *world) {
		older := w.dial()
		older.send(`{"t":"hello","rid":"h","token":"dev:u-ben","device":"d-phone","install":"i","proto":1}`)
		<-heldUp
		newer := w.connect("u-ben", "d-phone")
		close(pass)
		if f := older.wants("bye"); f["code"] != "SUPERSEDED" {
			t.Fatalf("bye = %v", f)
		}
		newer.wants()
		w.connect("u-ana", "d-phone").says("c-ab", "m1", "are you there?")
		newer.wants("event")
	})
}

// The bus lost that the epoch was raised: whoever reads from the store next
// learns of it, and tells everybody.
func TestALostEpochIsFound(t *testing.T) {
	for name, act := range map[string]func(w *world, ana *client){
		"by a push":    func(_ *world, ana *client) { ana.says("c-ab", "m2", "hi") },
		"by a sub":     func(_ *world, ana *client) { ana.send(`{"t":"sub","rid":"s"}`) },
		"by a sweep":   func(w *world, _ *client) { time.Sleep(w.g.cfg.Sweep) },
		"by a receipt": func(w *world, ana *client) { ana.send(`{"t":"ack","rid":"a","conv":"c-ab","seq":1}`) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, nil, func(w *world) {
				ana, ben := w.connect("u-ana", "d"), w.connect("u-ben", "d")
				w.bus.lose.Store(int32(bus.EpochRaised))
				ana.says("c-ab", "m1", "hi")
				time.Sleep(2 * w.g.cfg.Sweep) // no sweep of heads comes back to it
				ben.take()
				_, err := w.logic.RaiseEpoch(w.t.Context())
				must(w.t, err)
				ben.wants()
				act(w, ana)
				if hints := ben.only("hint"); len(hints) != 1 || hints[0]["why"] != "resume" {
					t.Errorf("hints: %v", hints)
				}
				time.Sleep(time.Minute)
				for _, f := range ben.only("hint") {
					if f.num("head") == 1 {
						t.Errorf("a flow of the older epoch lives on: %v", f)
					}
				}
			})
		})
	}
}

// Nobody needs the bus to close the older of two connections of one node.
func TestALostTakeoverIsNoticedHere(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.bus.lose.Store(int32(bus.Takeover))
		tablet := w.connect("u-ben", "d-tablet")
		older, newer := w.connect("u-ben", "d"), w.connect("u-ben", "d")
		older.wants("bye")
		newer.wants()
		tablet.wants()
	})
}

// Tokens that were issued after the revocation stay good.
func TestARevocationHasATime(t *testing.T) {
	verify := func(ctx context.Context, token string) (impart.Identity, error) {
		id, err := devToken(ctx, token)
		id.Issued = impart.Millis(time.Now().UnixMilli())
		return id, err
	}
	inWorld(t, func(c *Config) { c.Verify = verify }, func(w *world) {
		before := w.connect("u-ben", "d-1")
		time.Sleep(time.Second)
		at := impart.Millis(time.Now().UnixMilli())
		after := w.connect("u-ben", "d-2")
		w.g.hear(bus.Message{Kind: bus.Revoked, User: "u-ben", At: at})
		before.wants("bye")
		after.wants()
		w.g.hear(bus.Message{Kind: bus.Revoked, User: "u-ben"}) // disabled
		after.wants("bye")
	})
}

// A receipt goes to every subscribed member's connection but its own.
func TestReceiptsFindTheirWay(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		ana, ben := w.connect("u-ana", "d"), w.connect("u-ben", "d")
		tablet, quiet := w.connect("u-ben", "d-tablet"), w.said("u-ben", "d-quiet")
		quiet.wants("welcome")
		ana.says("c-ab", "m1", "hi")
		ben.wants("event")
		tablet.wants("event")
		ben.send(`{"t":"read","rid":"r","conv":"c-ab","seq":1}`)
		ben.wants("readed")
		for _, cl := range []*client{ana, tablet} {
			if f := cl.wants("receipt"); f.num("read") != 1 || f["user"] != "u-ben" {
				t.Errorf("receipt = %v", f)
			}
		}
		quiet.wants()
	})
}
