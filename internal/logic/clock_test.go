package logic_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/logic"
	"github.com/impart-im/impart/internal/store"
	"github.com/impart-im/impart/internal/store/memstore"
)

// ahead puts a node's own clock ahead of the store's.
func ahead(by time.Duration) func(*logic.Config) {
	return func(cfg *logic.Config) { cfg.Now = func() time.Time { return time.Now().Add(by) } }
}

// twoClocks are two nodes of one store, the second of which has a clock that is off.
func twoClocks(t *testing.T, off time.Duration, story func(right, wrong *world), settings ...func(*logic.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(memstore.Options{Shared: true})
		c := &cluster{t: t}
		right := c.start("right", st, settings...)
		wrong := c.start("wrong", st.Node(), append(settings, ahead(off))...)
		defer right.close()
		defer wrong.close()
		right.group("c", ana, ben)
		story(right, wrong)
	})
}

func TestTheTimesOfALogAscendWhateverTheClocksOfTheNodes(t *testing.T) {
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		twoClocks(t, off, func(right, wrong *world) {
			for range 3 {
				for _, node := range []*world{right, wrong} {
					began := impart.Millis(time.Now().UnixMilli())
					if sent := node.say(ana, "c", "hi"); sent.At != began {
						t.Errorf("%v off: stamped %d ms from the store's clock", off, sent.At-began)
					}
					time.Sleep(7 * time.Second)
				}
			}
			events := right.sees(ben, "c")
			for i := range events[1:] {
				if was, ev := events[i], events[i+1]; ev.At < was.At || ev.MID <= was.MID {
					t.Errorf("%v off: event %d has %d and %s, after %d and %s", off, ev.Seq, ev.At, ev.MID, was.At, was.MID)
				}
			}
			now := impart.Millis(time.Now().UnixMilli())
			welcome := wrong.hello(impart.Hello{Identity: impart.Identity{User: ben}, Device: "phone", Install: "i"})
			if welcome.Now != now {
				t.Errorf("%v off: a client is told a time that is %d ms off", off, welcome.Now-now)
			}
			epoch, err := wrong.RaiseEpoch(wrong.ctx)
			if err != nil || epoch != impart.Epoch(now) {
				t.Errorf("%v off: the epoch is %d at %d, %v", off, epoch, now, err)
			}
		})
	}
}

func TestARevocationCountsByTheStoresClock(t *testing.T) {
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		twoClocks(t, off, func(right, wrong *world) {
			token := func() impart.Identity {
				return impart.Identity{User: ben, Issued: impart.Millis(time.Now().UnixMilli())}
			}
			before := token()
			time.Sleep(time.Second)
			if _, err := wrong.RevokeUser(wrong.ctx, ben); err != nil {
				t.Fatal(err)
			}
			wantCode(t, "a token of before", wrong.Authorize(wrong.ctx, before), impart.Unauthenticated)
			time.Sleep(11 * time.Second) // what the other node knows of a user is forgotten
			wantCode(t, "a token of before, at the other node", right.Authorize(right.ctx, before), impart.Unauthenticated)
			for _, node := range []*world{right, wrong} {
				if err := node.Authorize(node.ctx, token()); err != nil {
					t.Errorf("%v off: a new token: %v", off, err)
				}
			}
		})
	}
}

func TestAFastClockRemovesNothingThatIsYoung(t *testing.T) {
	keep := func(cfg *logic.Config) { cfg.Retention, cfg.DedupRetention = 40*time.Second, 40*time.Second }
	for _, off := range []time.Duration{50 * time.Second, time.Hour, 24 * time.Hour} {
		twoClocks(t, off, func(right, wrong *world) {
			if err := right.Close(); err != nil { // the wrong one cleans alone
				t.Fatal(err)
			}
			young := wrong.message(ana, "c", "young")
			wrong.try(young)
			time.Sleep(15 * time.Second)
			if n := len(wrong.sees(ben, "c")); n != 1 {
				t.Errorf("%v ahead: %d events after 15 s, want the message", off, n)
			}
			if sent := wrong.try(young); !sent.Dup {
				t.Errorf("%v ahead: a resend got %+v", off, sent)
			}
			time.Sleep(2 * time.Minute)
			paused := off > time.Minute
			if n := len(wrong.sees(ben, "c")); (n == 1) != paused {
				t.Errorf("%v ahead: %d events after two minutes", off, n)
			}
			if told := strings.Contains(wrong.log.String(), "clock and this machine's are"); told != paused {
				t.Errorf("%v ahead: the log: %s", off, wrong.log)
			}
		}, keep)
	}
}

// clockless is a store whose clock can stop answering.
type clockless struct {
	store.Store
	broken atomic.Bool
}

func (c *clockless) Vitals(ctx context.Context) (store.Vitals, error) {
	if c.broken.Load() {
		return store.Vitals{}, errors.New("the database does not answer")
	}
	return c.Store.Vitals(ctx)
}

func TestTimeGoesOnWhileTheStoresClockCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := memstore.New(memstore.Options{Shared: true})
		st := &clockless{Store: memory}
		w := (&cluster{t: t}).start("a", memory, ahead(time.Hour), func(cfg *logic.Config) { cfg.Store, cfg.Retention = st, time.Minute })
		defer w.close()
		w.group("c", ana, ben)
		st.broken.Store(true)
		time.Sleep(5 * time.Minute)
		if sent := w.say(ana, "c", "hi"); sent.At != impart.Millis(time.Now().UnixMilli()) {
			t.Errorf("stamped %d at %d", sent.At, time.Now().UnixMilli())
		}
		time.Sleep(5 * time.Minute)
		if n := len(w.sees(ben, "c")); n != 1 {
			t.Errorf("%d events are left, although nobody knows how old they are", n)
		}
		_, err := w.RevokeUser(w.ctx, ben)
		wantCode(t, "a revocation at a time that is not known", err, impart.Unavailable)
		if _, err := w.User(w.ctx, ben); impart.CodeOf(err) != impart.NotFound {
			t.Errorf("it was written nevertheless: %v", err)
		}
		st.broken.Store(false)
		time.Sleep(2 * time.Minute)
		if n := len(w.sees(ben, "c")); n != 1 { // the machine's clock is an hour off
			t.Errorf("%d events are left", n)
		}
	})
}
