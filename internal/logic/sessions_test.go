package logic_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/logic"
	"github.com/impart-im/impart/internal/store"
	"github.com/impart-im/impart/internal/store/memstore"
)

func TestANewerSessionOfADeviceIsAnnounced(t *testing.T) {
	w := newWorld(t)
	w.bus.take(0)
	first := w.device(ana, "phone")
	second := w.device(ana, "phone")
	if second.Number <= first.Number || second.Install != 1 || first.Install != 1 {
		t.Fatalf("sessions %+v and %+v", first, second)
	}
	want := []bus.Message{
		{Kind: bus.Takeover, User: ana, Device: "phone", Session: first.Number},
		{Kind: bus.Takeover, User: ana, Device: "phone", Session: second.Number},
	}
	if got := w.bus.take(bus.Takeover); len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("announced %+v, want %+v", got, want)
	}
}

func TestAReinstalledOrRolledBackDeviceStartsAnew(t *testing.T) { // D9
	w := newWorld(t)
	w.group("c", ana, ben)
	w.sayMany(ana, "c", 5)
	hello := impart.Hello{Identity: impart.Identity{User: ben}, Device: "phone", Install: "one", N: ptr(int64(4))}
	welcome := w.hello(hello)
	if !welcome.Fresh || welcome.N != 4 || welcome.Epoch != 1 || welcome.Now == 0 {
		t.Errorf("an unknown device gets %+v", welcome)
	}
	acks := impart.Ack{Session: welcome.Session, N: ptr(int64(9)), Items: []impart.AckItem{{Conv: "c", Seq: 5}}}
	if acked := w.Ack(w.ctx, acks); acked[0].Err != nil {
		t.Fatal(acked[0].Err)
	}
	hello.N = ptr(int64(9))
	if welcome = w.hello(hello); welcome.Fresh || welcome.Session.Install != 1 || welcome.N != 9 {
		t.Errorf("the same store gets %+v", welcome)
	}
	hello.N = ptr(int64(8))
	if welcome = w.hello(hello); !welcome.Fresh || welcome.Session.Install != 2 || welcome.N != 8 {
		t.Errorf("a store that went back gets %+v", welcome)
	}
	if n := eventsOf(w.pull(welcome.Session, 0)); n != 5 {
		t.Errorf("it pulls %d events, want all 5", n)
	}
	hello.Install = "two"
	if welcome = w.hello(hello); !welcome.Fresh || welcome.Session.Install != 3 {
		t.Errorf("another store gets %+v", welcome)
	}
	hello.Install, hello.History = "three", ptr(int64(2))
	if n := eventsOf(w.pull(w.hello(hello).Session, 0)); n != 2 {
		t.Errorf("a new install that wants two events pulls %d", n)
	}
}

func TestAVisitNeverRaisesTheInstall(t *testing.T) {
	w := newWorld(t)
	id := impart.Identity{User: ana}
	session, err := w.Visit(w.ctx, id, "tablet", "one")
	if err != nil || session != (impart.Session{User: ana, Device: "tablet", Install: 1}) {
		t.Fatalf("%+v: %v", session, err)
	}
	if again, err := w.Visit(w.ctx, id, "tablet", "one"); err != nil || again != session {
		t.Errorf("%+v: %v", again, err)
	}
	_, err = w.Visit(w.ctx, id, "tablet", "two")
	wantCode(t, "another install", err, impart.StaleInstall)
	if got := w.bus.take(bus.Takeover); len(got) != 0 {
		t.Errorf("a visit is no session: %+v", got)
	}
	_, err = w.Visit(w.ctx, id, "", "one")
	wantCode(t, "no device", err, impart.BadFrame)
	_, err = w.Visit(w.ctx, impart.Identity{User: impart.System}, "tablet", "one")
	wantCode(t, "the operator", err, impart.Unauthenticated)
}

func TestHelloRefusals(t *testing.T) {
	w := newWorld(t)
	for what, c := range map[string]struct {
		hello impart.Hello
		code  impart.Code
	}{
		"no user":          {impart.Hello{Device: "d"}, impart.BadFrame},
		"no device":        {impart.Hello{Identity: impart.Identity{User: ana}}, impart.BadFrame},
		"long device":      {impart.Hello{Identity: impart.Identity{User: ana}, Device: impart.DeviceID(strings.Repeat("d", 129))}, impart.BadFrame},
		"control":          {impart.Hello{Identity: impart.Identity{User: ana}, Device: "a\x1bb"}, impart.BadFrame},
		"install":          {impart.Hello{Identity: impart.Identity{User: ana}, Device: "d", Install: "a\x00b"}, impart.BadFrame},
		"negative n":       {impart.Hello{Identity: impart.Identity{User: ana}, Device: "d", N: ptr(int64(-1))}, impart.BadFrame},
		"negative history": {impart.Hello{Identity: impart.Identity{User: ana}, Device: "d", History: ptr(int64(-1))}, impart.BadFrame},
		"the operator":     {impart.Hello{Identity: impart.Identity{User: impart.System}, Device: "d", Create: true}, impart.Unauthenticated},
	} {
		_, err := w.Hello(w.ctx, c.hello)
		wantCode(t, what, err, c.code)
	}
	if got := w.bus.take(bus.Takeover); len(got) != 0 {
		t.Errorf("announced %+v", got)
	}
	if w.hello(impart.Hello{Identity: impart.Identity{User: "nobody yet"}, Device: "d"}).Session.Number == 0 {
		t.Error("a session without a number")
	}
	if _, err := w.User(w.ctx, "nobody yet"); err != nil {
		t.Errorf("a hello makes its user known: %v", err)
	}
}

