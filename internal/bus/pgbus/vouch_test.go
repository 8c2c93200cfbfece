package pgbus_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/bus/pgbus"
)

// A server that is no longer the store's is left, also by a connection that works; what
// was published meanwhile is told once the right one is there.
func TestAServerThatIsNotTheStoresIsLeft(t *testing.T) {
	t.Parallel()
	m := newMedium(t)
	var wrong atomic.Bool
	here := m.node("here", "", func(cfg *pgbus.Config) {
		cfg.Vouch = pgbus.Vouch{Query: "SELECT 'the store'", Judge: func(says string) error {
			if says != "the store" || wrong.Load() {
				return errors.New("an older primary")
			}
			return nil
		}}
	})
	there := m.node("there", "", nil)
	for round := range 2 {
		wrong.Store(true)
		until(t, "leaving it", func() bool { return here.Health() != nil })
		if err := here.Health(); !strings.Contains(err.Error(), "an older primary") {
			t.Errorf("the reason is %v", err)
		}
		here.says(wake(round))
		wrong.Store(false)
		there.hears(wake(round))
		until(t, "hearing again", func() bool { return here.Health() == nil && here.count(missed) == round+1 })
	}
}

// What is told goes only to a server that says of itself what was judged, in the
// statement that tells it; one that says something else is asked once, and believed if it
// may be.
func TestTheStatementThatTellsAlsoVouches(t *testing.T) {
	t.Parallel()
	m := newMedium(t)
	exec := func(query string) {
		t.Helper()
		if err := m.server.Exec(t.Context(), m.name, query); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE TABLE place (name TEXT)")
	exec("INSERT INTO place VALUES ('one')")
	exec("GRANT SELECT ON place TO PUBLIC")
	var accepted atomic.Value
	accepted.Store("one two")
	counter := newMuter(t, m.server.Addr())
	here := m.node("here", counter.ln.Addr().String(), func(cfg *pgbus.Config) {
		cfg.Ping = time.Hour // it is not the listener that finds out
		cfg.Vouch = pgbus.Vouch{Query: "SELECT name FROM place", Judge: func(says string) error {
			if !strings.Contains(accepted.Load().(string), says) {
				return errors.New(says + " is not the store's")
			}
			return nil
		}}
	})
	there := m.node("there", "", nil)
	tell := func(i int) {
		t.Helper()
		here.says(wake(i))
		there.hears(wake(i))
	}
	tell(0)
	before := counter.answers.Load()
	const batches = 20
	for i := range batches {
		tell(1 + i)
	}
	if n := counter.answers.Load() - before; n != batches {
		t.Errorf("%d batches cost %d exchanges with the database", batches, n)
	}
	exec("UPDATE place SET name = 'two'")
	tell(100) // asked again, and accepted
	exec("UPDATE place SET name = 'three'")
	here.says(wake(101))
	until(t, "refusing it", func() bool {
		return here.Health() != nil && strings.Contains(here.Health().Error(), "three is not the store's")
	})
	m.node("last", "", nil).says(wake(102)) // what was told before is heard before
	there.hears(wake(102))
	if n := there.count(func(m bus.Message) bool { return m == wake(101) }); n != 0 {
		t.Error("a server that is not the store's was told")
	}
	accepted.Store("three")
	there.hears(wake(101))
}
