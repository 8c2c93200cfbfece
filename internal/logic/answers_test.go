package logic_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/dedup"
	"github.com/impart-im/impart/internal/logic"
	"github.com/impart-im/impart/internal/store"
	"github.com/impart-im/impart/internal/store/memstore"
)

// asks counts the items that a step gives to the store to write.
func (w *world) asks(step func()) int64 {
	before := w.store.Stats().Items
	step()
	return w.store.Stats().Items - before
}

// resend sends again what was sent, and wants the first answer, from the store or
// without it.
func (w *world) resend(when string, send impart.Send, original impart.Sent, fromStore bool) impart.Sent {
	w.t.Helper()
	var sent impart.Sent
	asked := w.asks(func() { sent = w.try(send) })
	if sent.Err != nil || !sent.Dup || sent.Conv != original.Conv || sent.Seq != original.Seq || sent.MID != original.MID || sent.At != original.At {
		w.t.Errorf("%s: %+v, want the answer to the first attempt, %+v", when, sent, original)
	}
	if fromStore != (asked == 1) || asked > 1 {
		w.t.Errorf("%s: the store was asked %d times", when, asked)
	}
	return sent
}

func TestAResendIsAnsweredWithoutTheStore(t *testing.T) {
	w := newWorld(t)
	w.group("c", ana, ben)
	send := w.message(ana, "c", "hi")
	original := w.try(send)
	w.bus.take(bus.Wake)
	if again := w.resend("at once", send, original, false); again.Epoch != original.Epoch {
		t.Errorf("the epoch is %d, it was %d", again.Epoch, original.Epoch)
	}
	send.Prev = "never stored"
	w.resend("with another prev", send, original, false)
	send.Epoch = 1
	w.resend("in the current epoch", send, original, false)
	if _, err := w.RemoveMember(w.ctx, "c", ana); err != nil {
		t.Fatal(err)
	}
	w.resend("after leaving", send, original, false)
	if hits, cached := w.counts("im_dedup_hit_total"), w.counts("im_dedup_cached_total"); hits != 4 || cached != 4 {
		t.Errorf("im_dedup_hit_total is %v, im_dedup_cached_total %v after 4 repeats", hits, cached)
	}
}

func TestAMixedBatchIsAnsweredInItsOrder(t *testing.T) {
	w := newWorld(t)
	w.group("c", ana, ben)
	old := []impart.Send{w.message(ana, "c", "one"), w.message(ana, "c", "two")}
	first := w.Send(w.ctx, old)
	fresh := w.message(ana, "c", "three")
	fresh.Prev = old[1].CMID
	bad := w.message(ana, "nowhere", "four")
	reused := old[0]
	reused.Body = "another"
	batch := []impart.Send{old[1], fresh, bad, old[0], reused, fresh}
	var sent []impart.Sent
	if asked := w.asks(func() { sent = w.Send(w.ctx, batch) }); asked != 4 {
		t.Errorf("the store was asked %d times, want 4", asked)
	}
	if sent[0].MID != first[1].MID || !sent[0].Dup || sent[3].MID != first[0].MID || !sent[3].Dup {
		t.Errorf("the old ones got %+v and %+v", sent[0], sent[3])
	}
	if sent[1].Err != nil || sent[1].Dup || sent[1].Seq != 3 || sent[5].Err != nil || !sent[5].Dup || sent[5].MID != sent[1].MID {
		t.Errorf("the new one got %+v, and at the second place %+v", sent[1], sent[5])
	}
	wantCode(t, "no such conversation", sent[2].Err, impart.NotMember)
	wantCode(t, "another content", sent[4].Err, impart.CMIDReused)
	w.resend("the new one, later", fresh, sent[1], false)
	if hits := w.counts("im_dedup_hit_total"); hits != 4 {
		t.Errorf("im_dedup_hit_total is %v after 4 repeats", hits)
	}
}

