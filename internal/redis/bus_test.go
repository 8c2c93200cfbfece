package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/conformance"
	"github.com/impart-im/impart/internal/lab/link"
	lab "github.com/impart-im/impart/internal/lab/redis"
)

func shapes() map[string]func(*testing.T) string {
	return map[string]func(*testing.T) string{
		"one server": func(t *testing.T) string { return single.get(t).URL() },
		"cluster":    func(t *testing.T) string { return cluster.get(t).URL() },
	}
}

// Each test of the contract has its own names for channels: they share a server.
func TestTheBusKeepsTheContract(t *testing.T) {
	for shape, url := range shapes() {
		t.Run(shape, func(t *testing.T) {
			address := url(t)
			conformance.Bus(t, func(t *testing.T) conformance.BusSubject {
				var ends []bus.Bus
				prefix := fresh("test") + ":"
				for range 3 {
					c, err := Open(t.Context(), Config{URL: address})
					if err != nil {
						t.Fatal(err)
					}
					ends = append(ends, closing{newBus(t.Context(), c, BusConfig{}, names{prefix}), c})
				}
				return conformance.BusSubject{Bus: ends[0], Peers: ends[1:], Outlive: refreshing}
			})
		})
	}
}

// closing is a bus that closes its client with it.
type closing struct {
	*Bus
	c *Client
}

func (c closing) Close() error { return errors.Join(c.Bus.Close(), c.c.Close()) }

// node is one node's bus, with what it heard.
type node struct {
	*Bus
	t       testing.TB
	metrics *prometheus.Registry

	mu    sync.Mutex // guards what follows
	heard []bus.Message
}

func (w *world) node(prefix string, change func(*BusConfig)) *node {
	w.Helper()
	n := &node{t: w.T, metrics: prometheus.NewRegistry()}
	cfg := BusConfig{Ping: time.Second, MaxBackoff: 100 * time.Millisecond, Metrics: n.metrics, Log: w.log()}
	if change != nil {
		change(&cfg)
	}
	n.Bus = newBus(w.Context(), w.client(), cfg, names{prefix})
	n.Subscribe(func(m bus.Message) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.heard = append(n.heard, m)
	})
	w.Cleanup(func() {
		if err := n.Close(); err != nil {
			w.Error(err)
		}
	})
	return n
}

func (n *node) says(messages ...bus.Message) { n.Publish(context.Background(), messages...) }

func (n *node) count(is func(bus.Message) bool) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(n.heard), func(m bus.Message) bool { return !is(m) }))
}

func (n *node) hears(m bus.Message) {
	n.t.Helper()
	until(n.t, fmt.Sprintf("hearing %+v", m), func() bool { return n.count(func(got bus.Message) bool { return got == m }) > 0 })
}

