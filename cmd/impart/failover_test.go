package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
	"github.com/impart-im/impart/internal/api"
	"github.com/impart-im/impart/internal/lab/postgres"
)

// pair is a primary with a standby, two servers on them, and a conversation of two
// people whose SDK clients are on different servers.
type pair struct {
	t                *testing.T
	primary, standby *postgres.Server
	dsn              string
	nodes            []*serverProcess
	people           []*person
}

const standbyName = "s1"

func newPair(t *testing.T, synchronous bool, variables ...string) *pair {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: needs PostgreSQL")
	}
	p := &pair{t: t}
	var err error
	if p.primary, err = postgres.Start(t.Context(), postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.primary.Close() })
	if err := p.primary.CreateDatabase(t.Context(), "im"); err != nil {
		t.Fatal(err)
	}
	if p.standby, err = p.primary.Standby(t.Context(), standbyName, postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.standby.Close() })
	if synchronous {
		if err := p.primary.Synchronous(t.Context(), standbyName); err != nil {
			t.Fatal(err)
		}
	}
	p.dsn = p.primary.DSNAt(p.primary.Addr()+","+p.standby.Addr(), "im") + "&target_session_attrs=read-write"
	for i := range 2 {
		p.nodes = append(p.nodes, launch(t, append([]string{"IM_STORE=" + p.dsn, "IM_GATEWAY_ID=node-" + strconv.Itoa(i), "IM_SWEEP_MS=500"}, variables...)))
	}
	p.put("/admin/v1/conversations/c", `{"kind":"group","members":[{"user":"u-ana"},{"user":"u-ben"}]}`)
	for i, user := range []impart.UserID{"u-ana", "u-ben"} {
		p.people = append(p.people, newPerson(t, p.nodes[i].url, user))
	}
	return p
}

func (p *pair) put(path, body string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPut, p.nodes[0].url+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		p.t.Fatalf("PUT %s: %s", path, answer.Status)
	}
}

// haveBeaten waits until the standby knows of both servers, and of what they have just
// said.
func (p *pair) haveBeaten() {
	p.t.Helper()
	sum := func(s *postgres.Server) (int, error) {
		return postgres.Ask[int](p.t.Context(), s, "im", "SELECT coalesce(sum(beat), 0)::int FROM nodes WHERE (SELECT count(*) FROM nodes) = 2")
	}
	now, err := sum(p.primary)
	if err != nil {
		p.t.Fatal(err)
	}
	eventually(p.t, "beat on the standby", func() bool {
		n, err := sum(p.standby)
		return err == nil && n > now+1
	})
}