func TestADisabledUserIsOut(t *testing.T) { // security.md, kind 4
	w := newWorld(t)
	id := impart.Identity{User: ana}
	w.device(ana, "phone")
	w.bus.take(0)
	if _, err := w.PutUser(w.ctx, ana, ptr(true)); err != nil {
		t.Fatal(err)
	}
	if got := w.bus.take(bus.Revoked); len(got) != 1 || got[0] != (bus.Message{Kind: bus.Revoked, User: ana}) {
		t.Errorf("announced %+v", got)
	}
	_, helloErr := w.Hello(w.ctx, impart.Hello{Identity: id, Device: "phone"})
	_, visitErr := w.Visit(w.ctx, id, "phone", "first")
	for what, err := range map[string]error{"hello": helloErr, "visit": visitErr, "authorize": w.Authorize(w.ctx, id)} {
		wantCode(t, what, err, impart.Unauthenticated)
	}
	if got := w.bus.take(bus.Takeover); len(got) != 0 {
		t.Errorf("somebody who is out took a session over: %+v", got)
	}
	if _, err := w.PutUser(w.ctx, ana, nil); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "after a PUT that says nothing of it", w.Authorize(w.ctx, id), impart.Unauthenticated)
	if _, err := w.PutUser(w.ctx, ana, ptr(false)); err != nil {
		t.Fatal(err)
	}
	if err := w.Authorize(w.ctx, id); err != nil {
		t.Errorf("readmitted: %v", err)
	}
}

func TestARevokedTokenIsOutAndANewOneIsIn(t *testing.T) {
	w, clock := clocked(t)
	old := impart.Identity{User: ana, Issued: clock.Millis()}
	if err := w.Authorize(w.ctx, old); err != nil {
		t.Fatal(err)
	}
	clock.turn(time.Second)
	w.bus.take(0)
	info, err := w.RevokeUser(w.ctx, ana)
	if err != nil || info.Revoked != clock.Millis() {
		t.Fatalf("%+v: %v", info, err)
	}
	if got := w.bus.take(bus.Revoked); len(got) != 1 || got[0] != (bus.Message{Kind: bus.Revoked, User: ana, At: info.Revoked}) {
		t.Errorf("announced %+v", got)
	}
	wantCode(t, "the old token", w.Authorize(w.ctx, old), impart.Unauthenticated)
	wantCode(t, "a token that does not say when it was made", w.Authorize(w.ctx, impart.Identity{User: ana}), impart.Unauthenticated)
	if err := w.Authorize(w.ctx, impart.Identity{User: ana, Issued: clock.Millis()}); err != nil {
		t.Errorf("a new token: %v", err)
	}
	if err := w.Authorize(w.ctx, impart.Identity{User: ben, Issued: old.Issued}); err != nil {
		t.Errorf("another user: %v", err)
	}
}

func TestAnotherNodeLearnsOfARevocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which ten seconds do not pass by themselves
		w := newWorld(t)
		other, err := logic.New(logic.Config{Store: w.store, Bus: w.bus})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		id := impart.Identity{User: ana}
		if err := other.Authorize(w.ctx, id); err != nil {
			t.Fatal(err)
		}
		if _, err := w.PutUser(w.ctx, ana, ptr(true)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantCode(t, "on the other node", other.Authorize(w.ctx, id), impart.Unauthenticated)
	})
}

func TestANodeWhoseBusWasDeafAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := impart.Identity{User: ana}
		if err := w.Authorize(w.ctx, id); err != nil {
			t.Fatal(err)
		}
		epoch, err := w.Epoch(w.ctx)
		if err != nil || epoch != 1 {
			t.Fatalf("epoch %d: %v", epoch, err)
		}
		if _, err := w.store.PutUser(w.ctx, ana, ptr(true), nil); err != nil {
			t.Fatal(err)
		}
		raised, err := w.store.RaiseEpoch(w.ctx, 5)
		if err != nil {
			t.Fatal(err)
		}
		w.bus.Publish(w.ctx, bus.Message{Kind: bus.Missed})
		synctest.Wait()
		wantCode(t, "the user", w.Authorize(w.ctx, id), impart.Unauthenticated)
		if epoch, err = w.Epoch(w.ctx); err != nil || epoch != raised {
			t.Errorf("epoch %d, want %d: %v", epoch, raised, err)
		}
	})
}

