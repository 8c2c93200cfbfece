package gateway

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/logic"
	"github.com/impart-im/impart/internal/pending"
	"github.com/impart-im/impart/internal/store"
	"github.com/impart-im/impart/internal/store/memstore"
)

// twoNodes runs a story on two nodes with one store and one bus, in virtual time.
// Each has its own ear on the bus, which can be made deaf.
func twoNodes(t *testing.T, story func(here, there *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		shared := memstore.New(memstore.Options{})
		wires := bus.NewLocal()
		var nodes [2]*world
		var ends []io.Closer
		for i := range nodes {
			w := &world{t: t, store: shared, bus: &deafBus{Bus: wires}, reads: &readCounter{Store: shared}}
			var err error
			w.logic, err = logic.New(logic.Config{Store: w.reads, Bus: w.bus})
			must(t, err)
			rules, closers := rulesOf(t, w.logic)
			w.g, err = New(Config{Logic: rules, Bus: w.bus, Pending: pending.NewLocal(), Verify: devToken, Create: true, Shared: true})
			must(t, err)
			nodes[i] = w
			ends = append(append(ends, w.g), closers...)
		}
		defer func() {
			for _, end := range append(ends, wires, shared) {
				if err := end.Close(); err != nil {
					t.Error(err)
				}
			}
		}()
		nodes[0].conversation("c-ab", "u-ana", "u-ben")
		story(nodes[0], nodes[1])
	})
}

// readCounter counts what one node reads of conversations.
type readCounter struct {
	store.Store
	reads atomic.Int64
}

func (r *readCounter) Range(ctx context.Context, conv impart.ConvID, from, through impart.Seq, limit int) (store.Range, error) {
	r.reads.Add(1)
	return r.Store.Range(ctx, conv, from, through, limit)
}

func (r *readCounter) Audience(ctx context.Context, conv impart.ConvID) (*impart.Audience, error) {
	r.reads.Add(1)
	return r.Store.Audience(ctx, conv)
}

func superseded(t *testing.T, c *client) {
	t.Helper()
	if f := c.wants("bye"); f["code"] != "SUPERSEDED" || f["final"] != true {
		t.Errorf("bye = %v", f)
	}
	<-c.done
}

func TestADeviceMovesToAnotherNode(t *testing.T) {
	twoNodes(t, func(here, there *world) {
		older := here.connect("u-ben", "d-phone")
		newer := there.connect("u-ben", "d-phone")
		superseded(t, older)
		here.connect("u-ana", "d-phone").says("c-ab", "m1", "where are you?")
		newer.wants("event")
		newest := here.connect("u-ben", "d-phone")
		superseded(t, newer)
		there.connect("u-ana", "d-tablet").says("c-ab", "m2", "and now?")
		newest.wants("event")
	})
}

func TestATakeoverThatTheBusLostIsFoundByTheNextSweep(t *testing.T) {
	twoNodes(t, func(here, there *world) {
		here.bus.lose.Store(int32(bus.Takeover))
		older, other := here.connect("u-ben", "d-phone"), here.connect("u-ana", "d-phone")
		newer := there.connect("u-ben", "d-phone")
		older.wants() // nothing yet
		time.Sleep(here.g.cfg.Sweep)
		superseded(t, older)
		newer.wants()
		other.wants()
	})
}

// TestABarredUserGoesWithTheNextSweep: neither the news nor the word that some was
// missed comes, whether the node knows that its bus is down or not, and the rules still
// answer from memory.
func TestABarredUserGoesWithTheNextSweep(t *testing.T) {
	for _, down := range []bool{true, false} {
		twoNodes(t, func(here, there *world) {
			ben, cy := here.connect("u-ben", "d-phone"), here.connect("u-cy", "d-phone")
			ana := here.connect("u-ana", "d-phone")
			here.bus.lose.Store(int32(bus.Revoked))
			here.bus.down.Store(down)
			disabled := true
			_, err := there.logic.PutUser(here.t.Context(), "u-ben", &disabled)
			must(here.t, err)
			_, err = there.logic.RevokeUser(here.t.Context(), "u-cy")
			must(here.t, err)
			time.Sleep(here.g.cfg.Sweep)
			for _, barred := range []*client{ben, cy} {
				if f := barred.wants("bye"); f["code"] != "REVOKED" {
					t.Errorf("bye = %v", f)
				}
			}
			ana.wants() // nothing
		})
	}
}

