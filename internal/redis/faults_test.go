package redis

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/dedup"
	"github.com/impart-im/impart/internal/lab/authority"
	"github.com/impart-im/impart/internal/lab/link"
	lab "github.com/impart-im/impart/internal/lab/redis"
)

// deployment is everything that two nodes have in one Redis.
type deployment struct {
	*world
	sets    [2]*Pending
	answers [2]*Answers
	buses   [2]*node
	round   int
}

func (w *world) deployment() *deployment {
	w.Helper()
	d := &deployment{world: w}
	for i := range 2 {
		d.sets[i] = w.set(w.client(), fmt.Sprint("gw-", i), func(cfg *PendingConfig) { cfg.Lease = 2 * time.Second })
		d.answers[i] = w.answers()
		d.buses[i] = w.node("im:0:", nil)
	}
	return d
}

// goesOn does what senders and pushers do, however Redis is: nobody fails or waits.
func (d *deployment) goesOn() {
	d.Helper()
	began := time.Now()
	const steps = 500
	for i := range steps {
		for n := range 2 {
			conv := impart.ConvID(fmt.Sprint("c-", d.round, "-", i))
			e := entry("ana", conv, 1, 7)
			_ = d.sets[n].Register(d.Context(), e)
			_ = d.sets[n].Settle(d.Context(), e.Key)
			d.buses[n].says(wake(string(conv), 1))
			find(d.answers[n], kept("ana", "never", 1))
			d.answers[n].Keep(d.Context(), []dedup.Entry{kept("ana", impart.CMID(conv), 1)})
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		d.Errorf("%d sends and pushes took %v", 2*steps, took)
	}
}

// works waits until everything does what it should.
func (d *deployment) works(when string) {
	d.Helper()
	began := time.Now()
	d.round++
	for n := range 2 {
		flow := entry("ana", impart.ConvID(fmt.Sprint("pending-", d.round)), 1, 7)
		until(d.T, when+": a pending set", func() bool {
			if d.sets[n].Register(d.Context(), flow) != nil {
				return false
			}
			length, err := d.sets[n].Len(d.Context())
			return err == nil && length >= 1
		})
		_ = d.sets[n].Drop(d.Context(), 1)
		until(d.T, when+": an empty set", func() bool {
			// What a frozen server had taken in is done when it thaws, however late: a gateway
			// then finds flows of connections that are gone, and drops them.
			due, _ := d.sets[n].Due(d.Context(), 500)
			for _, flow := range due {
				_ = d.sets[n].Drop(d.Context(), flow.Conn)
			}
			length, err := d.sets[n].Len(d.Context())
			return err == nil && length == 0
		})
		e := kept("ana", impart.CMID(fmt.Sprint("answer-", d.round, "-", n)), 5)
		until(d.T, when+": an answer of the other node", func() bool {
			d.answers[n].Keep(d.Context(), []dedup.Entry{kept(e.User, e.CMID, 5)})
			return find(d.answers[1-n], e)[0].Seq == 5
		})
		until(d.T, when+": the bus's health", func() bool { return d.buses[n].Health() == nil })
	}
	for n := range 2 {
		for i := range 64 { // in all shards
			m := typing(fmt.Sprint("bus-", d.round, "-", n, "-", i))
			d.buses[n].says(m)
			d.buses[1-n].hears(m)
		}
	}
	d.Logf("%s: everything works after %v", when, time.Since(began).Round(time.Millisecond))
}

func (d *deployment) missed() int { return d.buses[0].count(missed) + d.buses[1].count(missed) }

func TestAWipedRedisFillsAgain(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	d := newWorld(t, server.URL()).deployment()
	d.works("at first")
	for range 3 {
		if err := d.sets[0].Register(t.Context(), entry("ana", "old", 9, 7)); err != nil {
			t.Fatal(err)
		}
		if n := length(t, d.sets[0]); n != 1 {
			t.Fatal(n)
		}
		if err := server.Wipe(t.Context()); err != nil {
			t.Fatal(err)
		}
		// The first to ask finds the lease gone, and gets it again.
		if got := due(t, d.sets[0], 10); len(got) > 0 {
			t.Errorf("due after a wipe: %+v", got)
		}
		if n := length(t, d.sets[0]); n != 0 {
			t.Errorf("%d flows after a wipe", n)
		}
		d.works("after a wipe")
	}
	if d.missed() != 0 {
		t.Error("a wipe made the bus miss something: channels are not in it")
	}
}

func TestAFrozenRedisHoldsUpNobody(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	d := newWorld(t, server.URL()).deployment()
	d.works("at first")
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	d.goesOn()
	set := d.sets[0]
	until(t, "saying that it does not answer", func() bool { _, err := set.Due(t.Context(), 10); return err != nil })
	began := time.Now()
	for range 50 {
		_, _ = set.Due(t.Context(), 10)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("50 scans waited for %v", took)
	}
	for i := range maxWaiting + 5000 { // flows without an end
		_ = set.Register(t.Context(), entry("ana", impart.ConvID(fmt.Sprint("many-", i)), uint64(2+i/500), 7))
	}
	set.mu.Lock()
	waiting := len(set.waiting)
	set.mu.Unlock()
	if waiting > maxWaiting {
		t.Errorf("%d changes wait: no bound", waiting)
	}
	for conn := range uint64(200) {
		_ = set.Drop(t.Context(), conn)
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	d.works("after the thaw")
}

// While Redis is down no operation ends well, also one that has nothing to tell it.
func TestASetThatWasNotAskedDoesNotWorkAgain(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	w := newWorld(t, server.URL())
	set := w.set(w.client(), "gw", nil)
	length(t, set)
	server.Kill()
	until(t, "saying that it does not answer", func() bool { _, err := set.Due(t.Context(), 10); return err != nil })
	every := time.NewTicker(10 * time.Millisecond)
	defer every.Stop()
	for range 300 { // longer than Redis is left in peace
		signal(set.more)
		<-every.C
		if err := set.Register(t.Context()); err == nil {
			t.Fatal("an operation ended well")
		}
	}
}

// What was noted while Redis did not answer is told to it later.
func TestWhatCouldNotBeToldIsToldLater(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	proxy, err := link.New(1, server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	w := newWorld(t, server.URLAt(proxy.Addr()))
	set := w.set(w.client(), "gw", nil)
	for _, conv := range []impart.ConvID{"stays", "goes"} {
		if err := set.Register(t.Context(), entry("ana", conv, 1, 7)); err != nil {
			t.Fatal(err)
		}
	}
	if n := length(t, set); n != 2 {
		t.Fatal(n)
	}
	// Swallowed, so that it is not done later after all.
	proxy.Shape(link.Up, func(s *link.Shape) { s.BlackHole = true })
	_ = set.Register(t.Context(), entry("ana", "comes", 1, 7))
	_ = set.Settle(t.Context(), entry("ana", "goes", 1, 7).Key)
	until(t, "trying in vain", func() bool { return set.Register(t.Context()) != nil })
	_ = set.Register(t.Context(), entry("ana", "is-gone-again", 1, 7))
	_ = set.Settle(t.Context(), entry("ana", "is-gone-again", 1, 7).Key)
	proxy.Heal()
	until(t, "being told", func() bool { return set.Register(t.Context()) == nil })
	members := do(t, server, "ZRANGE", keysOf("gw")[0], "0", "-1")
	if !strings.Contains(members, "stays") || !strings.Contains(members, "comes") || strings.Contains(members, "go") {
		t.Errorf("the set has %s", members)
	}
}

// Redis is longer away than a lease lasts, and comes back empty, again and again.
func TestAKilledRedisIsFoundAgain(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	d := newWorld(t, server.URL()).deployment()
	for range 2 {
		before := d.missed()
		server.Kill()
		d.goesOn()
		until(t, "being deaf", func() bool { return d.buses[0].Health() != nil && d.buses[1].Health() != nil })
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.works("after a kill")
		if d.missed() < before+2 {
			t.Error("nobody was told of what may have been missed")
		}
	}
}

// Everything goes by TLS and with passwords here, between the servers too.
func TestAFailoverBySentinelsIsFollowed(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: needs Redis")
	}
	t.Parallel()
	ours := authority.New(t, "ours")
	cert, key := ours.Issue("server", "127.0.0.1", time.Hour)
	s, err := lab.StartSentinel(t.Context(), lab.SentinelOptions{
		Password: "open-sesame", SentinelPassword: "who-goes-there", TLS: lab.TLS{CA: ours.File, Cert: cert, Key: key},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	d := newWorld(t, s.URL()).deployment()
	d.works("at first")
	s.Master.Kill()
	d.goesOn()
	if err := s.AwaitFailover(t.Context(), s.Master); err != nil {
		t.Fatal(err)
	}
	d.works("after the failover")
	if d.missed() == 0 {
		t.Error("nobody was told of what may have been missed")
	}
	// The old master comes back as a replica, and the new one freezes.
	if err := s.Master.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "a replica", func() bool {
		role, err := s.Master.Do(t.Context(), "ROLE")
		return err == nil && strings.HasPrefix(role, "slave")
	})
	until(t, "a replica in step", func() bool {
		state, err := s.Watchers[0].Do(t.Context(), "INFO", "sentinel")
		return err == nil && strings.Contains(state, "status=ok,") && strings.Contains(state, "slaves=1")
	})
	if err := s.Replica.Pause(); err != nil {
		t.Fatal(err)
	}
	d.goesOn()
	if err := s.AwaitFailover(t.Context(), s.Replica); err != nil {
		t.Fatal(err)
	}
	d.works("while the old master is frozen")
	if err := s.Replica.Resume(); err != nil {
		t.Fatal(err)
	}
	d.works("after the thaw")
}

func TestAShardOfAClusterMayDie(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: needs Redis")
	}
	t.Parallel()
	c, err := lab.StartCluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	d := newWorld(t, c.URL()).deployment()
	d.works("at first")
	c.Nodes[0].Kill()
	d.goesOn()
	if err := c.AwaitWhole(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.works("after a shard's failover")
	if d.missed() == 0 {
		t.Error("nobody was told of what may have been missed")
	}
	// Slots that move take their channels with them.
	d.buses[0].says(bus.Message{Kind: bus.EpochRaised, Epoch: 1})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	id, err := c.ID(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := c.Nodes[1].Do(ctx, "--cluster", "rebalance", c.Nodes[1].Addr(), "--cluster-threshold", "1", "--cluster-weight", id+"=3"); err != nil {
		t.Fatal(err, out)
	}
	if err := c.AwaitWhole(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.works("after slots have moved")
}

// A Redis that answers and takes no writes is told from one that is well.
func TestAReplicaIsTold(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	w := newWorld(t, server.URL())
	set := w.set(w.client(), fresh("gw"), func(cfg *PendingConfig) { cfg.Lease = time.Second })
	length(t, set)
	if set.Trouble() != nil {
		t.Fatal(set.Trouble())
	}
	do(t, server, "REPLICAOF", "127.0.0.1", "1")
	until(t, "the set being in trouble", func() bool { return set.Trouble() != nil })
	found, err := Inspect(t.Context(), server.URL())
	if err != nil || !found.Replica {
		t.Errorf("found %+v, %v", found, err)
	}
	do(t, server, "REPLICAOF", "NO", "ONE")
	until(t, "the set being well again", func() bool { return set.Trouble() == nil })
	if found, err := Inspect(t.Context(), server.URL()); err != nil || found.Replica {
		t.Errorf("found %+v, %v", found, err)
	}
}
