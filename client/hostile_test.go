package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// later waits in virtual time for what a handler or a call in another goroutine does.
func later(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// listen reads all further frames; a time without one does not end the connection,
// as it does with any.
func (s *scripted) listen() <-chan map[string]any {
	frames, conn := make(chan map[string]any), s.Conn
	go func() {
		defer close(frames)
		for {
			_, data, err := conn.Read(s.t.Context())
			if err != nil {
				return
			}
			var f map[string]any
			if json.Unmarshal(data, &f) != nil {
				return
			}
			select {
			case frames <- f:
			case <-s.done:
				return
			}
		}
	}()
	return frames
}

// A refusal may come when the request has been given up already.
func TestALateRefusalOfACallIsPassedOver(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		s.empty()
		failed := make(chan error, 1)
		go func() {
			_, err := a.History(t.Context(), ab, 5, 10)
			failed <- err
		}()
		sync := s.next("sync")
		for range 3 { // the server is alive and slow
			time.Sleep(4 * time.Second)
			s.say(`{"t":"typing","conv":"c-ab","user":"u-ben"}`)
		}
		if err := <-failed; err == nil {
			t.Error("a call without a reply has succeeded")
		}
		s.say(`{"t":"error","rid":%q,"code":"UNAVAILABLE","message":"too late","retry":true}`, sync["rid"])
		s.say(`{"t":"event","ev":%s,"epoch":1}`, event(1, "m1"))
		a.wants(ab, "m1")
	})
}

// A reply that is not what its request asks for answers nothing: the client
// neither dies of it nor waits for ever.
func TestAReplyOfAnotherKindAnswersNothing(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(1)
		pull := s.next("pull")
		wrong := func(rid any) {
			s.say(`{"t":"synced","rid":%q,"conv":"c-ab","events":[],"through":9,"head":9,"floor":0,"epoch":1,"more":false}`, rid)
			s.say(`{"t":"acked","rid":%q,"conv":"c-ab","delivered":0}`, rid)
			s.say(`{"t":"readed","rid":%q,"conv":"c-ab","read":0}`, rid)
			s.say(`{"t":"sent","rid":%q,"conv":"c-ab","seq":9,"mid":"m9","dup":false,"epoch":1,"at":1}`, rid)
			s.say(`{"t":"whos","rid":%q,"conv":"c-ab","seq":1,"users":[],"more":false}`, rid)
			s.say(`{"t":"convs","rid":%q,"convs":[],"more":false,"epoch":1}`, rid)
			s.say(`{"t":"pong","rid":%q}`, rid)
			s.say(`{"t":"subbed","rid":%q,"convs":[],"more":false,"epoch":1}`, rid)
		}
		wrong(pull["rid"])
		s.say(`{"t":"pulled","rid":%q,"convs":[],"failed":[],"more":false,"epoch":1}`, pull["rid"])
		sync := s.next("sync")
		s.say(`{"t":"pulled","rid":%q,"convs":[],"failed":[],"more":false,"epoch":1}`, sync["rid"])
		s.synced(sync["rid"], 1, event(1, "m1"))
		a.wants(ab, "m1")
		a.send(ab, "mine")
		send := s.next("send")
		wrong2 := func(rid any) {
			s.say(`{"t":"pulled","rid":%q,"convs":[],"failed":[],"more":false,"epoch":1}`, rid)
			s.say(`{"t":"acked","rid":%q,"conv":"c-ab","delivered":0}`, rid)
			s.say(`{"t":"pong","rid":%q}`, rid)
		}
		wrong2(send["rid"])
		s.say(`{"t":"sent","rid":%q,"conv":"c-ab","seq":2,"mid":"m2","dup":false,"epoch":1,"at":1}`, send["rid"])
		a.through()
	})
}

// Neither does an application that asks.
func TestACallWithAnotherReplyIsAnError(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		s.empty()
		for _, ask := range []func() error{
			func() error { _, err := a.Who(t.Context(), ab, 1, ""); return err },
			func() error { _, err := a.List(t.Context(), "", 5); return err },
			func() error { _, err := a.History(t.Context(), ab, 1, 5); return err },
		} {
			for _, reply := range []string{
				`{"t":"synced","rid":%q,"conv":"c-ab","events":[],"through":9,"head":9,"floor":0,"epoch":1,"more":false}`,
				`{"t":"whos","rid":%q,"conv":"c-ab","seq":1,"users":[],"more":false}`,
				`{"t":"convs","rid":%q,"convs":[],"more":false,"epoch":1}`,
			} {
				got := make(chan error, 1)
				go func() { got <- ask() }()
				s.say(reply, s.next("who", "convs", "sync")["rid"])
				<-got // an error where it does not fit; the process lives in any case
			}
		}
	})
}

