package pgbus_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/bus/pgbus"
	"github.com/impart-im/impart/internal/conformance"
	"github.com/impart-im/impart/internal/lab/link"
	"github.com/impart-im/impart/internal/lab/postgres"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgres.Tests(m)) }

// medium is a database of its own, through which nodes hear each other.
type medium struct {
	t      *testing.T
	server *postgres.Server
	name   string
}

func newMedium(t *testing.T) *medium {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: needs PostgreSQL")
	}
	server, name, drop, err := postgres.FreshDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := drop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &medium{t, server, name}
}

// quick finds a dead link in half a second.
const quick = 250 * time.Millisecond

// node opens the bus of one more node; addr is where it finds the database, "" the
// database's own address.
func (m *medium) node(origin, addr string, change func(*pgbus.Config)) *node {
	m.t.Helper()
	if addr == "" {
		addr = m.server.Addr()
	}
	cfg := pgbus.Config{DSN: m.server.DSNAt(addr, m.name), Origin: origin, Ping: quick, MaxBackoff: 200 * time.Millisecond, Metrics: prometheus.NewRegistry()}
	if change != nil {
		change(&cfg)
	}
	b, err := pgbus.Open(m.t.Context(), cfg)
	if err != nil {
		m.t.Fatal(err)
	}
	n := &node{Bus: b, t: m.t, changed: make(chan struct{}, 1), metrics: cfg.Metrics.(*prometheus.Registry)}
	b.Subscribe(n.take)
	m.t.Cleanup(func() {
		if err := b.Close(); err != nil {
			m.t.Error(err)
		}
	})
	return n
}

// node is a bus with a subscriber that remembers what it heard.
type node struct {
	*pgbus.Bus
	t       *testing.T
	metrics *prometheus.Registry
	changed chan struct{}

	mu    sync.Mutex // guards what follows
	heard []bus.Message
}

func (n *node) take(m bus.Message) {
	n.mu.Lock()
	n.heard = append(n.heard, m)
	n.mu.Unlock()
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

func (n *node) count(want func(bus.Message) bool) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(n.heard), func(m bus.Message) bool { return !want(m) }))
}

func missed(m bus.Message) bool { return m.Kind == bus.Missed }

// soon is how long anything may take on a machine that does much else.
const soon = 30 * time.Second

// until waits for a condition that changes with what is heard, or with time.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for late := time.After(soon); !done(); {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-late:
			t.Fatalf("%s: not within %v", what, soon)
		}
	}
}

func (n *node) hears(want bus.Message) {
	n.t.Helper()
	until(n.t, fmt.Sprintf("hearing %+v", want), func() bool { return n.count(func(m bus.Message) bool { return m == want }) > 0 })
}

func (n *node) says(messages ...bus.Message) { n.Publish(n.t.Context(), messages...) }

func (n *node) metric(name string) float64 {
	n.t.Helper()
	families, err := n.metrics.Gather()
	if err != nil {
		n.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	n.t.Fatalf("there is no metric %s", name)
	return 0
}

func typing(conv string) bus.Message {
	return bus.Message{Kind: bus.Typing, Conv: impart.ConvID(conv), User: "ana"}
}

func wake(n int) bus.Message {
	return bus.Message{Kind: bus.Wake, Conv: "c", From: impart.Seq(n), Head: impart.Seq(n), Members: 1}
}

func TestNodesKeepTheContract(t *testing.T) {
	for _, nodes := range []int{2, 3} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			m := newMedium(t)
			conformance.Bus(t, func(t *testing.T) conformance.BusSubject {
				var all []bus.Bus
				for range nodes {
					b, err := pgbus.Open(t.Context(), pgbus.Config{DSN: m.server.DSN(m.name)})
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, b)
				}
				return conformance.BusSubject{Bus: all[0], Peers: all[1:]}
			})
		})
	}
}

func TestWakesOfTheStoreReachTheOthersOnce(t *testing.T) {
	t.Parallel()
	m := newMedium(t)
	here := m.node("here", "", func(c *pgbus.Config) { c.WakesInStore = true })
	there := m.node("there", "", nil)
	// The store tells the others in its transaction, logic tells this node.
	payload, _ := bus.AppendPayload(nil, here.Origin(), wake(1))
	if err := m.server.Exec(t.Context(), m.name, "SELECT pg_notify("+bus.NotifyChannel+", $1)", string(payload)); err != nil {
		t.Fatal(err)
	}
	here.says(wake(1), typing("c-last"))
	for _, n := range []*node{here, there} {
		n.hears(typing("c-last"))
		n.hears(wake(1))
		if times := n.count(func(m bus.Message) bool { return m == wake(1) }); times != 1 {
			t.Errorf("heard %d times", times)
		}
	}
}

