package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
)

// scripted is a server that says just what a story wants, for what the real one
// would say only in rare moments, or never.
type scripted struct {
	t     *testing.T
	dials chan net.Conn
	conns chan *websocket.Conn
	done  chan struct{}
	*websocket.Conn
	epoch   int
	install int  // the install epoch
	silent  bool // subbed lists nothing
}

// withScripted runs a story in virtual time with a client whose every connection
// is taken by the story itself.
func withScripted(t *testing.T, tell func(t *testing.T, s *scripted, a *app)) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{t: t, dials: make(chan net.Conn), conns: make(chan *websocket.Conn, 1), done: make(chan struct{}), epoch: 1, install: 1}
		server := &http.Server{Handler: http.HandlerFunc(s.accept)}
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = server.Serve(s)
		}()
		a := &app{t: t, handed: map[impart.ConvID][]impart.Event{}}
		a.cfg = client.Config{
			URL: "http://scripted", Device: "d-ana", Token: client.StaticToken("x"), Store: t.TempDir() + "/store.db",
			Handler: client.Handler{Event: a.take, Settled: func(settled client.Settled) {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.settled = append(a.settled, settled)
			}},
			HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					near, far := net.Pipe()
					select {
					case s.dials <- far:
						return near, nil
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}}},
		}
		a.start()
		defer func() {
			a.stop()
			if s.Conn != nil {
				_ = s.CloseNow()
			}
			close(s.done)
			_ = server.Close()
			<-served
		}()
		tell(t, s, a)
	})
}

func (s *scripted) accept(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"impart.v1.json"}})
	if err != nil {
		s.t.Error(err)
		return
	}
	c.SetReadLimit(-1)
	select {
	case s.conns <- c:
	case <-s.done:
	}
}

// Accept implements [net.Listener].
func (s *scripted) Accept() (net.Conn, error) {
	nc, open := <-s.dials
	if !open {
		return nil, net.ErrClosed
	}
	return nc, nil
}

// Close implements [net.Listener].
func (s *scripted) Close() error { close(s.dials); return nil }

// Addr implements [net.Listener].
func (s *scripted) Addr() net.Addr { return &net.UnixAddr{} }

// next is the next frame of the client, which must be of a type.
func (s *scripted) next(types ...string) map[string]any {
	s.t.Helper()
	for {
		f := s.any(time.Hour)
		if f["t"] == "ack" && !strings.Contains(strings.Join(types, " "), "ack") {
			continue
		}
		for _, each := range types {
			if f["t"] == each {
				return f
			}
		}
		s.t.Fatalf("the client says %v, not %v", f, types)
	}
}

// any is the next frame within a time, nil if there is none.
func (s *scripted) any(d time.Duration) map[string]any {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), d)
	defer cancel()
	_, data, err := s.Read(ctx)
	if err != nil {
		return nil
	}
	var f map[string]any
	must(s.t, json.Unmarshal(data, &f))
	return f
}

// say sends a frame; @epoch stands for the epoch.
func (s *scripted) say(format string, args ...any) {
	s.t.Helper()
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "@epoch", fmt.Sprint(s.epoch))
	must(s.t, s.Write(s.t.Context(), websocket.MessageText, []byte(text)))
}

// welcome takes a connection up to a sub that lists a conversation c-ab with a head.
func (s *scripted) welcome(head int) {
	s.t.Helper()
	s.Conn = <-s.conns
	hello := s.next("hello")
	s.say(`{"t":"welcome","rid":%q,"user":"u-ana","device":"d-ana","install_epoch":%d,"conn":"1","epoch":@epoch,"now":1,"n":0,"features":[],
		"limits":{"body":65536,"frame":1048576,"inflight":1024,"ack_every":4,"heartbeat_ms":25000}}`, hello["rid"], s.install)
	sub := s.next("sub")
	list := fmt.Sprintf(`{"conv":"c-ab","head":%d,"delivered":0,"read":0,"floor":0}`, head)
	if s.silent {
		list = ""
	}
	s.say(`{"t":"subbed","rid":%q,"convs":[%s],"more":false,"epoch":@epoch}`, sub["rid"], list)
}

// empty answers a pull with nothing.
func (s *scripted) empty() {
	s.t.Helper()
	s.say(`{"t":"pulled","rid":%q,"convs":[],"failed":[],"more":false,"epoch":@epoch}`, s.next("pull")["rid"])
}

// event is the JSON of a message of u-ben.
func event(seq int, mid string) string {
	return fmt.Sprintf(`{"conv":"c-ab","seq":%d,"kind":"msg","mid":%q,"sender":"u-ben","cmid":"x-%s","type":"text","body":"m%d","at":1}`, seq, mid, mid, seq)
}

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
		probe := s.next("sync")
		s.say(`{"t":"event","ev":%s,"epoch":5}`, event(2, "new2"))
		a.send(ab, "hi")
		if f := s.any(5 * time.Second); f != nil {
			t.Errorf("in doubt it says %v", f)
		}
		s.Conn.CloseNow()
		// The doubt outlives the connection, and the process.
		a.restart()
		s.welcome(0)
		probe = s.next("sync")
		if probe["after"] != 1.0 || probe["after_mid"] != "m1" {
			t.Errorf("after the restart it asks %v", probe)
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
		s.say(`{"t":"pulled","rid":%q,"convs":[{"conv":"c-ab","events":[%s],"through":9,"head":9,"floor":0}],"failed":[],"more":false,"epoch":@epoch}`,
			s.next("pull")["rid"], event(9, "m9"))
		sync := s.next("sync")
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
		if counts["sync"] < 10 || counts["sync"] > 60 {
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

// synced answers a sync with events up to a seq.
func (s *scripted) synced(rid any, through int, events ...string) {
	s.t.Helper()
	s.say(`{"t":"synced","rid":%q,"conv":"c-ab","events":[%s],"through":%d,"head":%d,"floor":0,"epoch":@epoch,"more":false}`,
		rid, strings.Join(events, ","), through, through)
}

// otherHistory answers a probe with no.
func (s *scripted) otherHistory(rid any) {
	s.t.Helper()
	s.say(`{"t":"error","rid":%q,"code":"EPOCH_CHANGED","message":"another mid","retry":false,"epoch":@epoch}`, rid)
}

// recallOf is the JSON of u-ben's recall of a message.
func recallOf(seq, target int) string {
	return fmt.Sprintf(`{"conv":"c-ab","seq":%d,"kind":"recall","mid":"r%d","sender":"u-ben","cmid":"x-r%d","target":%d,"target_mid":"m%d","at":1}`,
		seq, seq, seq, target, target)
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
