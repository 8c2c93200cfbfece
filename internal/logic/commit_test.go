package logic_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/store"
	"github.com/impart-im/impart/internal/store/memstore"
)

func TestEveryoneIsWokenAfterTheCommitAndNotBefore(t *testing.T) {
	w := newWorld(t)
	w.group("c", ana, ben)
	w.group("d", ana, ben)
	w.bus.take(bus.Wake)
	held, release := make(chan struct{}), make(chan struct{})
	w.memory.OnCommit(func() error { close(held); <-release; return nil }, nil)
	answered := make(chan []impart.Sent, 1)
	go func() {
		answered <- w.Send(w.ctx, []impart.Send{
			w.message(ana, "c", "one"), w.message(ana, "d", "two"), w.message(ana, "c", "three"),
		})
	}()
	<-held
	if early := w.bus.take(bus.Wake); len(early) != 0 {
		t.Errorf("woken before the commit: %+v", early)
	}
	select {
	case sent := <-answered:
		t.Errorf("answered before the commit: %+v", sent)
	default:
	}
	w.memory.OnCommit(nil, nil)
	close(release)
	<-answered
	wakes := w.bus.take(bus.Wake)
	want := []bus.Message{{Kind: bus.Wake, Conv: "c", From: 1, Head: 2}, {Kind: bus.Wake, Conv: "d", From: 1, Head: 1}}
	if fmt.Sprint(wakes) != fmt.Sprint(want) {
		t.Errorf("woken with %+v, want %+v", wakes, want)
	}
}

func TestACommitThatFailsWakesNobodyAndUsesNoSeq(t *testing.T) { // case 16
	w := newWorld(t)
	w.group("c", ana, ben)
	w.bus.take(bus.Wake)
	w.memory.OnCommit(func() error { return errors.New("the disk is full") }, nil)
	first, second := w.message(ana, "c", "hi"), w.message(ben, "c", "hi")
	for _, sent := range w.Send(w.ctx, []impart.Send{first, second}) {
		wantCode(t, "send", sent.Err, impart.Unavailable)
		if sent.Seq != 0 || sent.MID != "" {
			t.Errorf("an outcome that nobody knows: %+v", sent)
		}
	}
	if wakes := w.bus.take(bus.Wake); len(wakes) != 0 {
		t.Errorf("woken with %+v", wakes)
	}
	if n := strings.Count(w.log.String(), "the disk is full"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, w.log)
	}
	w.memory.OnCommit(nil, nil)
	if sent := w.try(first); sent.Err != nil || sent.Dup || sent.Seq != 1 {
		t.Errorf("the retry got %+v", sent)
	}
}

func TestARetryAfterAnUnknownOutcomeFindsTheMessage(t *testing.T) { // case 6
	w := newWorld(t)
	w.group("c", ana, ben)
	send := w.message(ana, "c", "hi")
	w.memory.OnCommit(nil, func() error { return errors.New("the connection broke during COMMIT") })
	wantCode(t, "send", w.try(send).Err, impart.Unavailable)
	w.memory.OnCommit(nil, nil)
	if sent := w.try(send); sent.Err != nil || !sent.Dup || sent.Seq != 1 {
		t.Errorf("the retry got %+v", sent)
	}
	if n := len(w.sees(ben, "c")); n != 1 {
		t.Errorf("%d rows", n)
	}
}

func TestASenderWhoGoesAwayDoesNotKeepTheOthersAsleep(t *testing.T) {
	memory := memstore.New(memstore.Options{})
	w := startWorld(t, &impatient{memory})
	w.group("c", ana, ben)
	w.bus.take(bus.Wake)
	ctx, leave := context.WithCancel(w.ctx)
	memory.OnCommit(func() error { leave(); return nil }, nil)
	w.Send(ctx, []impart.Send{w.message(ana, "c", "hi")})
	if wakes := w.bus.take(bus.Wake); len(wakes) != 1 {
		t.Errorf("woken with %+v", wakes)
	}
	wantCode(t, "a send of who is away already", w.Send(ctx, []impart.Send{w.message(ana, "c", "hi")})[0].Err, impart.Unavailable)
	if n := len(w.sees(ben, "c")); n != 1 {
		t.Errorf("%d events are stored", n)
	}
	if n := w.log.lines(); n != 0 {
		t.Errorf("somebody going away is no news:\n%s", w.log)
	}
}