func TestAKilledSessionIsMadeGoodAtOnce(t *testing.T) {
	t.Parallel()
	m := newMedium(t)
	here, there := m.node("here", "", nil), m.node("there", "", nil)
	for round := 1; round <= 3; round++ {
		if n, err := m.server.Terminate(t.Context(), m.name, "impart-listen"); n != 2 || err != nil {
			t.Fatalf("ended %d sessions, %v", n, err)
		}
		for _, n := range []*node{here, there} {
			until(t, "being told of the gap", func() bool { return n.count(missed) == round })
		}
		here.says(typing(fmt.Sprint("c-", round)))
		there.hears(typing(fmt.Sprint("c-", round)))
	}
	// The session that publishes is replaced too, and what it was to tell is told.
	if _, err := m.server.Terminate(t.Context(), m.name, "impart-publish"); err != nil {
		t.Fatal(err)
	}
	here.says(typing("c-last"))
	there.hears(typing("c-last"))
	if there.count(missed) != 3 || here.Health() != nil || there.Health() != nil {
		t.Errorf("missed %d times; health %v, %v", there.count(missed), here.Health(), there.Health())
	}
	if there.metric("im_bus_missed_total") != 3 || there.metric("im_bus_up") != 1 {
		t.Error("the metrics do not tell")
	}
}

func TestADatabaseThatIsGoneFailsNobody(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: needs PostgreSQL")
	}
	t.Parallel()
	server, err := postgres.Start(t.Context(), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	if err := server.CreateDatabase(t.Context(), "im"); err != nil {
		t.Fatal(err)
	}
	m := &medium{t, server, "im"}
	here, there := m.node("here", "", nil), m.node("there", "", nil)
	for round, down := range []func() error{
		func() error { return server.Stop(t.Context(), postgres.Fast) },
		server.Kill,
	} {
		before := [2]float64{here.metric("im_bus_missed_total"), there.metric("im_bus_missed_total")}
		if err := down(); err != nil {
			t.Fatal(err)
		}
		until(t, "saying that it is deaf", func() bool { return here.Health() != nil && there.Health() != nil })
		if err := here.Health(); strings.Contains(err.Error(), server.DSN("im")) {
			t.Errorf("the address is told: %v", err)
		}
		// Its own subscribers are told all the same, and nobody waits.
		start := time.Now()
		for i := range 20_000 {
			here.says(wake(i))
			if i%1000 == 999 {
				here.hears(wake(i))
			}
		}
		if took := time.Since(start); took > soon/2 {
			t.Errorf("publishing took %v", took)
		}
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		until(t, "being told of the gap", func() bool {
			return here.metric("im_bus_missed_total") > before[0] && there.metric("im_bus_missed_total") > before[1]
		})
		// What was too much for the queue is one Missed more at the others.
		here.says(typing(fmt.Sprint("c-", round)))
		there.hears(typing(fmt.Sprint("c-", round)))
		until(t, "health", func() bool { return here.Health() == nil && there.Health() == nil })
	}
	// The word of a flood may come while the other one is still deaf itself.
	if got := there.count(missed); got < 2 || got > 8 {
		t.Errorf("the other node missed something %d times, want 2 to 8", got)
	}
	if here.metric("im_bus_dropped_total") < 8_000 {
		t.Errorf("%v were dropped", here.metric("im_bus_dropped_total"))
	}
}

func TestAHalfOpenLinkIsFound(t *testing.T) {
	t.Parallel()
	m := newMedium(t)
	proxy, err := link.New(1, m.server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	here, there := m.node("here", "", nil), m.node("there", proxy.Addr(), nil)
	here.says(typing("c-before"))
	there.hears(typing("c-before"))
	for round, dir := range []link.Direction{link.Down, link.Up, link.Both} {
		proxy.Shape(dir, func(s *link.Shape) { s.BlackHole = true })
		began := time.Now()
		here.says(typing(fmt.Sprint("c-lost-", round)))
		until(t, "saying that it is deaf", func() bool { return there.Health() != nil })
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %v to find out", took)
		}
		proxy.Heal()
		until(t, "being told of the gap", func() bool { return there.count(missed) == round+1 })
		here.says(typing(fmt.Sprint("c-after-", round)))
		there.hears(typing(fmt.Sprint("c-after-", round)))
		there.says(typing(fmt.Sprint("c-back-", round)))
		here.hears(typing(fmt.Sprint("c-back-", round)))
	}
	if proxy.Counts().Swallowed == 0 {
		t.Error("the black hole swallowed nothing")
	}
	if here.count(missed) != 0 {
		t.Error("the other node was told of a gap of which it knows nothing")
	}
}

