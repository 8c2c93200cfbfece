package gateway

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/logic"
	"github.com/impart-im/impart/internal/pending"
	"github.com/impart-im/impart/internal/store/memstore"
)

// pickyBus is a selective bus, with one channel for each conversation.
type pickyBus struct {
	*deafBus

	mu   sync.Mutex // guards what follows
	refs map[impart.ConvID]int
	all  int
}

func (b *pickyBus) Subscribe(handle func(bus.Message)) func() {
	return b.deafBus.Subscribe(func(m bus.Message) {
		b.mu.Lock()
		wanted := m.Conv == "" || m.Everyone || b.all > 0 || b.refs[m.Conv] > 0
		b.mu.Unlock()
		if wanted {
			handle(m)
		}
	})
}

// wants is what the node hears, "*" for everything.
func (b *pickyBus) wants() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all > 0 {
		return "*"
	}
	var convs []impart.ConvID
	for conv, n := range b.refs {
		if n > 0 {
			convs = append(convs, conv)
		}
	}
	slices.Sort(convs)
	return fmt.Sprint(convs)
}

type pickyInterest struct {
	b     *pickyBus
	convs []impart.ConvID
	all   bool
	ended bool
}

func (b *pickyBus) Interest() bus.Interest { return &pickyInterest{b: b} }

func (i *pickyInterest) Add(_ context.Context, convs ...impart.ConvID) bool {
	i.b.mu.Lock()
	defer i.b.mu.Unlock()
	for _, conv := range convs {
		if !i.ended && !slices.Contains(i.convs, conv) {
			i.convs = append(i.convs, conv)
			i.b.refs[conv]++
		}
	}
	return true
}

func (i *pickyInterest) AddAll(context.Context) bool {
	i.b.mu.Lock()
	defer i.b.mu.Unlock()
	if !i.all && !i.ended {
		i.all = true
		i.b.all++
	}
	return true
}

func (i *pickyInterest) Narrow() {
	i.b.mu.Lock()
	defer i.b.mu.Unlock()
	if i.all {
		i.all = false
		i.b.all--
	}
}

func (i *pickyInterest) End() {
	i.Narrow()
	i.b.mu.Lock()
	defer i.b.mu.Unlock()
	for _, conv := range i.convs {
		i.b.refs[conv]--
	}
	i.convs, i.ended = nil, true
}

func TestAGatewayHearsOfItsReadersConversations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, wires := memstore.New(memstore.Options{}), bus.NewLocal()
		picky := &pickyBus{deafBus: &deafBus{Bus: wires}, refs: map[impart.ConvID]int{}}
		var nodes [2]*world
		var ends []io.Closer
		for i, b := range []bus.Bus{picky, wires} {
			w := &world{t: t, store: shared, bus: picky.deafBus}
			var err error
			w.logic, err = logic.New(logic.Config{Store: shared, Bus: b})
			must(t, err)
			rules, closers := rulesOf(t, w.logic)
			w.g, err = New(Config{Logic: rules, Bus: b, Pending: pending.NewLocal(), Verify: devToken, Create: true, Shared: true})
			must(t, err)
			nodes[i] = w
			ends = append(append(ends, w.g), closers...)
		}
		defer func() {
			for _, end := range append(ends, wires, shared) {
				must(t, end.Close())
			}
		}()
		here, there := nodes[0], nodes[1]
		there.conversation("c-ab", "u-ana", "u-ben")
		there.conversation("c-a", "u-ana")
		there.conversation("c-x", "u-ana")
		listens := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := picky.wants(); got != want {
				t.Errorf("the node hears %s, want %s", got, want)
			}
		}
		listens("[]")
		ben := here.connect("u-ben", "d-phone")
		listens("[c-ab]")
		ana := there.connect("u-ana", "d-phone")
		head := ana.says("c-ab", "m1", "hi").num("seq")
		ben.wants("event")
		ben.acks("c-ab", head)
		ana.says("c-a", "m2", "to myself")
		listens("[c-ab]")
		// Who becomes a member is heard of everywhere.
		_, err := there.logic.PutMember(t.Context(), "c-a", impart.Member{User: "u-ben"})
		must(t, err)
		listens("[c-a c-ab]")
		ben.take()
		ana.says("c-a", "m3", "welcome")
		ben.wants("event")
		// And where that was lost, the sweep finds it.
		picky.lose.Store(int32(bus.Wake))
		_, err = there.logic.PutMember(t.Context(), "c-x", impart.Member{User: "u-ben"})
		must(t, err)
		listens("[c-a c-ab]")
		picky.lose.Store(0)
		time.Sleep(here.g.cfg.Sweep)
		listens("[c-a c-ab c-x]")
		// A second device of the user changes nothing, and neither does its leaving.
		tablet := here.connect("u-ben", "d-tablet")
		listens("[c-a c-ab c-x]")
		must(t, tablet.nc.Close())
		<-tablet.done
		listens("[c-a c-ab c-x]")
		must(t, ben.nc.Close())
		<-ben.done
		listens("[]")
	})
}

// A user with more conversations than fit makes the node hear everything, for as long
// as they are connected.
func TestWhoHasTooManyConversationsHearsEverything(t *testing.T) {
	local := bus.NewLocal()
	picky := &pickyBus{deafBus: &deafBus{Bus: local}, refs: map[impart.ConvID]int{}}
	inWorld(t, func(c *Config) { c.Bus = picky }, func(w *world) {
		defer local.Close()
		for i := range maxSubbed {
			w.conversation(impart.ConvID(fmt.Sprint("c-", i)), "u-ben")
		}
		ben := w.connect("u-ben", "d-phone")
		synctest.Wait()
		if got := picky.wants(); got != "*" {
			t.Errorf("the node hears %s", got)
		}
		must(t, ben.nc.Close())
		<-ben.done
		synctest.Wait()
		if got := picky.wants(); got != "[]" {
			t.Errorf("then it hears %s", got)
		}
	})
}