// A page that speaks of another conversation than was asked for moves nothing.
func TestAPageOfAnotherConversationMovesNothing(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(1)
		s.empty()
		sync := s.next("sync")
		s.say(`{"t":"synced","rid":%q,"conv":"c-zz","events":[],"through":7,"head":7,"floor":0,"epoch":1,"more":false}`, sync["rid"])
		sync = s.next("sync")
		s.synced(sync["rid"], 1, `{"conv":"c-zz","seq":1,"kind":"msg","mid":"z1","sender":"u-ben","cmid":"z","type":"text","body":"not here","at":1}`)
		time.Sleep(time.Second)
		list, err := a.Conversations(t.Context())
		must(t, err)
		for _, c := range list {
			if c.Conv == ab && c.Stored > 1 || c.Conv == "c-zz" {
				t.Errorf("%+v", c)
			}
		}
	})
}

// A broken server must not silence its clients for a day, whatever it says that with.
func TestNobodyIsSilencedForADay(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, _ *app) {
		s.Conn = <-s.conns
		hello := s.next("hello")
		s.say(`{"t":"error","rid":%q,"code":"OVERLOADED","message":"no","retry":true,"retry_after_ms":86400000}`, hello["rid"])
		began := time.Now()
		s.Conn = <-s.conns
		if waited := time.Since(began); waited > 6*time.Minute {
			t.Errorf("the client came back after %v", waited)
		}
	})
}

// Limits that a server names and that would stop a client count as the smallest
// that work.
func TestOddLimits(t *testing.T) {
	for _, limits := range []string{`{}`, `{"inflight":1,"ack_every":1,"heartbeat_ms":1}`, `{"inflight":0,"ack_every":0,"heartbeat_ms":0}`,
		`{"inflight":-5,"ack_every":-1,"heartbeat_ms":86400000}`} {
		withScripted(t, func(t *testing.T, s *scripted, a *app) {
			s.Conn = <-s.conns
			hello := s.next("hello")
			s.say(`{"t":"welcome","rid":%q,"user":"u-ana","device":"d-ana","install_epoch":1,"conn":"1","epoch":1,"now":1,"n":0,"features":[],
				"limits":%s}`, hello["rid"], limits)
			s.say(`{"t":"subbed","rid":%q,"convs":[],"more":false,"epoch":1}`, s.next("sub")["rid"])
			s.empty()
			a.send(ab, "hi")
			pings := 0
			for {
				f := s.next("send", "ping")
				if f["t"] == "send" {
					s.say(`{"t":"sent","rid":%q,"conv":"c-ab","seq":1,"mid":"m1","dup":false,"epoch":1,"at":1}`, f["rid"])
					break
				}
				s.say(`{"t":"pong","rid":%q}`, f["rid"])
				if pings++; pings > 100 {
					t.Fatalf("with limits %s the client does nothing but ping", limits)
				}
			}
			a.through()
			minute := time.After(time.Minute)
			for frames, open := s.listen(), true; open; {
				select {
				case f, more := <-frames:
					if !more {
						t.Fatalf("with limits %s the connection ends: %+v", limits, a.Status())
					}
					switch f["t"] {
					case "ping":
						pings++
						s.say(`{"t":"pong","rid":%q}`, f["rid"])
					case "ack":
						s.say(`{"t":"acked","rid":%q,"conv":"c-ab","delivered":1}`, f["rid"])
					case "pull":
						s.say(`{"t":"pulled","rid":%q,"convs":[],"failed":[],"more":false,"epoch":1}`, f["rid"])
					case "sync":
						s.synced(f["rid"], 1)
					}
				case <-minute:
					open = false
				}
			}
			if pings > 70 {
				t.Errorf("with limits %s there were %d pings in a minute", limits, pings)
			}
		})
	}
}

