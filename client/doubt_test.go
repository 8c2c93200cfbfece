package client_test

import (
	"slices"
	"testing"
	"time"

	"github.com/impart-im/impart"
)

func TestASentOfAnotherEpochSettlesNothing(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		s.empty()
		a.send(ab, "hi")
		send := s.next("send")
		s.say(`{"t":"sent","rid":%q,"conv":"c-ab","seq":1,"mid":"m1","dup":false,"epoch":7,"at":1}`, send["rid"])
		s.epoch = 7
		sync := s.next("sync") // c-ab is compared
		s.say(`{"t":"synced","rid":%q,"conv":"c-ab","events":[],"through":0,"head":0,"floor":0,"epoch":@epoch,"more":false}`, sync["rid"])
		s.empty()
		again := s.next("send")
		if again["cmid"] != send["cmid"] || again["epoch"] != 7.0 {
			t.Errorf("sent again as %v", again)
		}
	})
}

func TestAnotherEventAtAKnownSeqIsDoubted(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		s.empty()
		s.say(`{"t":"event","ev":%s,"epoch":@epoch}`, event(1, "m1"))
		s.next("ack")
		a.wants(ab, "m1")
		a.send(ab, "hi")
		send := s.next("send")
		s.say(`{"t":"sent","rid":%q,"conv":"c-ab","seq":1,"mid":"other","dup":false,"epoch":@epoch,"at":1}`, send["rid"])
		probe := s.next("sync")
		if probe["after"] != 1.0 || probe["after_mid"] != "m1" {
			t.Errorf("it asks %v", probe)
		}
	})
}

// The epoch moves while a message is under way: the refusal is not the message's.
func TestARefusalForTheEpochKeepsTheItem(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		s.empty()
		a.send(ab, "hi")
		send := s.next("send")
		s.say(`{"t":"error","rid":%q,"code":"EPOCH_CHANGED","message":"new","retry":false,"epoch":9}`, send["rid"])
		s.epoch = 9
		sync := s.next("sync")
		s.say(`{"t":"synced","rid":%q,"conv":"c-ab","events":[],"through":0,"head":0,"floor":0,"epoch":@epoch,"more":false}`, sync["rid"])
		s.empty()
		if again := s.next("send"); again["cmid"] != send["cmid"] {
			t.Errorf("sent again as %v", again)
		}
	})
}

// While histories are compared, nothing of the conversation is stored or sent.
func TestNothingMovesInDoubt(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		s.empty()
		s.say(`{"t":"event","ev":%s,"epoch":@epoch}`, event(1, "m1"))
		s.next("ack")
		s.epoch = 5
		s.say(`{"t":"hint","epoch":5,"head":0,"why":"resume"}`)
		s.next("sync")
		s.say(`{"t":"event","ev":%s,"epoch":5}`, event(2, "new2"))
		a.send(ab, "hi")
		if f := s.any(5 * time.Second); f != nil {
			t.Errorf("in doubt it says %v", f)
		}
		s.Conn.CloseNow()
		// The doubt outlives the connection, and the process.
		a.restart()
		s.welcome(0)
		probe := s.next("sync")
		if probe["after"] != 1.0 || probe["after_mid"] != "m1" {
			t.Errorf("after the restart it asks %v", probe)
		}
	})
}

// A push of the old history that was still on its way is not of the new one.
func TestAnEventOfAnOlderEpochIsNotStored(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		s.empty()
		s.epoch = 5
		s.say(`{"t":"hint","epoch":5,"head":0,"why":"resume"}`)
		s.say(`{"t":"synced","rid":%q,"conv":"c-ab","events":[],"through":0,"head":0,"floor":0,"epoch":5,"more":false}`, s.next("sync")["rid"])
		s.empty()
		s.say(`{"t":"event","ev":%s,"epoch":1}`, event(1, "old1"))
		s.say(`{"t":"event","ev":%s,"epoch":5}`, event(1, "new1"))
		s.next("ack")
		a.wants(ab, "m1")
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.handed[ab][0].MID != "new1" {
			t.Errorf("handed over is %+v", a.handed[ab])
		}
	})
}

// Another's recall was undone: the text that it took from this store is fetched anew.
func TestATextWhoseRecallWasUndoneComesBack(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		s.empty()
		s.say(`{"t":"event","ev":%s,"epoch":@epoch}`, event(1, "m1"))
		a.wants(ab, "m1")
		s.say(`{"t":"event","ev":%s,"epoch":@epoch}`, recallOf(2, 1))
		a.wants(ab, "m1", "-1")
		s.epoch = 5
		s.say(`{"t":"hint","epoch":5,"head":0,"why":"resume"}`)
		f := s.next("sync")
		if f["after"] != 2.0 {
			t.Fatalf("it asks first about %v", f)
		}
		s.otherHistory(f["rid"])
		for f = s.next("sync"); f["after"] != 1.0; f = s.next("sync") {
			s.synced(f["rid"], 0)
		}
		s.synced(f["rid"], 1)
		pull := s.next("pull")
		s.say(`{"t":"pulled","rid":%q,"convs":[{"conv":"c-ab","events":[%s],"through":1,"head":1,"floor":0}],"failed":[],"more":false,"epoch":@epoch}`,
			pull["rid"], event(1, "m1"))
		time.Sleep(time.Second)
		events, err := a.Events(t.Context(), ab, 0, 10)
		must(t, err)
		if len(events) != 1 || events[0].Body != "m1" || events[0].Recalled {
			t.Errorf("the store holds %+v", events)
		}
	})
}