func TestAnOperatorWhoGoesAwayDoesNotLeaveADoorOpen(t *testing.T) {
	memory := memstore.New(memstore.Options{})
	w := startWorld(t, &impatient{memory})
	w.group("c", ana)
	for what, c := range map[string]struct {
		change func(context.Context) error
		told   bus.Kind
	}{
		"disables": {func(ctx context.Context) error { _, err := w.PutUser(ctx, ben, ptr(true)); return err }, bus.Revoked},
		"revokes":  {func(ctx context.Context) error { _, err := w.RevokeUser(ctx, ben); return err }, bus.Revoked},
		"raises":   {func(ctx context.Context) error { _, err := w.RaiseEpoch(ctx); return err }, bus.EpochRaised},
		"adds":     {func(ctx context.Context) error { _, err := w.PutMember(ctx, "c", impart.Member{User: cy}); return err }, bus.Wake},
		"adds some": {func(ctx context.Context) error {
			_, _, err := w.PutConversation(ctx, impart.ConvSpec{Conv: "c", Kind: impart.Group, Members: []impart.Member{{User: eve}}})
			return err
		}, bus.Wake},
	} {
		w.bus.take(0)
		ctx, leave := context.WithCancel(w.ctx)
		memory.OnCommit(func() error { leave(); return nil }, nil)
		if err := c.change(ctx); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		memory.OnCommit(nil, nil)
		if told := w.bus.take(c.told); len(told) != 1 {
			t.Errorf("%s, and the others were told %+v", what, told)
		}
	}
}

// impatient is a store that answers as soon as its caller goes away, though the
// transaction commits.
type impatient struct{ store.Store }

func (i *impatient) Append(ctx context.Context, items []store.Append) []store.Appended {
	results := i.Store.Append(context.WithoutCancel(ctx), items)
	if err := ctx.Err(); err != nil {
		for k := range results {
			results[k] = store.Appended{Err: err}
		}
	}
	return results
}

func (i *impatient) PutUser(ctx context.Context, user impart.UserID, disabled *bool, revoked *impart.Millis) (impart.UserInfo, error) {
	info, err := i.Store.PutUser(context.WithoutCancel(ctx), user, disabled, revoked)
	return info, errors.Join(err, ctx.Err())
}

func (i *impatient) RaiseEpoch(ctx context.Context, now impart.Millis) (impart.Epoch, error) {
	epoch, err := i.Store.RaiseEpoch(context.WithoutCancel(ctx), now)
	return epoch, errors.Join(err, ctx.Err())
}

func (i *impatient) PutMember(ctx context.Context, conv impart.ConvID, member impart.Member, by impart.UserID, stamp store.Stamp) (impart.ConvInfo, bool, error) {
	info, joined, err := i.Store.PutMember(context.WithoutCancel(ctx), conv, member, by, stamp)
	return info, joined, errors.Join(err, ctx.Err())
}

func (i *impatient) PutConversation(ctx context.Context, spec impart.ConvSpec, stamp store.Stamp) (impart.ConvInfo, bool, error) {
	info, created, err := i.Store.PutConversation(context.WithoutCancel(ctx), spec, stamp)
	return info, created, errors.Join(err, ctx.Err())
}