// A server that refuses every ack offers the same page again and again. That costs
// it a request now and then, not all the time.
func TestAPageThatComesForEverIsAskedForSlowly(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(1)
		pulls, end := 0, time.Now().Add(30*time.Second)
		for f := range s.listen() {
			if time.Now().After(end) || pulls > 1000 {
				break
			}
			switch f["t"] {
			case "pull":
				pulls++
				s.say(`{"t":"pulled","rid":%q,"convs":[{"conv":"c-ab","events":[%s],"through":1,"head":1,"floor":0}],"failed":[],"more":true,"epoch":1}`,
					f["rid"], event(1, "m1"))
			case "ack":
				s.say(`{"t":"acked","rid":%q,"acks":[{"conv":"c-ab","code":"NOT_MEMBER"}]}`, f["rid"])
			case "ping":
				s.say(`{"t":"pong","rid":%q}`, f["rid"])
			}
		}
		if pulls > 60 {
			t.Errorf("%d pulls in 30 s", pulls)
		}
		a.wants(ab, "m1")
	})
}

// Acks that get no answer do not pile up: each is for all that is stored.
func TestAcksWithoutAnAnswerDoNotPileUp(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		s.empty()
		acks, frames := 0, s.listen()
		for seq := 1; seq <= 500; seq++ {
			s.say(`{"t":"event","ev":%s,"epoch":1}`, event(seq, fmt.Sprint("m", seq)))
			select {
			case f := <-frames:
				if f["t"] == "ack" {
					acks++
				}
			case <-time.After(time.Millisecond):
			}
		}
		if acks > 20 {
			t.Errorf("%d acks are under way", acks)
		}
		a.wants(ab, numbered("m", 500)...)
	})
}

// What was true in an older epoch says nothing of where a log begins in this one.
func TestASubbedOfAnOlderEpochBeginsNothing(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.Conn = <-s.conns
		hello := s.next("hello")
		s.say(`{"t":"welcome","rid":%q,"user":"u-ana","device":"d-ana","install_epoch":1,"conn":"1","epoch":1,"now":1,"n":0,"features":[],
			"limits":{"body":65536,"frame":1048576,"inflight":1024,"ack_every":4,"heartbeat_ms":25000}}`, hello["rid"])
		sub := s.next("sub")
		s.say(`{"t":"hint","epoch":2,"why":"resume"}`)
		s.say(`{"t":"subbed","rid":%q,"convs":[{"conv":"c-ab","head":50,"delivered":50,"read":50,"floor":0}],"more":false,"epoch":1}`, sub["rid"])
		s.epoch = 2
		s.say(`{"t":"pulled","rid":%q,"convs":[{"conv":"c-ab","events":[%s],"through":1,"head":1,"floor":0}],"failed":[],"more":false,"epoch":2}`,
			s.next("pull")["rid"], event(1, "m1"))
		a.wants(ab, "m1")
	})
}

// One conversation that the server cannot read does not hold up the others.
func TestAConversationThatCannotBeReadHoldsUpNoOther(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		s.empty()
		s.say(`{"t":"event","ev":%s,"epoch":1}`, event(1, "m1"))
		a.wants(ab, "m1")
		s.say(`{"t":"hint","epoch":2,"why":"resume"}`)
		s.epoch = 2
		a.send("c-other", "hi")
		a.send(ab, "waits")
		end := time.Now().Add(5 * time.Minute)
		for f := range s.listen() {
			if time.Now().After(end) {
				t.Fatal("the message to another conversation is not sent")
			}
			switch f["t"] {
			case "sync":
				s.say(`{"t":"error","rid":%q,"code":"UNAVAILABLE","message":"this shard is down","retry":true}`, f["rid"])
			case "ping":
				s.say(`{"t":"pong","rid":%q}`, f["rid"])
			case "pull":
				s.say(`{"t":"pulled","rid":%q,"convs":[],"failed":[],"more":false,"epoch":2}`, f["rid"])
			case "send":
				if f["conv"] != "c-other" {
					t.Fatal("a message is sent where the histories are not compared")
				}
				return
			}
		}
	})
}

// A call ends with its context, also while nobody answers.
func TestACallEndsWithItsContext(t *testing.T) {
	withScripted(t, func(t *testing.T, s *scripted, a *app) {
		s.welcome(0)
		s.empty()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.Who(ctx, ab, 1, ""); err == nil {
			t.Error("no answer is an answer")
		}
		s.say(`{"t":"whos","rid":%q,"conv":"c-ab","seq":1,"users":[],"more":false}`, s.next("who")["rid"])
		s.say(`{"t":"event","ev":%s,"epoch":1}`, event(1, "m1"))
		a.wants(ab, "m1")
	})
}