func TestADeafBusIsMadeGoodAsSoonAsItHears(t *testing.T) {
	twoNodes(t, func(here, there *world) {
		here.bus.lose.Store(int32(bus.Takeover))
		older := here.connect("u-ben", "d-phone")
		there.connect("u-ben", "d-phone")
		synctest.Wait() // until it is lost
		here.bus.lose.Store(int32(bus.Revoked))
		cy := here.connect("u-cy", "d-phone")
		_, err := there.logic.RevokeUser(here.t.Context(), "u-cy")
		must(here.t, err)
		synctest.Wait()
		here.bus.lose.Store(int32(bus.EpochRaised))
		ana := here.connect("u-ana", "d-phone")
		_, err = there.logic.RaiseEpoch(here.t.Context())
		must(here.t, err)
		ana.wants()
		began := time.Now()
		here.bus.Publish(here.t.Context(), bus.Message{Kind: bus.Missed})
		time.Sleep(time.Millisecond) // a sweep, and not a second one
		if f := ana.wants("hint"); f["why"] != "resume" {
			t.Errorf("hint = %v", f)
		}
		if f := older.wants("hint", "bye"); f["code"] != "SUPERSEDED" {
			t.Errorf("bye = %v", f)
		}
		if f := cy.wants("hint", "bye"); f["code"] != "REVOKED" {
			t.Errorf("bye = %v", f)
		}
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

// A gateway apart from its rules whose bus is deaf knows what was stored from there: what
// it is told by the answer reaches its own connections without the sweep.
func TestAGatewayApartPushesWhatItSentWhileItsBusIsDeaf(t *testing.T) {
	inWorld(t, func(c *Config) { c.Apart = true }, func(w *world) {
		w.bus.lose.Store(int32(bus.Wake))
		ana, ben := w.connect("u-ana", "d"), w.connect("u-ben", "d")
		ana.says("c-ab", "m0", "into the void")
		ben.wants() // a bus that is well is believed
		w.bus.down.Store(true)
		ana.says("c-ab", "m1", "hi")
		ben.wants("event")
		sent := w.g.Rules().Send(w.t.Context(), []impart.Send{{Sender: "u-ana", Conv: "c-ab", CMID: "m2", Body: "by HTTP"}})
		must(w.t, sent[0].Err)
		ben.wants("event")
		_, err := w.g.Rules().Recall(w.t.Context(), impart.Recall{Sender: "u-ana", Conv: "c-ab", Seq: 2, CMID: "m3"})
		must(w.t, err)
		ben.wants("event")
	})
}

// Every node hears of every message. One where nobody is to see it reads nothing
// for it, once it knows who may.
func TestANodeWithoutReadersReadsNothing(t *testing.T) {
	twoNodes(t, func(here, there *world) {
		there.connect("u-ben", "d-phone")
		cy := here.connect("u-cy", "d-phone")
		wake := func(seq impart.Seq, members int64) {
			here.bus.Publish(here.t.Context(), bus.Message{Kind: bus.Wake, Conv: "c-ab", From: seq, Head: seq, Members: members})
			here.bus.Publish(here.t.Context(), bus.Message{Kind: bus.Receipt, Conv: "c-ab", User: "u-ben", Delivered: seq, Epoch: 1})
			time.Sleep(3 * time.Second)
			synctest.Wait()
		}
		wake(1, 1) // who may see it is read once
		before := here.reads.reads.Load()
		for seq := range impart.Seq(50) {
			wake(seq, 1)
		}
		if n := here.reads.reads.Load() - before; n != 0 {
			t.Errorf("50 messages and receipts of others cost %d reads", n)
		}
		// A new member's version is another one.
		_, _, err := there.store.PutMember(here.t.Context(), "c-ab", impart.Member{User: "u-cy"}, impart.System, func() (impart.MID, impart.Millis) { return "m-join", 1 })
		must(here.t, err)
		here.bus.Publish(here.t.Context(), bus.Message{Kind: bus.Wake, Conv: "c-ab", From: 1, Head: 1, Members: 2})
		cy.wants("event")
	})
}

// A node with more connections than one sweep compares comes to all of them in turn.
func TestSweepsCompareSessionsInTurn(t *testing.T) {
	g := &Gateway{conns: newRegistry(), cfg: Config{Shared: true}}
	const conns = 2*maxSessionChecks + maxSessionChecks/2
	for id := range uint64(conns) {
		g.conns.byID[id+1] = &conn{id: id + 1, stage: open, session: impart.Session{User: impart.UserID(fmt.Sprint(id)), Number: 1}}
	}
	g.conns.byID[conns+1] = &conn{id: conns + 1} // without a hello
	seen := map[uint64]int{}
	for range 5 {
		due := g.sessionsDue(false)
		if len(due) != maxSessionChecks {
			t.Fatalf("%d in one sweep", len(due))
		}
		for _, c := range due {
			seen[c.id]++
		}
		g.checkedUpTo = due[len(due)-1].id
	}
	for id, times := range seen {
		if times != 2 {
			t.Errorf("connection %d was compared %d times in two rounds", id, times)
		}
	}
	if len(seen) != conns || len(g.sessionsDue(true)) != conns {
		t.Errorf("%d of %d were compared", len(seen), conns)
	}
}
