package logic_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/logic"
	"github.com/impart-im/impart/internal/store/memstore"
)

// cluster is some nodes on one database, which can fail over.
type cluster struct {
	t     *testing.T
	nodes []*world
	had   map[*world]float64 // judgements of each node when it was last waited for
}

// names of nodes, in order.
var names = []string{"one", "two", "three"}

// failoverStory runs a story with n nodes in virtual time. The operator vouches, and
// commits wait for a standby, unless the story says otherwise.
func failoverStory(t *testing.T, n int, story func(c *cluster), settings ...func(*logic.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t, had: map[*world]float64{}}
		defer c.close()
		first := memstore.New(memstore.Options{Shared: true})
		first.Replicate(true)
		for i := range n {
			st := first
			if i > 0 {
				st = first.Node()
			}
			c.nodes = append(c.nodes, c.start(names[i], st, settings...))
		}
		c.nodes[0].group("c", ana, ben)
		time.Sleep(3500 * time.Millisecond) // everybody has beaten, and nobody is about to
		story(c)
	})
}

func (c *cluster) close() {
	for _, w := range c.nodes {
		w.close()
	}
}

// start starts a node, which the story closes.
func (c *cluster) start(name string, st *memstore.Store, settings ...func(*logic.Config)) *world {
	c.t.Helper()
	w := &world{
		t: c.t, ctx: context.Background(), store: st, memory: st, bus: &recorder{Local: bus.NewLocal()},
		log: &lockedBuffer{}, registry: prometheus.NewRegistry(),
	}
	cfg := logic.Config{Store: st, Bus: w.bus, Metrics: w.registry, Node: name, Vouched: true, Log: slog.New(slog.NewTextHandler(w.log, nil))}
	for _, set := range settings {
		set(&cfg)
	}
	service, err := logic.New(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	w.Service = service
	return w
}

// failOver promotes a standby, and lets the given nodes reach it.
func failOver(standby memstore.Server, nodes ...*world) {
	standby.Promote()
	for _, w := range nodes {
		w.memory.Reach(standby)
	}
}

// settles waits until each of the nodes has judged once more.
func (c *cluster) settles(within time.Duration, nodes ...*world) {
	c.t.Helper()
	for end := time.Now().Add(within); ; time.Sleep(50 * time.Millisecond) {
		open := ""
		for _, w := range nodes {
			if h := w.history(); w.counts("im_failovers_total") == c.had[w] {
				open += fmt.Sprintf("a node is %s (waiting for %v); its log:\n%s", h.State, h.Waiting, w.log)
			}
		}
		if open == "" {
			break
		}
		if time.Now().After(end) {
			c.t.Fatalf("after %v: %s", within, open)
		}
	}
	for _, w := range nodes {
		c.had[w] = w.counts("im_failovers_total")
	}
}

func (w *world) history() impart.HistoryInfo {
	w.t.Helper()
	h, err := w.History(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

// judged is the last judgement, which must have kept or raised the epoch.
func (w *world) judged(raised bool) impart.JudgementInfo {
	w.t.Helper()
	last := w.history().Last
	if last == nil {
		w.t.Fatalf("nothing was judged; the log:\n%s", w.log)
	}
	if last.Raised != raised {
		w.t.Fatalf("raised: %v (%s), want %v; the log:\n%s", last.Raised, last.Why, raised, w.log)
	}
	return *last
}

func TestAFailoverThatLostNothingKeepsTheEpoch(t *testing.T) {
	failoverStory(t, 2, func(c *cluster) {
		one, two := c.nodes[0], c.nodes[1]
		said := one.say(ana, "c", "before")
		two.say(ben, "c", "before too")
		session := two.device(ben, "d-ben")
		two.ack(session, "c", 2)
		time.Sleep(2 * time.Second)
		failOver(one.memory.Standby(), one, two)
		var e *impart.Error
		if err := one.try(one.message(ana, "c", "meanwhile")).Err; !errors.As(err, &e) || e.Code != impart.Unavailable || e.RetryAfter <= 0 {
			t.Errorf("a send before the judgement got %v, want UNAVAILABLE and when to come back", err)
		}
		c.settles(5*time.Second, c.nodes...)
		for _, w := range c.nodes {
			if got := w.judged(false); got.Missing != 0 || got.Epoch != said.Epoch {
				t.Errorf("judged: %+v", got)
			}
			if n := w.counts("im_lost_acknowledged_total"); n != 0 {
				t.Errorf("%v are counted as lost", n)
			}
		}
		if next := two.say(ben, "c", "after"); next.Seq != 3 || next.Epoch != said.Epoch {
			t.Errorf("the next message is %+v", next)
		}
		if got := one.bus.take(bus.EpochRaised); len(got) != 0 {
			t.Errorf("told: %v", got)
		}
	})
}

func TestAFailoverThatLostMessagesRaisesTheEpochOnceAndNamesThem(t *testing.T) {
	failoverStory(t, 2, func(c *cluster) {
		one, two := c.nodes[0], c.nodes[1]
		kept := one.say(ana, "c", "kept")
		standby := one.memory.Standby()
		gone := []impart.Send{one.message(ana, "c", "gone"), one.message(ana, "c", "gone too")}
		one.Send(one.ctx, gone)
		other := two.message(ben, "c", "gone from the other node")
		lost := two.try(other)
		failOver(standby, one, two)
		c.settles(5*time.Second, c.nodes...)
		first, second := one.judged(true), two.judged(true)
		if first.Epoch != second.Epoch || first.Epoch <= kept.Epoch {
			t.Errorf("epochs %d and %d after %d", first.Epoch, second.Epoch, kept.Epoch)
		}
		if first.Lost != 2 || second.Lost != 1 {
			t.Errorf("lost: %d and %d, want 2 and 1", first.Lost, second.Lost)
		}
		for _, want := range []string{"cmid=" + string(gone[0].CMID), "cmid=" + string(gone[1].CMID), "conv=c seq=3 "} {
			if !strings.Contains(one.log.String(), want) {
				t.Errorf("the log does not tell %q:\n%s", want, one.log)
			}
		}
		if !strings.Contains(two.log.String(), "mid="+string(lost.MID)+" user=u-ben cmid="+string(other.CMID)) {
			t.Errorf("the other's log:\n%s", two.log)
		}
		for _, w := range c.nodes {
			if got := w.bus.take(bus.EpochRaised); len(got) != 1 || got[0].Epoch != first.Epoch {
				t.Errorf("told: %v", got)
			}
		}
		// The resends of what is gone are new messages, in the new epoch.
		for _, send := range gone {
			if again := one.try(send); again.Err != nil || again.Dup || again.Epoch != first.Epoch {
				t.Errorf("the resend got %+v", again)
			}
		}
	})
}

// A node whose clock is set forward by hours has promised lately all the same.
func TestALossIsFoundAfterTheClockWasSet(t *testing.T) {
	var step atomic.Int64
	failoverStory(t, 1, func(c *cluster) {
		one := c.nodes[0]
		standby := one.memory.Standby()
		one.say(ana, "c", "gone")
		step.Store(int64(3 * time.Hour))
		time.Sleep(5 * time.Second) // it has beaten
		failOver(standby, one)
		c.settles(5*time.Second, one)
		if last := one.judged(true); last.Lost != 1 {
			t.Errorf("lost: %d", last.Lost)
		}
	}, func(cfg *logic.Config) {
		cfg.Now = func() time.Time { return time.Now().Add(time.Duration(step.Load())) }
	})
}

func TestWhatWasLostOnceIsNotMissedAgain(t *testing.T) {
	failoverStory(t, 1, func(c *cluster) {
		one := c.nodes[0]
		standby := one.memory.Standby()
		one.say(ana, "c", "gone")
		failOver(standby, one)
		c.settles(5*time.Second, one)
		raised := one.judged(true)
		time.Sleep(2500 * time.Millisecond)
		one.say(ana, "c", "here")
		failOver(one.memory.Standby(), one)
		c.settles(5*time.Second, one)
		if kept := one.judged(false); kept.Epoch != raised.Epoch || one.counts("im_lost_acknowledged_total") != 1 {
			t.Errorf("the second failover: %+v, %v lost in all", kept, one.counts("im_lost_acknowledged_total"))
		}
	})
}

func TestManyLostMessagesFillNoLog(t *testing.T) {
	failoverStory(t, 1, func(c *cluster) {
		one := c.nodes[0]
		standby := one.memory.Standby()
		one.sayMany(ana, "c", 250)
		failOver(standby, one)
		c.settles(5*time.Second, c.nodes...)
		if got := one.judged(true); got.Lost != 250 {
			t.Errorf("lost: %d, want 250", got.Lost)
		}
		if lines := strings.Count(one.log.String(), "acknowledged and gone\""); lines != 100 {
			t.Errorf("%d lines, want 100", lines)
		}
		if !strings.Contains(one.log.String(), "without a line of their own\" count=15") {
			t.Errorf("the log does not tell how many more:\n%s", one.log)
		}
	})
}

func TestWithoutTheOperatorsWordTheEpochIsRaised(t *testing.T) {
	failoverStory(t, 2, func(c *cluster) {
		failOver(c.nodes[0].memory.Standby(), c.nodes...)
		c.settles(5*time.Second, c.nodes...)
		for _, w := range c.nodes {
			if got := w.judged(true); got.Missing != 0 {
				t.Errorf("judged: %+v", got)
			}
		}
	}, func(cfg *logic.Config) { cfg.Vouched = cfg.Node != "two" }) // one that does not vouch is enough
}

func TestTheOperatorsWordDoesNotCountWhereTheDatabaseWaitedForNoStandby(t *testing.T) {
	failoverStory(t, 1, func(c *cluster) {
		one := c.nodes[0]
		one.memory.Replicate(false)
		time.Sleep(3 * time.Second)
		failOver(one.memory.Standby(), one)
		c.settles(5*time.Second, c.nodes...)
		one.judged(true)
		if !strings.Contains(one.log.String(), "IM_REPLICATION=sync does not count") {
			t.Errorf("the log does not tell:\n%s", one.log)
		}
	})
}

func TestANodeThatWasAliveIsWaitedForAndNotForEver(t *testing.T) {
	failoverStory(t, 3, func(c *cluster) {
		one, two := c.nodes[0], c.nodes[1]
		standby := one.memory.Standby()
		began := time.Now()
		failOver(standby, one, two) // the third node's network is cut
		time.Sleep(4 * time.Second)
		if h := one.history(); h.State != impart.HistoryJudging || fmt.Sprint(h.Waiting) != "[three]" {
			t.Errorf("%+v, want that three is waited for", h)
		}
		c.settles(20*time.Second, one, two)
		if took := time.Since(began); took < 10*time.Second || took > 14*time.Second {
			t.Errorf("the judgement took %v", took)
		}
		if got := one.judged(true); !strings.Contains(got.Why, "three") && !strings.Contains(two.judged(true).Why, "three") {
			t.Errorf("judged because %s", got.Why)
		}
	})
}

func TestWhoHasLeftIsNotWaitedForAndWhoCrashedLongAgoNeither(t *testing.T) {
	failoverStory(t, 3, func(c *cluster) {
		one, two, three := c.nodes[0], c.nodes[1], c.nodes[2]
		three.memory.Crash()
		three.close()
		time.Sleep(15 * time.Second)
		two.close() // in good order, just now
		c.nodes = c.nodes[:1]
		failOver(one.memory.Standby(), one)
		c.settles(3*time.Second, one)
		one.judged(false)
	})
}

func TestALateNodeWritesNothingWithWhatItKnewAndCountsItsLosses(t *testing.T) {
	failoverStory(t, 2, func(c *cluster) {
		one, two := c.nodes[0], c.nodes[1]
		standby := one.memory.Standby()
		failOver(standby, one) // two stays with the old primary, as if its part of the network were cut off
		c.settles(20*time.Second, one)
		first := one.judged(true)
		split := two.message(ben, "c", "said to the old primary")
		if sent := two.try(split); sent.Err != nil {
			t.Fatal(sent.Err)
		}
		two.memory.Reach(standby)
		if err := two.try(two.message(ben, "c", "with stale knowledge")).Err; impart.CodeOf(err) != impart.Unavailable {
			t.Errorf("a send of the late node got %v", err)
		}
		c.settles(5*time.Second, two)
		late := two.judged(true)
		if !late.Late || late.Lost != 1 || late.Epoch <= first.Epoch {
			t.Errorf("the late node: %+v, after %+v", late, first)
		}
		if !strings.Contains(two.log.String(), string(split.CMID)) {
			t.Errorf("the log does not name what is lost:\n%s", two.log)
		}
		if next := one.say(ana, "c", "on"); next.Epoch != late.Epoch {
			t.Errorf("the first node writes in epoch %d, and the epoch is %d", next.Epoch, late.Epoch)
		}
	})
}

func TestALateNodeWithoutLossesChangesNothing(t *testing.T) {
	failoverStory(t, 2, func(c *cluster) {
		one, two := c.nodes[0], c.nodes[1]
		two.say(ben, "c", "hi")
		standby := one.memory.Standby()
		two.memory.Cut()
		failOver(standby, one)
		c.settles(20*time.Second, one)
		first := one.judged(true) // nobody knew what two would say
		two.memory.Reach(standby)
		c.settles(20*time.Second, two)
		if late := two.history().Last; !late.Late || late.Missing != 0 || late.Epoch != first.Epoch {
			t.Errorf("the late node: %+v after %+v", late, first)
		}
		if got := two.say(ana, "c", "on"); got.Epoch != first.Epoch || got.Seq != 2 {
			t.Errorf("%+v after %+v", got, first)
		}
	})
}

func TestANodeThatWasPausedThroughTheSwitchIsNotTrusted(t *testing.T) {
	failoverStory(t, 2, func(c *cluster) {
		one, two := c.nodes[0], c.nodes[1]
		standby := one.memory.Standby()
		lost := two.message(ben, "c", "acknowledged, then the pause")
		if sent := two.try(lost); sent.Err != nil {
			t.Fatal(sent.Err)
		}
		// Frozen: nothing of it runs but what the test calls. Its timers are the other
		// side's, so that its store is cut off instead.
		failOver(standby, one)
		c.settles(20*time.Second, one)
		first := one.judged(true)
		two.memory.Reach(standby)
		if err := two.try(two.message(ben, "c", "first thing after it")).Err; impart.CodeOf(err) != impart.Unavailable {
			t.Errorf("the paused node got %v", err)
		}
		c.settles(5*time.Second, two)
		if late := two.judged(true); late.Epoch <= first.Epoch || late.Lost != 1 {
			t.Errorf("late: %+v after %+v", late, first)
		}
	})
}

func TestWhatComesBackFromAHistoryThatIsGoneIsNotAnswered(t *testing.T) {
	failoverStory(t, 1, func(c *cluster) {
		one := c.nodes[0]
		time.Sleep(time.Second)
		standby := one.memory.Standby()
		held := make(chan struct{})
		one.memory.OnCommit(nil, func() error { <-held; return nil })
		answer := make(chan impart.Sent)
		send := one.message(ana, "c", "committed on the old primary")
		go func() { answer <- one.try(send) }()
		synctest.Wait()
		one.memory.OnCommit(nil, nil)
		failOver(standby, one)
		c.settles(5*time.Second, c.nodes...)
		one.judged(false) // nobody was told of the message: it is no loss
		close(held)
		if got := <-answer; impart.CodeOf(got.Err) != impart.Unavailable {
			t.Errorf("the sender got %+v for a message that is gone, want UNAVAILABLE", got)
		}
		if again := one.try(send); again.Err != nil || again.Dup || again.Seq != 1 {
			t.Errorf("the resend got %+v", again)
		}
	})
}

func TestKeptAnswersAreNotGivenBeforeTheJudgement(t *testing.T) {
	failoverStory(t, 1, func(c *cluster) {
		one := c.nodes[0]
		standby := one.memory.Standby()
		send := one.message(ana, "c", "kept in front of the store")
		first := one.try(send)
		failOver(standby, one)
		if got := one.try(send); impart.CodeOf(got.Err) != impart.Unavailable {
			t.Errorf("the resend got %+v from a history that nobody has judged", got)
		}
		c.settles(5*time.Second, c.nodes...)
		if got := one.try(send); got.Err != nil || got.Dup || got.Epoch <= first.Epoch {
			t.Errorf("after the judgement the resend got %+v", got)
		}
	})
}

// TestLosses: each kind of promise is looked up by itself.
func TestLosses(t *testing.T) {
	for what, act := range map[string]func(w *world, ben impart.Session){
		"cursor":  func(w *world, s impart.Session) { w.ack(s, "c", 1) },
		"session": func(w *world, _ impart.Session) { w.device(ben, "d-ben") },
		"read": func(w *world, s impart.Session) {
			if _, err := w.Read(w.ctx, impart.Read{Session: s, Conv: "c", Seq: 1}); err != nil {
				w.t.Fatal(err)
			}
		},
		"change": func(w *world, _ impart.Session) {
			if _, err := w.PutMember(w.ctx, "c", impart.Member{User: cy}); err != nil {
				w.t.Fatal(err)
			}
		},
		"beat": func(*world, impart.Session) { time.Sleep(3 * time.Second) },
		// The sender was told nothing, and somebody has read it.
		"shown": func(w *world, _ impart.Session) {
			w.memory.OnCommit(nil, func() error { return errors.New("the answer is lost") })
			w.try(w.message(ana, "c", "read and never answered"))
			w.memory.OnCommit(nil, nil)
			w.sees(ben, "c")
		},
	} {
		t.Run(what, func(t *testing.T) {
			failoverStory(t, 1, func(c *cluster) {
				one := c.nodes[0]
				one.say(ana, "c", "hi")
				session := one.device(ben, "d-ben")
				standby := one.memory.Standby()
				act(one, session)
				failOver(standby, one)
				c.settles(5*time.Second, c.nodes...)
				if got := one.judged(true); got.Missing != 1 || got.Lost != 0 {
					t.Errorf("judged: %+v", got)
				}
				if !strings.Contains(one.log.String(), "what="+what) {
					t.Errorf("the log:\n%s", one.log)
				}
			})
		})
	}
}

func TestAnOlderPrimaryIsNotGoneBackTo(t *testing.T) {
	failoverStory(t, 1, func(c *cluster) {
		one := c.nodes[0]
		old, standby := one.memory.Server(), one.memory.Standby()
		failOver(standby, one)
		c.settles(5*time.Second, c.nodes...)
		kept := one.judged(false)
		one.memory.Reach(old) // it thaws, and the address leads there
		if err := one.try(one.message(ana, "c", "to the old primary")).Err; impart.CodeOf(err) != impart.Unavailable {
			t.Errorf("a send to the old primary got %v", err)
		}
		time.Sleep(5 * time.Second)
		one.memory.Reach(standby)
		if sent := one.say(ana, "c", "on"); sent.Epoch != kept.Epoch || sent.Seq != 1 {
			t.Errorf("back on the new one: %+v", sent)
		}
	})
}

func TestNobodyIsServedBeforeTheJudgement(t *testing.T) {
	failoverStory(t, 2, func(c *cluster) {
		one, two := c.nodes[0], c.nodes[1]
		_, session := one.say(ana, "c", "hi"), one.device(ben, "d-ben")
		standby := one.memory.Standby()
		two.memory.Cut()
		failOver(standby, one) // which has to wait for two
		after := impart.Seq(0)
		_, syncErr := one.Sync(one.ctx, impart.Sync{User: ben, Conv: "c", After: &after, Limit: 1})
		_, pullErr := one.Pull(one.ctx, impart.Pull{Session: session, Limit: 1})
		_, rangeErr := one.Range(one.ctx, "c", 1, 1)
		for what, err := range map[string]error{
			"sync": syncErr, "pull": pullErr, "range": rangeErr,
			"ack": one.Ack(one.ctx, impart.Ack{Session: session, Items: []impart.AckItem{{Conv: "c", Seq: 1}}})[0].Err,
		} {
			wantCode(t, what, err, impart.Unavailable)
		}
		two.memory.Reach(standby)
		c.settles(10*time.Second, one, two)
		one.judged(false)
		one.sees(ben, "c")
	})
}

func TestAKeptAnswerThatAJudgementOvertakesIsNotGiven(t *testing.T) {
	failoverStory(t, 1, func(c *cluster) {
		one := c.nodes[0]
		standby := one.memory.Standby()
		again, next := one.message(ana, "c", "kept in front of the store"), one.message(ana, "c", "next")
		if sent := one.try(again); sent.Err != nil {
			t.Fatal(sent.Err)
		}
		// The resend is answered from memory, and waits for what comes with it.
		held := make(chan struct{})
		one.memory.OnCommit(func() error { <-held; return nil }, nil)
		answers := make(chan []impart.Sent)
		go func() { answers <- one.Send(one.ctx, []impart.Send{again, next}) }()
		synctest.Wait()
		one.memory.OnCommit(nil, nil)
		failOver(standby, one)
		c.settles(5*time.Second, one)
		one.judged(true)
		close(held)
		for i, got := range <-answers {
			if got.Err == nil && got.Epoch != one.history().Epoch {
				t.Errorf("answer %d is %+v, of a history that is gone", i+1, got)
			}
		}
	})
}