func (n *node) metric(name string) float64 {
	n.t.Helper()
	families, err := n.metrics.Gather()
	if err != nil {
		n.t.Fatal(err)
	}
	var sum float64
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// muteness is why the node cannot speak.
func (n *node) muteness() error {
	n.Bus.mu.Lock()
	defer n.Bus.mu.Unlock()
	return n.mute
}

func missed(m bus.Message) bool { return m.Kind == bus.Missed }

func typing(conv string) bus.Message {
	return bus.Message{Kind: bus.Typing, Conv: impart.ConvID(conv), User: "ana"}
}

// ownServer is one that the test may break.
func ownServer(t *testing.T) *lab.Server {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: needs Redis")
	}
	server, err := lab.Start(t.Context(), lab.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

func TestChannelsAreSpreadAndStay(t *testing.T) {
	counts := make([]int, channels)
	const convs = 200_000
	for i := range convs {
		counts[channelOfConv(impart.ConvID(fmt.Sprint("c-", i)))]++
	}
	if most, least := slices.Max(counts), slices.Min(counts); most > 2*convs/channels || least < convs/channels/3 {
		t.Errorf("channels have %d to %d of %d conversations", least, most, convs)
	}
	// Nodes of different versions have to meet.
	for conv, want := range map[impart.ConvID]channel{"": 3154, "c-ab": 3853, "88001": 1409} {
		if got := channelOfConv(conv); got != want {
			t.Errorf("%q is in channel %d, it was in %d", conv, got, want)
		}
	}
	n := names{"im:0:"}
	if got := []string{n.of(0), n.of(4095), n.of(everyone), n.own(3, "node")}; !slices.Equal(got, []string{"im:0:{10}:0", "im:0:{40}:255", "im:0:{10}:everyone", "im:0:{43}:node:node"}) {
		t.Errorf("channels are called %v", got)
	}
}

func TestGroupsAreSpreadOverACluster(t *testing.T) {
	t.Parallel()
	c := cluster.get(t)
	for group := range groups {
		var slot int
		if _, err := fmt.Sscan(do(t, c.Nodes[0], "CLUSTER", "KEYSLOT", names{"im:0:"}.of(channel(group*perGroup))), &slot); err != nil {
			t.Fatal(err)
		}
		if slot*groups/16384 != group {
			t.Errorf("group %d is in slot %d", group, slot)
		}
	}
}

// A node hears of the conversations that it needs, of what is for everyone, and of
// little else.
func TestANodeHearsOnlyWhatItNeeds(t *testing.T) {
	for shape, url := range shapes() {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, url(t))
			prefix := fresh("test") + ":"
			speaker := w.node(prefix, nil)
			here := w.node(prefix, func(c *BusConfig) { c.Selective = true })
			if n := here.metric("im_bus_channels"); n != 0 {
				t.Errorf("it listens to %v channels without a reader", n)
			}
			const convs = 2000
			sayAll := func(round impart.Seq) {
				for i := range convs {
					speaker.says(wake(fmt.Sprint("c-", i), round))
				}
				speaker.says(bus.Message{Kind: bus.EpochRaised, Epoch: impart.Epoch(round)})
				for i := range convs { // every channel has come so far
					speaker.says(bus.Message{Kind: bus.Wake, Conv: impart.ConvID(fmt.Sprint("c-", i)), From: round, Head: round, Everyone: true})
				}
				until(t, "hearing what is for everyone", func() bool {
					return here.count(func(m bus.Message) bool { return m.Everyone && m.Head == round }) >= convs
				})
				here.hears(bus.Message{Kind: bus.EpochRaised, Epoch: impart.Epoch(round)})
			}
			of := func(round impart.Seq) int {
				return here.count(func(m bus.Message) bool { return m.Kind == bus.Wake && m.Head == round && !m.Everyone })
			}
			sayAll(1)
			if n := of(1); n != 0 {
				t.Errorf("it heard %d messages that it did not need", n)
			}
			one, other := here.Interest(), here.Interest()
			if !one.Add(t.Context(), "c-1", "c-2", "c-3") || !other.Add(t.Context(), "c-3", "c-4") || !other.Add(t.Context(), "c-3") {
				t.Fatal("it does not hear")
			}
			for i := range 200 { // heard from the moment at which Add returns
				passing := here.Interest()
				conv := fmt.Sprint("c-passing-", i)
				if !passing.Add(t.Context(), impart.ConvID(conv)) {
					t.Fatal("it does not hear")
				}
				speaker.says(typing(conv))
				here.hears(typing(conv))
				passing.End()
			}
			until(t, "leaving those", func() bool { return here.metric("im_bus_channels") <= 4 })
			sayAll(2)
			for i := range 4 {
				here.hears(wake(fmt.Sprint("c-", i+1), 2))
			}
			if !other.AddAll(t.Context()) {
				t.Fatal("it does not hear everything")
			}
			sayAll(3)
			until(t, "hearing everything", func() bool { return of(3) >= convs })
			other.Narrow()
			one.End()
			one.End()
			one.Add(t.Context(), "c-9")
			round := impart.Seq(3)
			until(t, "leaving what is not needed", func() bool { // at the next ping
				round++
				sayAll(round)
				here.hears(wake("c-3", round))
				here.hears(wake("c-4", round))
				return of(round) <= 6
			})
			if n := here.metric("im_bus_channels"); n != 2 {
				t.Errorf("it listens to %v channels for 2 conversations", n)
			}
		})
	}
}

func wake(conv string, head impart.Seq) bus.Message {
	return bus.Message{Kind: bus.Wake, Conv: impart.ConvID(conv), From: head, Head: head}
}

