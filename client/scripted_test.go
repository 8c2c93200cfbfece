package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
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
