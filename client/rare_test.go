package client_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/impart-im/impart/client"
)

func TestStaleInstallWaitsForTheBye(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		s.empty()
		a.send(ab, "hi")
		s.say(`{"t":"error","rid":%q,"code":"STALE_INSTALL","message":"reinstalled","retry":false}`, s.next("send")["rid"])
		time.Sleep(time.Second)
		s.say(`{"t":"bye","code":"SUPERSEDED","reconnect_after_ms":0,"final":true}`)
		time.Sleep(time.Hour)
		if status := a.Status(); status.State != client.Stopped {
			t.Errorf("the client is %+v: two devices would throw each other out for ever", status)
		}
	})
}

func TestAStaleInstallWithoutAByeEnds(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		s.empty()
		a.send(ab, "hi")
		s.say(`{"t":"error","rid":%q,"code":"STALE_INSTALL","message":"reinstalled","retry":false}`, s.next("send")["rid"])
		s.welcome(0) // it comes back, for nobody said that it must not
		s.empty()
		s.next("send")
	})
}

func TestTheCloseCodeStandsForALostBye(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		must(t, s.Conn.Close(4001, ""))
		time.Sleep(time.Hour)
		if status := a.Status(); status.State != client.Stopped {
			t.Errorf("the client is %+v", status)
		}
	})
}

func TestWhatIsNotKnownIsPassedOver(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		s.empty()
		for _, odd := range []string{`{"t":"news","x":1}`, `{`, `{"t":"sent","rid":"nobody","conv":"c-ab","seq":1,"mid":"m","dup":false,"epoch":1,"at":1}`, `{"t":"pong","rid":"?"}`} {
			s.say("%s", odd)
		}
		s.say(`{"t":"event","ev":{"conv":"c-ab","seq":1,"kind":"react","mid":"m1","sender":"u-ben","cmid":"x","at":1,"new":[1]},"epoch":@epoch}`)
		if ack := s.next("ack"); ack["seq"] != 1.0 {
			t.Errorf("an event of an unknown kind is acknowledged by %v", ack)
		}
		a.send(ab, "hi")
		s.say(`{"t":"error","rid":%q,"code":"NEW_CODE","message":"later","retry":true}`, s.next("send")["rid"])
		s.say(`{"t":"error","rid":%q,"code":"NEW_CODE","message":"never","retry":false}`, s.next("send")["rid"])
		a.through()
		list, err := a.Refused(t.Context())
		must(t, err)
		if len(list) != 1 || list[0].Err.Code != "NEW_CODE" {
			t.Errorf("refused: %+v", list)
		}
	})
}

func TestAHeadThatIsNotThereIsNotAskedForEver(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		s.empty()
		s.say(`{"t":"hint","conv":"c-ab","head":5,"epoch":@epoch,"why":"sweep"}`)
		syncs := 0
		for f := s.any(10 * time.Minute); f != nil && syncs < 100; f = s.any(10 * time.Minute) {
			switch f["t"] {
			case "sync":
				syncs++
				s.say(`{"t":"synced","rid":%q,"conv":"c-ab","events":[],"through":3,"head":3,"floor":0,"epoch":@epoch,"more":false}`, f["rid"])
			case "ping":
				s.say(`{"t":"pong","rid":%q}`, f["rid"])
				if f := s.any(time.Hour); f == nil || f["t"] != "ping" {
					t.Fatalf("after a ping comes %v", f)
				}
				return
			}
		}
		if syncs > 2 {
			t.Errorf("%d syncs", syncs)
		}
	})
}

// A lane that is refused waits for what is under way, and sends nothing twice at a time.
func TestARefusedRowStopsAsAWhole(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		s.empty()
		var cmids []string
		for _, text := range numbered("m", 3) {
			cmids = append(cmids, string(a.send(ab, text)))
		}
		var rids, prevs []any
		for range 3 {
			f := s.next("send")
			rids, prevs = append(rids, f["rid"]), append(prevs, f["prev"])
		}
		if prevs[0] != nil || prevs[1] != cmids[0] || prevs[2] != cmids[1] {
			t.Errorf("linked as %v", prevs)
		}
		s.say(`{"t":"error","rid":%q,"code":"UNAVAILABLE","message":"later","retry":true}`, rids[0])
		if f := s.any(5 * time.Second); f != nil {
			t.Errorf("with two under way it says %v", f)
		}
	})
}

// A device that starts near the head holds older events: a pull that begins above
// them says nothing about what is in between.
func TestAPullThatLeavesAGapIsNotTrusted(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		s.empty()
		s.say(`{"t":"event","ev":%s,"epoch":@epoch}`, event(1, "m1"))
		s.next("ack")
		s.say(`{"t":"hint","epoch":@epoch,"head":0,"why":"overflow"}`)
		s.say(`{"t":"pulled","rid":%q,"convs":[{"conv":"c-ab","events":[%s],"through":9,"head":9,"floor":0}],"failed":[],"more":true,"epoch":@epoch}`,
			s.next("pull")["rid"], event(9, "m9"))
		sync := s.next("sync") // and no pull, which would give the same page
		if sync["after"] != 1.0 {
			t.Errorf("it asks %v", sync)
		}
		s.say(`{"t":"synced","rid":%q,"conv":"c-ab","events":[%s,%s],"through":9,"head":9,"floor":0,"epoch":@epoch,"more":false}`, sync["rid"], event(4, "m4"), event(9, "m9"))
		a.wants(ab, "m1", "m4", "m9")
	})
}