func TestOtherContentIsTheStoresToRefuse(t *testing.T) { // D12
	w := newWorld(t)
	w.group("c", ana, ben)
	send := w.message(ana, "c", "hi")
	original := w.try(send)
	other := send
	other.Body = "hi "
	if asked := w.asks(func() { wantCode(t, "another body", w.try(other).Err, impart.CMIDReused) }); asked != 1 {
		t.Errorf("the store was asked %d times", asked)
	}
	w.resend("the first content", send, original, false)
}

func TestTwoUsersWithOneCMIDDoNotMeet(t *testing.T) { // D12
	w := newWorld(t)
	w.group("c", "a", "a:b", "ab")
	sends := []impart.Send{
		{Sender: "a:b", Conv: "c", CMID: "c", Body: "hi"}, {Sender: "a", Conv: "c", CMID: "b:c", Body: "hi"},
		{Sender: "a", Conv: "c", CMID: "bc", Body: "hi"}, {Sender: "ab", Conv: "c", CMID: "c", Body: "hi"},
		{Sender: "a", Conv: "c", CMID: "c", Body: "hi"}, {Sender: "a", Conv: "c", CMID: "C", Body: "hi"},
	}
	first := make([]impart.Sent, len(sends))
	for i, send := range sends {
		if first[i] = w.try(send); first[i].Err != nil || first[i].Dup || first[i].Seq != impart.Seq(i+1) {
			t.Fatalf("%s with %s got %+v", send.Sender, send.CMID, first[i])
		}
	}
	for i, send := range sends {
		w.resend(string(send.Sender)+" again with "+string(send.CMID), send, first[i], false)
	}
}

func TestAnswersEndWithTheirEpoch(t *testing.T) { // D18, hole 17
	w := newWorld(t)
	w.group("c", ana, ben)
	send := w.message(ana, "c", "hi")
	original := w.try(send)
	epoch, err := w.RaiseEpoch(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	stale := send
	stale.Epoch = original.Epoch
	wantCode(t, "a resend in the old epoch", w.try(stale).Err, impart.EpochChanged)
	if again := w.resend("after the epoch was raised", send, original, true); again.Epoch != epoch {
		t.Errorf("the epoch is %d, the answer is of %d", epoch, again.Epoch)
	}
	send.Epoch = epoch
	w.resend("in the new epoch", send, original, false)
	wantCode(t, "again in the old epoch", w.try(stale).Err, impart.EpochChanged)
}

// Where the bus loses what another node tells, a kept answer is given for no moment
// longer than its epoch.
func TestAnEpochThatNobodyToldOfEndsAnswersAtOnce(t *testing.T) { // hole 17
	w := newWorld(t)
	w.group("c", ana, ben)
	send := w.message(ana, "c", "hi")
	original := w.try(send)
	w.resend("at once", send, original, false)
	if _, err := w.store.RaiseEpoch(w.ctx, 0); err != nil {
		t.Fatal(err)
	}
	w.resend("after another node raised the epoch", send, original, true)
}

// countingMeta is a store whose reads of the epoch are counted, and held up.
type countingMeta struct {
	store.Store
	reads atomic.Int64
	fails atomic.Bool
}

func (c *countingMeta) Meta(ctx context.Context) (store.Meta, error) {
	c.reads.Add(1)
	time.Sleep(time.Millisecond)
	if c.fails.Load() {
		return store.Meta{}, errors.New("no answer")
	}
	return c.Store.Meta(ctx)
}

func TestAStormOfResendsSharesItsReadsOfTheEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counting := &countingMeta{Store: openStore(t, nil)}
		w := startWorld(t, counting)
		w.group("c", ana, ben)
		send := w.message(ana, "c", "hi")
		original := w.try(send)
		storm := func() {
			var group sync.WaitGroup
			for range 500 {
				group.Go(func() {
					for range 10 {
						if again := w.Send(w.ctx, []impart.Send{send, send, send}); again[2].MID != original.MID {
							t.Errorf("got %+v", again[2])
						}
					}
				})
			}
			group.Wait()
		}
		before := counting.reads.Load()
		if asked := w.asks(storm); asked != 0 {
			t.Errorf("the store had to write %d times", asked)
		}
		// While one reads, all the others arrive.
		if n := counting.reads.Load() - before; n > 2*10 {
			t.Errorf("5,000 requests read the epoch %d times", n)
		}
		counting.fails.Store(true)
		if asked := w.asks(func() { w.try(send) }); asked != 1 {
			t.Errorf("without an epoch the store was asked %d times", asked)
		}
		counting.fails.Store(false)
		w.resend("when it can be read again", send, original, false)
	})
}