func TestABrokenLineIsMadeGood(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	w := newWorld(t, server.URL())
	here, there := w.node("im:0:", nil), w.node("im:0:", nil)
	for round := range 3 {
		server.Kill()
		until(t, "saying that it is deaf", func() bool { return here.Health() != nil && there.Health() != nil })
		// Its own subscribers are told all the same, and nobody waits.
		began := time.Now()
		for i := range 3 * bus.OutboxLimit {
			here.says(wake("c", impart.Seq(i)))
			if i%1000 == 999 {
				here.hears(wake("c", impart.Seq(i)))
			}
		}
		if took := time.Since(began); took > soon/3 {
			t.Errorf("publishing took %v", took)
		}
		before := there.count(missed)
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		until(t, "being told of the gap", func() bool { return here.count(missed) > round && there.count(missed) > before })
		until(t, "health", func() bool { return here.Health() == nil && there.Health() == nil })
		here.says(typing(fmt.Sprint("c-after-", round)))
		there.hears(typing(fmt.Sprint("c-after-", round)))
		there.says(typing(fmt.Sprint("c-back-", round)))
		here.hears(typing(fmt.Sprint("c-back-", round)))
	}
	if here.metric("im_bus_missed_total") < 3 || here.metric("im_bus_up") != 1 || here.metric("im_bus_break_total") < 3 {
		t.Error("the metrics do not tell")
	}
	if problems, err := testutil.GatherAndLint(here.metrics); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// A server that stops answering, and a way that swallows everything, look healthy.
func TestASilentLineIsFound(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	proxy, err := link.New(1, server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	w, behind := newWorld(t, server.URL()), newWorld(t, server.URLAt(proxy.Addr()))
	here, there := w.node("im:0:", nil), behind.node("im:0:", nil)
	byPing := 0
	for round, strike := range []struct {
		hit, heal func()
	}{
		{func() { proxy.Shape(link.Down, func(s *link.Shape) { s.BlackHole = true }) }, proxy.Heal},
		{func() { proxy.Shape(link.Both, func(s *link.Shape) { s.BlackHole = true }) }, proxy.Heal},
		{func() { _ = server.Pause() }, func() { _ = server.Resume() }},
	} {
		before := there.count(missed)
		strike.hit()
		began := time.Now()
		here.says(typing(fmt.Sprint("c-lost-", round)))
		until(t, "saying that it is deaf", func() bool { return there.Health() != nil })
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %v to find out", took)
		}
		if errors.Is(there.Health(), errSilent) {
			byPing++
		}
		strike.heal()
		until(t, "being told of the gap", func() bool { return there.count(missed) > before })
		until(t, "health", func() bool { return here.Health() == nil && there.Health() == nil })
		here.says(typing(fmt.Sprint("c-after-", round)))
		there.hears(typing(fmt.Sprint("c-after-", round)))
		there.says(typing(fmt.Sprint("c-back-", round)))
		here.hears(typing(fmt.Sprint("c-back-", round)))
	}
	if proxy.Counts().Swallowed == 0 {
		t.Error("the black hole swallowed nothing")
	}
	if byPing == 0 {
		t.Error("its own pings found nothing: the client library was quicker each time")
	}
}

// A node that could not speak while the others heard each other well tells them.
func TestWhatOneNodeCouldNotSayIsLookedFor(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	proxy, err := link.New(1, server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	w, behind := newWorld(t, server.URL()), newWorld(t, server.URLAt(proxy.Addr()))
	here, there := w.node("im:0:", nil), behind.node("im:0:", nil)
	proxy.Refuse(true)
	proxy.Cut(link.Reset)
	until(t, "being cut off", func() bool { return there.Health() != nil })
	there.says(typing("c-lost"))
	until(t, "losing it", func() bool { return there.muteness() != nil })
	if here.count(missed) != 0 {
		t.Error("it was told before anybody could tell it")
	}
	proxy.Refuse(false)
	until(t, "being told", func() bool { return here.count(missed) > 0 })
	if here.Health() != nil {
		t.Error(here.Health())
	}
}

func TestABusStartsWithoutRedis(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	server.Kill()
	w := newWorld(t, server.URL())
	began := time.Now()
	here, there := w.node("im:0:", nil), w.node("im:0:", nil)
	if took := time.Since(began); took > 8*time.Second || here.Health() == nil {
		t.Errorf("it took %v; health %v", took, here.Health())
	}
	here.says(typing("c-own"))
	here.hears(typing("c-own"))
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "being told that something was missed", func() bool { return here.count(missed) > 0 && there.count(missed) > 0 })
	until(t, "health", func() bool { return here.Health() == nil && there.Health() == nil })
	here.says(typing("c-1"))
	there.hears(typing("c-1"))
}

func TestAForeignPayloadIsLookedFor(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	w := newWorld(t, server.URL())
	here := w.node("im:0:", nil)
	do(t, server, "PUBLISH", "im:0:{10}:everyone", "9 of a later version")
	here.hears(bus.Message{Kind: bus.Missed})
	if here.Health() != nil {
		t.Error(here.Health())
	}
}

// Two databases of one server are two deployments, though channels are not in either.
func TestDatabasesDoNotHearEachOther(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	busOf := func(url string) *node {
		w := newWorld(t, url)
		return w.node(namesIn(&w.client().opts).prefix, nil)
	}
	here, there, elsewhere := busOf(server.URL()), busOf(server.URL()+"/0"), busOf(server.URL()+"/3")
	elsewhere.says(typing("c-elsewhere"))
	here.says(typing("c"))
	there.hears(typing("c"))
	if n := there.count(func(m bus.Message) bool { return m.Conv == "c-elsewhere" }); n != 0 {
		t.Error("heard another database")
	}
	if n := elsewhere.count(func(m bus.Message) bool { return m.Conv == "c" }); n != 0 {
		t.Error("was heard in another database")
	}
}

func TestClosingTellsWhatWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, single.get(t).URL())
	prefix := fresh("test") + ":"
	there := w.node(prefix, nil)
	b := newBus(t.Context(), w.client(), BusConfig{}, names{prefix})
	b.Publish(t.Context(), bus.Message{Kind: bus.EpochRaised, Epoch: 7})
	for range 2 {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	there.hears(bus.Message{Kind: bus.EpochRaised, Epoch: 7})
	b.Publish(t.Context(), typing("c-late"))
	if err := b.Health(); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("a closed bus says %v", err)
	}
}