// What is known of a user from memory is good for ten seconds, and not for this.
func TestStandingsAreReadFromTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		hello := func(user impart.UserID) impart.Session {
			welcome, err := w.Hello(w.ctx, impart.Hello{Identity: impart.Identity{User: user}, Device: "phone", Install: "x"})
			if err != nil {
				t.Fatal(err)
			}
			return welcome.Session
		}
		older := hello(ana)
		newer, bens := hello(ana), hello(ben)
		const revoked = impart.Millis(1_700_000_000_005)
		stand := func(want ...impart.Standing) {
			t.Helper()
			got, err := w.Standings(w.ctx, []impart.StandingQuery{
				{Session: older, Issued: revoked}, {Session: newer, Issued: revoked}, {Session: newer, Issued: revoked - 1}, {Session: newer}, {Session: bens},
			})
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("standings %v, want %v: %v", got, want, err)
			}
		}
		stand(impart.Superseded, impart.Stands, impart.Stands, impart.Stands, impart.Stands)
		at := revoked
		if _, err := w.store.PutUser(w.ctx, ana, nil, &at); err != nil {
			t.Fatal(err)
		}
		stand(impart.Superseded, impart.Stands, impart.Barred, impart.Barred, impart.Stands)
		if _, err := w.store.PutUser(w.ctx, ana, ptr(true), nil); err != nil {
			t.Fatal(err)
		}
		stand(impart.Barred, impart.Barred, impart.Barred, impart.Barred, impart.Stands)
		if err := w.Authorize(w.ctx, impart.Identity{User: ana}); err != nil {
			t.Errorf("the rules knew already (%v): this story shows nothing", err)
		}
	})
}

// The operator disables a user while their hello commits: its look-up came too
// early and the closing of connections too.
func TestAHelloThatARevocationOvertakesIsRefused(t *testing.T) {
	late := &overtaken{Store: memstore.New(memstore.Options{})}
	w := startWorld(t, late)
	late.meanwhile = func() error { _, err := w.PutUser(w.ctx, ana, ptr(true)); return err }
	_, err := w.Hello(w.ctx, impart.Hello{Identity: impart.Identity{User: ana}, Device: "phone"})
	wantCode(t, "hello", err, impart.Unauthenticated)
}

// overtaken is a store in which something happens between the commit of a hello
// and its answer.
type overtaken struct {
	store.Store
	meanwhile func() error
}

func (o *overtaken) Hello(ctx context.Context, hello store.Hello) (store.Device, error) {
	device, err := o.Store.Hello(ctx, hello)
	return device, errors.Join(err, o.meanwhile())
}

func TestWhatIsKnownOfAUserGrowsOld(t *testing.T) { // a node whose bus was deaf
	w, clock := clocked(t)
	id := impart.Identity{User: ana}
	if err := w.Authorize(w.ctx, id); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.PutUser(w.ctx, ana, ptr(true), nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Authorize(w.ctx, id); err != nil {
		t.Errorf("nobody told this node yet, and it asked the store again: %v", err)
	}
	clock.turn(10 * time.Second)
	wantCode(t, "later", w.Authorize(w.ctx, id), impart.Unauthenticated)
}

func TestTheEpochIsKnownWithinASecond(t *testing.T) {
	w, clock := clocked(t)
	epoch := func() impart.Epoch {
		e, err := w.Epoch(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	if e := epoch(); e != 1 {
		t.Errorf("epoch %d", e)
	}
	w.bus.take(0)
	raised, err := w.RaiseEpoch(w.ctx)
	if err != nil || raised != impart.Epoch(clock.Millis()) {
		t.Fatalf("raised to %d: %v", raised, err)
	}
	if got := w.bus.take(bus.EpochRaised); len(got) != 1 || got[0].Epoch != raised {
		t.Errorf("announced %+v", got)
	}
	if e := epoch(); e != raised {
		t.Errorf("epoch %d", e)
	}
	clock.turn(time.Minute)
	elsewhere, err := w.store.RaiseEpoch(w.ctx, clock.Millis())
	if err != nil {
		t.Fatal(err)
	}
	if e := epoch(); e != elsewhere {
		t.Errorf("epoch %d, another node raised it to %d", e, elsewhere)
	}
	clock.turn(time.Second)
	w.group("c", ana, ben)
	sent := w.try(impart.Send{Sender: ana, Conv: "c", CMID: "m", Epoch: raised})
	wantCode(t, "a send of the older epoch", sent.Err, impart.EpochChanged)
	if e := impart.AsError(sent.Err).Epoch; e != elsewhere {
		t.Errorf("the refusal carries %d", e)
	}
}