func TestAReadThatIsRefusedIsNotToldForEver(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		s.empty()
		s.say(`{"t":"event","ev":%s,"epoch":@epoch}`, event(1, "m1"))
		s.next("ack")
		must(t, a.Read(t.Context(), ab, 1))
		s.say(`{"t":"error","rid":%q,"code":"UNAVAILABLE","message":"later","retry":true}`, s.next("read")["rid"])
		s.say(`{"t":"error","rid":%q,"code":"NOT_MEMBER","message":"no","retry":false}`, s.next("read")["rid"])
		synctest.Wait() // until the client has taken it
		a.restart()
		s.welcome(1)
		s.empty()
		for f := s.any(20 * time.Second); f != nil; f = s.any(20 * time.Second) {
			if f["t"] == "read" {
				t.Errorf("told again: %v", f)
			}
		}
	})
}

func TestARetryableRefusalIsNotAskedAgainAtOnce(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(3)
		s.empty()
		counts := map[any]int{}
		began := time.Now()
		for time.Since(began) < 10*time.Second {
			f := s.any(5 * time.Second)
			if f == nil {
				break
			}
			counts[f["t"]]++
			s.say(`{"t":"error","rid":%q,"code":"UNAVAILABLE","message":"later","retry":true}`, f["rid"])
		}
		if counts["sync"] < 4 || counts["sync"] > 20 {
			t.Errorf("in ten seconds of refusals the client has asked %v times", counts)
		}
	})
}

// What the server has forgotten is told again: after a hint, and after a pull, of
// what is here already.
func TestWhatIsHereIsAcknowledgedAgain(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		s.empty()
		acked := func() {
			t.Helper()
			f := s.next("ack")
			if f["seq"] != 1.0 {
				t.Fatalf("acknowledged by %v", f)
			}
			s.say(`{"t":"acked","rid":%q,"conv":"c-ab","delivered":1}`, f["rid"])
		}
		s.say(`{"t":"event","ev":%s,"epoch":@epoch}`, event(1, "m1"))
		acked()
		s.say(`{"t":"hint","conv":"c-ab","head":1,"epoch":@epoch,"why":"retry"}`)
		acked()
		s.say(`{"t":"hint","epoch":@epoch,"head":0,"why":"overflow"}`)
		s.say(`{"t":"pulled","rid":%q,"convs":[{"conv":"c-ab","events":[%s],"through":1,"head":1,"floor":0}],"failed":[],"more":true,"epoch":@epoch}`,
			s.next("pull")["rid"], event(1, "m1"))
		acked()
		s.empty()
	})
}

// A server that says nothing at all any more is left: soon where a reply is due,
// and after a ping where none is.
func TestASilentServerIsLeft(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		s.empty()
		began := time.Now()
		s.next("ping")
		if quiet := time.Since(began); quiet < 30*time.Second || quiet > 45*time.Second {
			t.Errorf("the ping comes after %v of silence; the heartbeat is 25 s", quiet)
		}
		s.welcome(0)
		if took := time.Since(began); took > time.Minute {
			t.Errorf("left after %v", took)
		}
		s.empty()
		began = time.Now()
		a.send(ab, "hi")
		s.next("send")
		s.welcome(0)
		if took := time.Since(began); took > 12*time.Second {
			t.Errorf("with a reply due, left after %v", took)
		}
	})
}

func TestARefusedAckIsNotToldAgainAtOnce(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		s.empty()
		s.say(`{"t":"event","ev":%s,"epoch":@epoch}`, event(1, "m1"))
		acks := 0
		for began := time.Now(); time.Since(began) < 10*time.Second; {
			if f := s.any(5 * time.Second); f != nil && f["t"] == "ack" {
				acks++
				s.say(`{"t":"error","rid":%q,"code":"OVERLOADED","message":"later","retry":true,"retry_after_ms":2000}`, f["rid"])
			}
		}
		if acks < 3 || acks > 6 {
			t.Errorf("%d acks in 10 s at a server that asks for 2 s", acks)
		}
	})
}

// A pull gives the same page until it is acknowledged, so that the next one waits.
func TestTheNextPullWaitsForTheAck(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(2)
		s.say(`{"t":"pulled","rid":%q,"convs":[{"conv":"c-ab","events":[%s],"through":1,"head":2,"floor":0}],"failed":[],"more":true,"epoch":@epoch}`,
			s.next("pull")["rid"], event(1, "m1"))
		ack := s.next("ack")
		if f := s.any(5 * time.Second); f != nil {
			t.Errorf("before the ack is answered it says %v", f)
		}
		s.Conn.CloseNow()
		// The server has not got that ack: it is told at once where this store stands.
		s.welcome(2)
		if again := s.next("ack"); again["seq"] != 1.0 || again["n"] != ack["n"] {
			t.Errorf("acknowledged again by %v, after %v", again, ack)
		}
	})
}

// n is in the store: a restart must not look like a store that went back in time.
func TestTheWriteCounterSurvives(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		s.empty()
		for i := range 3 {
			s.say(`{"t":"event","ev":%s,"epoch":@epoch}`, event(i+1, fmt.Sprint("m", i+1)))
			time.Sleep(time.Second)
		}
		for range 2 {
			s.next("ack")
		}
		n := s.next("ack")["n"]
		a.restart()
		s.Conn = <-s.conns
		if hello := s.next("hello"); hello["n"] != n || n == 0.0 {
			t.Errorf("hello with n=%v after an ack with n=%v", hello["n"], n)
		}
	})
}

func TestASentForAnotherConversationSettlesNothing(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		s.empty()
		a.send(ab, "hi")
		s.say(`{"t":"sent","rid":%q,"conv":"c-other","seq":1,"mid":"m1","dup":false,"epoch":@epoch,"at":1}`, s.next("send")["rid"])
		time.Sleep(time.Second)
		list, err := a.Outbox(t.Context())
		must(t, err)
		if len(list) != 1 {
			t.Errorf("the outbox is %+v", list)
		}
	})
}