// An old primary that is frozen stands first in the address: the bus finds the next
// host all the same, and then goes to that one first.
func TestAFrozenHostHoldsUpNobody(t *testing.T) {
	t.Parallel()
	m := newMedium(t)
	var proxies [2]*link.Proxy
	for i := range proxies {
		proxy, err := link.New(uint64(i), m.server.Addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(proxy.Close)
		proxies[i] = proxy
	}
	first, second := proxies[0], proxies[1]
	here, there := m.node("here", "", nil), m.node("there", first.Addr()+","+second.Addr(), nil)
	here.says(typing("c-before"))
	there.hears(typing("c-before"))
	first.Shape(link.Both, func(s *link.Shape) { s.BlackHole = true })
	until(t, "finding the second host", func() bool { return there.count(missed) == 1 })
	here.says(typing("c-second"))
	there.hears(typing("c-second"))
	tried := first.Counts().Links
	second.Cut(link.Reset)
	until(t, "coming back", func() bool { return there.count(missed) == 2 })
	here.says(typing("c-again"))
	there.hears(typing("c-again"))
	if now := first.Counts().Links; now != tried {
		t.Errorf("the frozen host was tried %d times more, though the other one answers", now-tried)
	}
}

func TestAFloodPastTheQueueIsOneMissed(t *testing.T) {
	t.Parallel()
	m := newMedium(t)
	proxy, err := link.New(1, m.server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	here, there := m.node("here", proxy.Addr(), func(c *pgbus.Config) { c.Ping = soon }), m.node("there", "", nil)
	here.says(typing("c-before"))
	there.hears(typing("c-before"))
	proxy.Shape(link.Both, func(s *link.Shape) { s.Frozen = true })
	here.says(wake(0))
	until(t, "the first being on its way", func() bool { return here.metric("im_bus_queue") == 0 })
	for i := range 9000 {
		here.says(wake(i + 1))
	}
	here.says(wake(-1))
	proxy.Heal()
	there.hears(wake(-1))
	if got := there.count(missed); got != 1 {
		t.Errorf("missed %d times", got)
	}
	if got := there.count(func(m bus.Message) bool { return m.Kind == bus.Wake }); got > 1000 {
		t.Errorf("heard %d wakes: the queue has no bound", got)
	}
}

func TestAPayloadFromElsewhereIsLookedFor(t *testing.T) {
	t.Parallel()
	m := newMedium(t)
	here := m.node("here", "", nil)
	if err := m.server.Exec(t.Context(), m.name, "SELECT pg_notify("+bus.NotifyChannel+", '9 of a later version')"); err != nil {
		t.Fatal(err)
	}
	here.hears(bus.Message{Kind: bus.Missed})
	if here.Health() != nil {
		t.Error(here.Health())
	}
}

func TestABusThatCannotHearDoesNotOpen(t *testing.T) {
	t.Parallel()
	m := newMedium(t)
	const secret = "open-sesame"
	for name, dsn := range map[string]string{
		"no address":     "postgres://ana:" + secret + "@%zz/im",
		"nobody there":   "postgres://ana:" + secret + "@127.0.0.1:1/im",
		"wrong password": "postgres://impart:" + secret + "@" + m.server.Addr() + "/" + m.name,
		"no database":    m.server.DSN("nowhere"),
	} {
		b, err := pgbus.Open(t.Context(), pgbus.Config{DSN: dsn})
		if err == nil {
			b.Close()
			t.Errorf("%s: it opens", name)
		} else if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), dsn) {
			t.Errorf("%s: the password is in %q", name, err)
		}
	}
}