func TestAnswersAreForgottenInTime(t *testing.T) {
	w, clock := clocked(t)
	w.group("c", ana, ben)
	send := w.message(ana, "c", "hi")
	original := w.try(send)
	clock.turn(dedup.TTL - 1)
	w.resend("before its time", send, original, false)
	clock.turn(1)
	w.resend("after its time", send, original, true)
	w.resend("after that", send, original, false)
}

func TestAnswersMakeRoomForNewerOnes(t *testing.T) {
	w := newWorld(t, func(cfg *logic.Config) { cfg.Dedup = dedup.NewLocal(dedup.Options{Limit: 10}) })
	w.group("c", ana, ben)
	send := w.message(ana, "c", "hi")
	original := w.try(send)
	w.sayMany(ana, "c", 9)
	w.resend("among ten", send, original, false)
	w.sayMany(ana, "c", 30)
	w.resend("long after", send, original, true)
}

func TestWhoeverLosesTheAnswersLosesTime(t *testing.T) { // D11
	w := newWorld(t, func(cfg *logic.Config) { cfg.Dedup = &forgetful{Cache: dedup.NewLocal(dedup.Options{})} })
	w.group("c", ana, ben)
	send := w.message(ana, "c", "hi")
	original := w.try(send)
	for range 7 {
		sent := w.try(send)
		if sent.Err != nil || !sent.Dup || sent.MID != original.MID || sent.Seq != original.Seq {
			t.Fatalf("got %+v", sent)
		}
	}
	if n := len(w.sees(ben, "c")); n != 1 {
		t.Errorf("%d rows", n)
	}
	if hits := w.counts("im_dedup_hit_total"); hits != 7 {
		t.Errorf("im_dedup_hit_total is %v after 7 repeats", hits)
	}
	again := startWorld(t, w.memory.Reopen())
	again.resend("another process", send, original, true)
	again.resend("another process, again", send, original, false)
}

// What did not surely commit is not kept: neither a commit of unknown outcome,
// nor one that failed, nor what was refused.
func TestOnlyWhatHasCommittedIsKept(t *testing.T) { // D12, hole 16
	cache := &watched{Cache: dedup.NewLocal(dedup.Options{})}
	w := newWorld(t, func(cfg *logic.Config) { cfg.Dedup = cache })
	w.group("c", ana, ben)
	send := w.message(ana, "c", "hi")
	w.memory.OnCommit(func() error { return errors.New("the disk is full") }, nil)
	wantCode(t, "the commit fails", w.try(send).Err, impart.Unavailable)
	w.memory.OnCommit(nil, func() error { return errors.New("the connection broke during COMMIT") })
	wantCode(t, "nobody knows whether it commits", w.try(send).Err, impart.Unavailable)
	w.memory.OnCommit(nil, nil)
	if cache.kept != 0 {
		t.Errorf("%d answers are kept of commits that nobody acknowledged", cache.kept)
	}
	again := w.try(send)
	if again.Err != nil || !again.Dup || again.Seq != 1 {
		t.Errorf("then: %+v", again)
	}
	w.resend("after the store has answered", send, again, false)

	hasty := w.message(ana, "c", "too early")
	late := w.message(ana, "c", "late")
	hasty.Prev = late.CMID
	wantCode(t, "before its prev", w.try(hasty).Err, impart.OutOfOrder)
	wantCode(t, "before its prev, again", w.try(hasty).Err, impart.OutOfOrder)
	w.try(late)
	if sent := w.try(hasty); sent.Err != nil || sent.Dup || sent.Seq != 3 {
		t.Errorf("after its prev: %+v", sent)
	}
	if cache.kept != 3 {
		t.Errorf("%d answers are kept, of 3 that the store gave", cache.kept)
	}
}

