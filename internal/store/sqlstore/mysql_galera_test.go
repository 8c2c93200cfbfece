package sqlstore

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/impart-im/impart/internal/conformance"
	"github.com/impart-im/impart/internal/lab/mysql"
	"github.com/impart-im/impart/internal/store"
)

// newGaleraPlace is a database on a cluster of three.
func newGaleraPlace(t testing.TB, c *mysql.Cluster) myPlace {
	t.Helper()
	p := newMyPlaceOn(t, c.Members()[0])
	p.cluster = c
	return p
}

func startGalera(t testing.TB, settings map[string]string) *mysql.Cluster {
	t.Helper()
	needMySQL(t)
	c, err := mysql.StartCluster(context.Background(), 3, mysql.Options{Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestGaleraConformance runs what concerns several nodes on a cluster of three, the
// nodes at different servers.
func TestGaleraConformance(t *testing.T) {
	t.Parallel()
	c := startGalera(t, hasty)
	opts := Options{Patience: 10 * time.Second}
	conformance.Topics(t, []string{"dedup", "nodes", "failover"}, func(t *testing.T) conformance.Subject {
		return newMySubject(t, newGaleraPlace(t, c), opts).subject()
	})
}

// One of three servers is killed under load, with a node at it and another node at the
// next: what was answered is there, on every server, in the same epoch, and the nodes
// go on.
func TestGaleraOutlivesAServer(t *testing.T) {
	t.Parallel()
	c := startGalera(t, nil)
	p := newGaleraPlace(t, c)
	w := openPgWorld(t, p.dsnFrom(0), Options{Patience: 60 * time.Second})
	other := &world{t: t, Store: openPgWorld(t, p.dsnFrom(1), Options{Patience: 60 * time.Second}).Store}
	other.ticks.Store(1 << 40)
	w.group("c", "ana")
	meta, err := w.Meta(t.Context())
	w.must(err)
	var done atomic.Bool
	waitHere, here := sendAs(t, w, "here", &done)
	waitThere, there := sendAs(t, other, "there", &done)
	grow := func(what string) {
		a, b := here(), there()
		waitFor(t, what, func() bool { return here() > a+50 && there() > b+50 })
	}
	grow("some to be answered")
	w.must(c.Members()[0].Kill())
	grow("some to be answered without the first server")
	w.must(c.Members()[0].Start(t.Context()))
	grow("some to be answered with it again")
	done.Store(true)
	answered := waitHere()
	for cmid, out := range waitThere() {
		answered[cmid] = out
	}
	w.holds(answered)
	now, err := w.Meta(t.Context())
	w.must(err)
	if now != meta || w.Halted() != nil || other.Halted() != nil {
		t.Errorf("it was %+v and is %+v; halted: %v, %v", meta, now, w.Halted(), other.Halted())
	}
	for i, server := range c.Members() {
		n, err := mysql.Ask[int](t.Context(), server, p.name, "SET SESSION wsrep_sync_wait = 1; SELECT COUNT(*) FROM events")
		w.must(err)
		if n != len(answered) {
			t.Errorf("server %d has %d events, and %d were answered", i+1, n, len(answered))
		}
	}
	if beat, err := w.Beat(t.Context(), store.Node{ID: "n", Name: "n"}); err != nil || !beat.Replicated {
		t.Errorf("the beat is %+v, %v", beat, err)
	}
	t.Logf("%d answered", len(answered))
}