func TestASlowDiskGivesRetryableErrors(t *testing.T) { // case 43
	w := newWorld(t)
	w.group("c", ana, ben)
	held, release := make(chan struct{}), make(chan struct{})
	w.memory.OnCommit(func() error { close(held); <-release; return nil }, nil)
	slow, behind := w.message(ana, "c", "slow"), w.message(ben, "c", "behind it")
	answered := make(chan impart.Sent, 1)
	go func() { answered <- w.try(slow) }()
	<-held
	ctx, cancel := context.WithTimeout(w.ctx, time.Millisecond)
	defer cancel()
	sent := w.Send(ctx, []impart.Send{behind})[0]
	wantCode(t, "a send behind the slow flush", sent.Err, impart.Unavailable)
	if !impart.CodeOf(sent.Err).Retry() {
		t.Error("it may not be sent again")
	}
	w.memory.OnCommit(nil, nil)
	close(release)
	if first := <-answered; first.Err != nil || first.Seq != 1 {
		t.Errorf("the slow one got %+v", first)
	}
	if again := w.try(behind); again.Err != nil || again.Seq != 2 {
		t.Errorf("the resend got %+v", again)
	}
}

func TestAHeldCommitHoldsItsReaders(t *testing.T) { // case 23, as far as one process goes
	w := newWorld(t)
	w.group("c", ana, ben)
	w.say(ana, "c", "before")
	held, release := make(chan struct{}), make(chan struct{})
	w.memory.OnCommit(func() error { close(held); <-release; return errors.New("rolled back") }, nil)
	answered := make(chan impart.Sent, 1)
	go func() { answered <- w.try(w.message(ana, "c", "held")) }()
	<-held
	w.memory.OnCommit(nil, nil)
	if n := len(w.sees(ben, "c")); n != 1 {
		t.Errorf("a reader sees %d events while the second is held", n)
	}
	var others sync.WaitGroup
	for i := range 20 {
		others.Go(func() {
			w.try(impart.Send{Sender: ben, Conv: "c", CMID: impart.CMID(fmt.Sprint("o", i)), Body: "other"})
		})
	}
	close(release)
	wantCode(t, "the held one", (<-answered).Err, impart.Unavailable)
	others.Wait()
	for i, ev := range w.sees(ana, "c") {
		if ev.Seq != impart.Seq(i+1) {
			t.Fatalf("seq %d in place %d", ev.Seq, i+1)
		}
	}
}

func TestAClosedStoreIsUnavailable(t *testing.T) {
	memory := memstore.New(memstore.Options{})
	w := startWorld(t, memory)
	w.group("c", ana, ben)
	session := w.device(ana, "phone")
	memory.Crash()
	after := impart.Seq(0)
	_, syncErr := w.Sync(w.ctx, impart.Sync{User: ana, Conv: "c", After: &after})
	_, pullErr := w.Pull(w.ctx, impart.Pull{Session: session})
	_, convsErr := w.Convs(w.ctx, impart.Convs{Session: session})
	_, readErr := w.Read(w.ctx, impart.Read{Session: session, Conv: "c"})
	_, whoErr := w.Who(w.ctx, impart.Who{User: ana, Conv: "c"})
	_, rangeErr := w.Range(w.ctx, "c", 1, 1)
	_, lagsErr := w.Lags(w.ctx, []impart.LagQuery{{Session: session, Conv: "c"}})
	_, writtenErr := w.Written(w.ctx, 1)
	_, helloErr := w.Hello(w.ctx, impart.Hello{Identity: impart.Identity{User: ana}, Device: "d"})
	_, recallErr := w.Recall(w.ctx, impart.Recall{Sender: ana, Conv: "c", Seq: 1, CMID: "r"})
	for what, err := range map[string]error{
		"send": w.try(w.message(ana, "c", "hi")).Err, "sync": syncErr, "pull": pullErr, "convs": convsErr, "read": readErr,
		"ack": w.Ack(w.ctx, impart.Ack{Session: session, Items: []impart.AckItem{{Conv: "c"}}})[0].Err,
		"who": whoErr, "range": rangeErr, "lags": lagsErr, "written": writtenErr, "hello": helloErr, "recall": recallErr,
	} {
		wantCode(t, what, err, impart.Unavailable)
	}
}