// While a commit is under way, a resend waits for the store as well.
func TestAResendDuringTheCommitIsTheStores(t *testing.T) { // D1
	w := newWorld(t)
	w.group("c", ana, ben)
	send := w.message(ana, "c", "hi")
	held, release := make(chan struct{}), make(chan struct{})
	w.memory.OnCommit(func() error { close(held); <-release; return nil }, nil)
	answers := make(chan impart.Sent, 2)
	go func() { answers <- w.try(send) }()
	<-held
	w.memory.OnCommit(nil, nil)
	go func() { answers <- w.try(send) }()
	for w.store.Stats().Queue == 0 {
		select {
		case early := <-answers:
			t.Fatalf("answered before the commit: %+v", early)
		default:
		}
	}
	close(release)
	one, two := <-answers, <-answers
	if one.Err != nil || two.Err != nil || one.Dup == two.Dup || one.MID != two.MID || one.Seq != 1 || two.Seq != 1 {
		t.Errorf("answered %+v and %+v", one, two)
	}
}

func TestARecallAndItsTargetKeepTheirAnswers(t *testing.T) { // D17
	w := newWorld(t)
	w.group("c", ana, ben)
	send := w.message(ben, "c", "oops")
	original := w.try(send)
	recall := impart.Recall{Sender: ben, Conv: "c", Seq: 1, CMID: "r1"}
	taken, err := w.Recall(w.ctx, recall)
	if err != nil {
		t.Fatal(err)
	}
	w.resend("what was taken back", send, original, false)
	asked := w.asks(func() {
		again, err := w.Recall(w.ctx, recall)
		if taken.Dup = true; err != nil || again != taken {
			t.Errorf("the recall again: %+v, %v", again, err)
		}
	})
	if asked != 0 {
		t.Errorf("the store was asked %d times", asked)
	}
	recall.Seq = 2
	_, err = w.Recall(w.ctx, recall)
	wantCode(t, "another target", err, impart.CMIDReused)
	for _, ev := range w.sees(ana, "c") {
		if ev.Body != "" {
			t.Errorf("ana sees %+v", ev)
		}
	}
}

// What is refused without the store comes first, as ever.
func TestAKnownAnswerIsNoWayAroundABudget(t *testing.T) {
	w, _ := clocked(t, func(cfg *logic.Config) { cfg.SendRate, cfg.SendBurst = 1, 2 })
	w.group("c", ana, ben)
	send := w.message(ana, "c", "hi")
	original := w.try(send)
	w.resend("within the budget", send, original, false)
	wantCode(t, "past it", w.try(send).Err, impart.RateLimited)
}

// A store that cannot say its epoch is no reason to answer from before it.
func TestWithoutAnEpochTheStoreIsAsked(t *testing.T) {
	memory := memstore.New(memstore.Options{})
	w := startWorld(t, &silent{memory})
	w.group("c", ana, ben)
	send := w.message(ana, "c", "hi")
	original := w.try(send)
	w.resend("while nobody knows the epoch", send, original, true)
}

// forgetful is a cache that loses everything at every second question.
type forgetful struct {
	dedup.Cache
	asked int
}

func (f *forgetful) Find(ctx context.Context, entries []dedup.Entry) {
	if f.asked++; f.asked%2 == 0 {
		f.Cache = dedup.NewLocal(dedup.Options{})
	}
	f.Cache.Find(ctx, entries)
}

// watched is a cache that counts what it is given to keep.
type watched struct {
	dedup.Cache
	kept int
}

func (w *watched) Keep(ctx context.Context, entries []dedup.Entry) {
	w.kept += len(entries)
	w.Cache.Keep(ctx, entries)
}

// silent is a store that does not tell its epoch.
type silent struct{ store.Store }

func (s *silent) Meta(context.Context) (store.Meta, error) {
	return store.Meta{}, errors.New("no answer")
}