// crash kills the primary and promotes the standby.
func (p *pair) crash() {
	p.t.Helper()
	if err := p.primary.Kill(); err != nil {
		p.t.Fatal(err)
	}
	if err := p.standby.Promote(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
}

// judged is what each server says of the failover, once it has been judged.
func (p *pair) judged() []api.History {
	p.t.Helper()
	var all []api.History
	for _, n := range p.nodes {
		var h api.History
		eventually(p.t, "judgement of "+n.url+":\n"+n.log(), func() bool {
			h = api.History{}
			raw := get(p.t, n.url+"/admin/v1/epoch")
			return json.Unmarshal([]byte(raw), &h) == nil && h.Last != nil
		})
		all = append(all, h)
	}
	return all
}

// person is a user with an SDK client that keeps what it is told.
type person struct {
	*client.Client
	t *testing.T

	mu      sync.Mutex // guards what follows
	settled map[impart.CMID]client.Settled
	bodies  map[impart.CMID]string
	rewound int
	view    []impart.Event // what an application shows: events as they came, cut back when history changed
}

func newPerson(t *testing.T, url string, user impart.UserID) *person {
	t.Helper()
	p := &person{t: t, settled: map[impart.CMID]client.Settled{}, bodies: map[impart.CMID]string{}}
	var err error
	p.Client, err = client.Open(t.Context(), client.Config{
		URL: url, User: user, Device: "d-" + impart.DeviceID(user), Token: client.StaticToken("dev:" + string(user)),
		Store: filepath.Join(t.TempDir(), "client.db"), MinBackoff: 50 * time.Millisecond, MaxBackoff: time.Second, ReplyTimeout: 3 * time.Second,
		Handler: client.Handler{
			Settled: func(s client.Settled) {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.settled[s.CMID] = s
			},
			Event: func(_ context.Context, ev impart.Event) error {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.view = append(p.view, ev)
				return nil
			},
			Rewound: func(_ impart.ConvID, after impart.Seq) {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.rewound++
				p.view = slices.DeleteFunc(p.view, func(ev impart.Event) bool { return ev.Seq > after })
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func (p *person) say(body string) {
	p.t.Helper()
	cmid, err := p.Send(context.WithoutCancel(p.t.Context()), client.Draft{Conv: "c", Body: body})
	if err != nil {
		p.t.Error(err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bodies[cmid] = body
}

// talk says something every now and then until stop is closed.
func (p *person) talk(stop <-chan struct{}, every time.Duration) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		case <-time.After(every):
			p.say(fmt.Sprintf("message %d", n))
		}
	}
}

func (p *person) answered() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.settled)
}

// settle waits until nothing is left in the outbox.
func (p *person) settle() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	if err := p.WaitSettled(ctx); err != nil {
		p.t.Fatalf("the outbox does not empty: %v", err)
	}
}

// agree holds the clients' logs against one another: seqs without a hole, the same
// messages everywhere, and every one that was ever said, once.
func (p *pair) agree() {
	p.t.Helper()
	logs := make([][]impart.Event, len(p.people))
	eventually(p.t, "agreement of the clients", func() bool {
		for i, who := range p.people {
			events, err := who.Events(p.t.Context(), "c", 0, 100_000)
			if err != nil {
				p.t.Fatal(err)
			}
			logs[i] = events
		}
		return len(logs[0]) == len(logs[1]) && len(logs[0]) >= len(p.people[0].bodies)+len(p.people[1].bodies)
	})
	found := map[impart.CMID]string{}
	for i, ev := range logs[0] {
		other := logs[1][i]
		if ev.Seq != impart.Seq(i+1) || ev.MID != other.MID || ev.Seq != other.Seq || ev.Body != other.Body {
			p.t.Fatalf("at %d: %+v and %+v", i+1, ev, other)
		}
		if _, twice := found[ev.CMID]; twice {
			p.t.Errorf("%s is there twice", ev.CMID)
		}
		found[ev.CMID] = ev.Body
	}
	for _, who := range p.people {
		eventually(p.t, "agreement of what an application shows with the log", func() bool {
			who.mu.Lock()
			defer who.mu.Unlock()
			return slices.EqualFunc(who.view, logs[0], func(a, b impart.Event) bool { return a.Seq == b.Seq && a.MID == b.MID })
		})
		for cmid, body := range who.bodies {
			if found[cmid] != body {
				p.t.Errorf("%s (%q) is %q in the log", cmid, body, found[cmid])
			}
		}
	}
}

func counter(t *testing.T, n *serverProcess, series string) float64 {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindStringSubmatch(get(t, n.url+"/metrics"))
	if m == nil {
		t.Fatalf("no %s", series)
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestAPromotedSynchronousStandbyKeepsTheEpochUnderLoad(t *testing.T) {
	t.Parallel()
	p := newPair(t, true, "IM_REPLICATION=sync")
	stop := make(chan struct{})
	var talking sync.WaitGroup
	silence := sync.OnceFunc(func() { close(stop); talking.Wait() })
	t.Cleanup(silence) // who talks on after a failed test ends all others with it
	for _, who := range p.people {
		talking.Go(func() { who.talk(stop, 5*time.Millisecond) })
	}
	eventually(t, "load", func() bool { return p.people[0].answered() > 200 && p.people[1].answered() > 200 })
	p.haveBeaten()
	began := time.Now()
	p.crash()
	judged := p.judged()
	t.Logf("judged %v after the crash; the servers had halted for %d and %d ms", time.Since(began).Round(time.Millisecond), judged[0].Last.Halted, judged[1].Last.Halted)
	for i, h := range judged {
		if h.Last.Raised || h.Epoch != 1 || h.Last.Missing != 0 || h.Lost != 0 {
			t.Errorf("server %d: %+v %+v; its log:\n%s", i, h, h.Last, p.nodes[i].log())
		}
		if !strings.Contains(get(t, p.nodes[i].url+"/readyz?verbose"), "the epoch was kept") {
			t.Errorf("readiness does not tell: %s", get(t, p.nodes[i].url+"/readyz?verbose"))
		}
	}
	before := p.people[0].answered()
	eventually(t, "messages after the failover", func() bool { return p.people[0].answered() > before+100 })
	silence()
	for _, who := range p.people {
		who.settle()
		if who.rewound != 0 {
			t.Errorf("a client was rewound %d times", who.rewound)
		}
	}
	p.agree()
	for _, n := range p.nodes {
		if lost := counter(t, n, `im_lost_acknowledged_total{what="message"}`); lost != 0 || counter(t, n, "im_store_halted") != 0 {
			t.Errorf("%v are counted as lost", lost)
		}
		if err := n.end(syscall.SIGTERM, 0); err != nil {
			t.Error(err)
		}
	}
}

func TestAPromotedStandbyThatLacksMessagesRaisesTheEpochOnceAndTheClientsMakeThemGood(t *testing.T) {
	t.Parallel()
	p := newPair(t, false, "IM_REPLICATION=sync") // the operator's word is wrong
	for n := range 50 {
		for _, who := range p.people {
			who.say(fmt.Sprintf("before %d", n))
		}
	}
	for _, who := range p.people {
		who.settle()
	}
	p.agree()
	p.haveBeaten()
	// The standby follows no further.
	for _, statement := range []string{"ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"} {
		if err := p.standby.Exec(t.Context(), "postgres", statement); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "end of the replication", func() bool {
		n, err := postgres.Ask[int](t.Context(), p.primary, "postgres", "SELECT count(*) FROM pg_stat_replication")
		return err == nil && n == 0
	})
	for n := range 30 {
		for _, who := range p.people {
			who.say(fmt.Sprintf("gone %d", n))
		}
	}
	for _, who := range p.people {
		who.settle()
	}
	p.agree()
	p.crash()
	judged := p.judged()
	if judged[0].Epoch != judged[1].Epoch || judged[0].Epoch <= 1 || !judged[0].Last.Raised || !judged[1].Last.Raised {
		t.Errorf("the epochs are %d and %d", judged[0].Epoch, judged[1].Epoch)
	}
	lost := 0.0
	for i, n := range p.nodes {
		lost += counter(t, n, `im_lost_acknowledged_total{what="message"}`)
		if raised := counter(t, n, `im_failovers_total{epoch="raised"}`); raised != 1 {
			t.Errorf("server %d has seen %v raised epochs", i, raised)
		}
		if i == 0 && !strings.Contains(n.log(), "acknowledged and gone") {
			t.Errorf("the log names nothing:\n%s", n.log())
		}
	}
	if lost != 60 {
		t.Errorf("%v are counted as lost, want 60", lost)
	}
	for _, who := range p.people {
		who.say("after")
		who.settle()
	}
	p.agree()
	if p.people[0].rewound == 0 || p.people[1].rewound == 0 {
		t.Error("nobody was told that history has changed")
	}
	again := p.judged()
	if again[0].Epoch != judged[0].Epoch || again[1].Epoch != judged[0].Epoch {
		t.Errorf("the epoch was raised again: %d and %d after %d", again[0].Epoch, again[1].Epoch, judged[0].Epoch)
	}
}