func TestAnAddressMayBeTheStoresToo(t *testing.T) {
	t.Parallel()
	m := newMedium(t)
	b, err := pgbus.Open(t.Context(), pgbus.Config{DSN: m.server.DSN(m.name) + "&pool_max_conns=4"})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// The database's queue of notifications holds gigabytes; a function in its place is
// full whenever it is told to be.
func TestAFullQueueFailsNobody(t *testing.T) {
	t.Parallel()
	m := newMedium(t)
	exec := func(sql string) {
		t.Helper()
		if err := m.server.Exec(t.Context(), m.name, sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE SCHEMA fake AUTHORIZATION impart; SET ROLE impart; CREATE TABLE fake.queue (is_full bool); INSERT INTO fake.queue VALUES (false);
		CREATE FUNCTION fake.pg_notify(channel text, payload text) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN
			IF (SELECT is_full FROM fake.queue) THEN
				RAISE EXCEPTION 'too many notifications in the NOTIFY queue' USING ERRCODE = '54000';
			END IF;
			PERFORM pg_catalog.pg_notify(channel, payload);
		END $$`)
	in := func(c *pgbus.Config) { c.DSN += "&search_path=fake,pg_catalog" }
	here, there := m.node("here", "", in), m.node("there", "", in)
	here.says(typing("c-before"))
	there.hears(typing("c-before"))
	exec("UPDATE fake.queue SET is_full = true")
	here.says(typing("c-full"))
	here.hears(typing("c-full")) // those of its own node hear it all the same
	until(t, "word of the full queue", func() bool { return here.Health() != nil && there.metric("im_bus_backlog") == 1 })
	exec("UPDATE fake.queue SET is_full = false")
	there.hears(typing("c-full"))
	until(t, "health", func() bool { return here.Health() == nil && there.Health() == nil })
	if here.count(missed)+there.count(missed) != 0 || here.metric("im_bus_break_total") > 1 {
		t.Error("a connection was given up for it, or something was missed")
	}
}

// One database may hold several stores, each in a schema of its own.
func TestStoresInTwoSchemasDoNotHearEachOther(t *testing.T) {
	t.Parallel()
	m := newMedium(t)
	if err := m.server.Exec(t.Context(), m.name, "CREATE SCHEMA one AUTHORIZATION impart"); err != nil {
		t.Fatal(err)
	}
	in := func(c *pgbus.Config) { c.DSN += "&search_path=one" }
	here, there, elsewhere := m.node("here", "", in), m.node("there", "", in), m.node("elsewhere", "", nil)
	here.says(typing("c-1"))
	elsewhere.says(typing("c-2"))
	there.hears(typing("c-1"))
	here.says(typing("c-last"))
	there.hears(typing("c-last"))
	if n := elsewhere.count(func(m bus.Message) bool { return m.Conv != "c-2" }); n != 0 {
		t.Errorf("heard %d messages of another store", n)
	}
	if n := there.count(func(m bus.Message) bool { return m.Conv == "c-2" }); n != 0 {
		t.Error("heard another store")
	}
}

func TestClosingTellsWhatWaits(t *testing.T) {
	t.Parallel()
	m := newMedium(t)
	there := m.node("there", "", nil)
	b, err := pgbus.Open(t.Context(), pgbus.Config{DSN: m.server.DSN(m.name)})
	if err != nil {
		t.Fatal(err)
	}
	b.Publish(t.Context(), bus.Message{Kind: bus.EpochRaised, Epoch: 7})
	for range 2 {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	there.hears(bus.Message{Kind: bus.EpochRaised, Epoch: 7})
	b.Publish(t.Context(), typing("c-late"))
	if b.Health() == nil {
		t.Error("a closed bus is well")
	}
}

func TestMetricsAreFitForPrometheus(t *testing.T) {
	t.Parallel()
	m := newMedium(t)
	n := m.node("here", "", nil)
	problems, err := testutil.GatherAndLint(n.metrics)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// BenchmarkTelling is a published message's way to another node and back.
func BenchmarkTelling(b *testing.B) {
	server, name, drop, err := postgres.FreshDatabase(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer drop(context.Background())
	var nodes [2]*pgbus.Bus
	for i := range nodes {
		if nodes[i], err = pgbus.Open(b.Context(), pgbus.Config{DSN: server.DSN(name)}); err != nil {
			b.Fatal(err)
		}
		defer nodes[i].Close()
	}
	came := make(chan struct{}, 1<<20)
	nodes[1].Subscribe(func(bus.Message) { came <- struct{}{} })
	b.Run("lone", func(b *testing.B) {
		for b.Loop() {
			nodes[0].Publish(b.Context(), wake(1))
			<-came
		}
	})
	b.Run("thousand", func(b *testing.B) {
		for b.Loop() {
			for i := range 1000 {
				nodes[0].Publish(b.Context(), wake(i))
			}
			for range 1000 {
				<-came
			}
		}
		b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds(), "messages/s")
	})
}