// The answer to a resend does not say that the message was recalled; the log does.
func TestALateAnswerBringsNoRecalledTextBack(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		s.empty()
		a.send(ab, "oops")
		send := s.next("send")
		s.say(`{"t":"event","ev":%s,"epoch":@epoch}`, recallOf(2, 1))
		time.Sleep(time.Second)
		s.say(`{"t":"sent","rid":%q,"conv":"c-ab","seq":1,"mid":"m1","dup":true,"epoch":@epoch,"at":1}`, send["rid"])
		a.wants(ab, "", "-1")
	})
}

// After the histories were compared, the server is told what still holds.
func TestWhatHoldsInTheNewEpochIsAcknowledged(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		s.empty()
		s.say(`{"t":"event","ev":%s,"epoch":@epoch}`, event(1, "m1"))
		s.next("ack")
		s.epoch = 5
		s.say(`{"t":"hint","epoch":5,"head":0,"why":"resume"}`)
		s.synced(s.next("sync")["rid"], 1)
		if ack := s.next("ack"); ack["seq"] != 1.0 || ack["epoch"] != 5.0 {
			t.Errorf("acknowledged by %v", ack)
		}
	})
}

// The handler is at work on an event that the new epoch has undone: what it says
// about it must not count for the event that has taken its place.
func TestAHandOverUnderWayDoesNotCountForTheNewHistory(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		busy, free := make(chan struct{}), make(chan struct{})
		a.mu.Lock()
		a.refuse = func(ev impart.Event) error {
			if ev.MID == "m2" {
				a.mu.Unlock()
				close(busy)
				<-free
				a.mu.Lock()
			}
			return nil
		}
		a.mu.Unlock()
		s.welcome(0)
		s.empty()
		s.say(`{"t":"event","ev":%s,"epoch":@epoch}`, event(1, "m1"))
		s.say(`{"t":"event","ev":%s,"epoch":@epoch}`, event(2, "m2"))
		<-busy
		s.epoch = 5
		s.say(`{"t":"hint","epoch":5,"head":0,"why":"resume"}`)
		s.otherHistory(s.next("sync")["rid"])
		for f := s.next("sync"); ; f = s.next("sync") {
			s.synced(f["rid"], 1)
			if f["after"] == 1.0 {
				break
			}
		}
		pull := s.next("pull")
		close(free)
		time.Sleep(time.Second)
		s.say(`{"t":"pulled","rid":%q,"convs":[{"conv":"c-ab","events":[%s],"through":2,"head":2,"floor":0}],"failed":[],"more":false,"epoch":@epoch}`,
			pull["rid"], event(2, "new2"))
		time.Sleep(time.Minute)
		a.mu.Lock()
		defer a.mu.Unlock()
		var got []impart.MID
		for _, ev := range a.handed[ab] {
			got = append(got, ev.MID)
		}
		if !slices.Equal(got, []impart.MID{"m1", "m2", "new2"}) {
			t.Errorf("handed over was %+v", got)
		}
	})
}

// The server counts the device as new, for whatever reason: it is told what the
// store holds before anything is pulled.
func TestARaisedInstallEpochIsAnsweredWithAcks(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		s.empty()
		s.say(`{"t":"event","ev":%s,"epoch":@epoch}`, event(1, "m1"))
		ack := s.next("ack")
		s.say(`{"t":"acked","rid":%q,"conv":"c-ab","delivered":1}`, ack["rid"])
		time.Sleep(time.Second)
		s.Conn.CloseNow()
		s.install, s.silent = 2, true
		s.welcome(0)
		if again := s.next("ack"); again["seq"] != 1.0 {
			t.Errorf("acknowledged by %v", again)
		}
	})
}

// A message whose conversation was not known yet when the epoch changed.
func TestAMessageToAnUnknownConversationIsPutBackToo(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.silent = true
		s.welcome(0)
		s.empty()
		a.send("c-new", "hi")
		send := s.next("send")
		s.say(`{"t":"sent","rid":%q,"conv":"c-new","seq":3,"mid":"m3","dup":false,"epoch":@epoch,"at":1}`, send["rid"])
		pull := s.next("pull") // where does the log of c-new begin for this device?
		s.epoch = 5
		s.say(`{"t":"hint","epoch":5,"head":0,"why":"resume"}`)
		s.say(`{"t":"error","rid":%q,"code":"EPOCH_CHANGED","message":"new","retry":false,"epoch":5}`, pull["rid"])
		s.empty()
		if again := s.next("send"); again["cmid"] != send["cmid"] {
			t.Errorf("sent again as %v", again)
		}
	})
}

// Found by the campaign: the answer that ends a doubt and a newer epoch were taken
// in one round, and the conversation was never handed over again.
func TestANewerEpochInTheRoundOfAnAnswer(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		s.empty()
		s.say(`{"t":"event","ev":%s,"epoch":@epoch}`, event(1, "m1"))
		s.next("ack")
		a.wants(ab, "m1")
		s.epoch = 5
		s.say(`{"t":"hint","epoch":5,"head":0,"why":"resume"}`)
		first := s.next("sync")
		release := a.Hold()
		s.say(`{"t":"event","ev":{"conv":"c-other","seq":1,"kind":"msg","mid":"o1","sender":"u-ben","cmid":"x","type":"text","body":"o","at":1},"epoch":5}`)
		time.Sleep(time.Second) // the client waits for its store with this one
		s.synced(first["rid"], 1)
		s.epoch = 7
		s.say(`{"t":"hint","epoch":7,"head":0,"why":"resume"}`)
		time.Sleep(time.Second)
		release()
		for again := s.next("sync", "pull"); ; again = s.next("sync", "pull") {
			if again["t"] == "sync" && again["conv"] == "c-ab" && again["epoch"] == 7.0 {
				break
			}
		}
	})
}
