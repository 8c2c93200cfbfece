package bus_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/conformance"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLocalKeepsTheContract(t *testing.T) {
	conformance.Bus(t, func(*testing.T) conformance.BusSubject { return conformance.BusSubject{Bus: bus.NewLocal()} })
}

func wake(n int) bus.Message {
	return bus.Message{Kind: bus.Wake, Conv: "c", From: impart.Seq(n), Head: impart.Seq(n)}
}

func TestEverySubscriberHearsEverythingInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := bus.NewLocal()
		heard := make([][]bus.Message, 3)
		for i := range heard {
			local.Subscribe(func(m bus.Message) { heard[i] = append(heard[i], m) })
		}
		var want []bus.Message
		for n := range 100 {
			local.Publish(t.Context(), wake(2*n), wake(2*n+1))
			want = append(want, wake(2*n), wake(2*n+1))
		}
		synctest.Wait()
		for i := range heard {
			if fmt.Sprint(heard[i]) != fmt.Sprint(want) {
				t.Errorf("subscriber %d heard %v", i, heard[i])
			}
		}
		local.Close()
	})
}

func TestASlowSubscriberDelaysNobodyAndMissesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := bus.NewLocal()
		release := make(chan struct{})
		var slow, quick []bus.Message
		local.Subscribe(func(m bus.Message) { <-release; slow = append(slow, m) })
		local.Subscribe(func(m bus.Message) { quick = append(quick, m) })
		const many = 25_000
		for n := range many {
			local.Publish(t.Context(), wake(n))
			if n%1000 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		if len(quick) != many {
			t.Errorf("the quick one heard %d of %d", len(quick), many)
		}
		close(release)
		synctest.Wait()
		if len(slow) >= many/2 {
			t.Errorf("the slow one heard %d: its queue has no bound", len(slow))
		}
		missed, last := 0, -1
		for _, m := range slow {
			if m.Kind == bus.Missed {
				missed++
				continue
			}
			if int(m.Head) <= last {
				t.Fatalf("%d after %d", m.Head, last)
			}
			if int(m.Head) != last+1 && missed == 0 {
				t.Fatalf("%d after %d, and nobody said that something is missing", m.Head, last)
			}
			last = int(m.Head)
		}
		if missed == 0 || last != many-1 {
			t.Errorf("missed %d times, the last one is %d", missed, last)
		}
		local.Publish(t.Context(), wake(many))
		synctest.Wait()
		if got := slow[len(slow)-1]; got != wake(many) {
			t.Errorf("afterwards it heard %+v", got)
		}
		local.Close()
	})
}

func TestMoreAtOnceThanTheQueueHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := bus.NewLocal()
		var heard []bus.Message
		local.Subscribe(func(m bus.Message) { heard = append(heard, m) })
		local.Publish(t.Context(), make([]bus.Message, 1_000_000)...)
		synctest.Wait()
		if len(heard) != 1 || heard[0].Kind != bus.Missed {
			t.Errorf("heard %d messages", len(heard))
		}
		local.Close()
	})
}

func TestAfterCancelNothingIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := bus.NewLocal()
		inside, release := make(chan struct{}), make(chan struct{})
		heard := 0
		cancel := local.Subscribe(func(bus.Message) {
			heard++
			close(inside)
			<-release
		})
		local.Publish(t.Context(), wake(1), wake(2), wake(3))
		<-inside
		cancelled := make(chan struct{})
		go func() { cancel(); close(cancelled) }()
		synctest.Wait()
		select {
		case <-cancelled:
			t.Error("cancel returned while the handler was running")
		default:
		}
		close(release)
		<-cancelled
		local.Publish(t.Context(), wake(4))
		synctest.Wait()
		if heard != 1 {
			t.Errorf("heard %d messages", heard)
		}
		cancel()
		local.Close()
	})
}

func TestAClosedBusIsQuiet(t *testing.T) {
	local := bus.NewLocal()
	var mu sync.Mutex
	heard := 0
	count := func(bus.Message) { mu.Lock(); heard++; mu.Unlock() }
	cancel := local.Subscribe(count)
	if err := local.Health(); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := local.Close(); err != nil {
			t.Error(err)
		}
	}
	local.Publish(t.Context(), wake(1))
	local.Subscribe(count)()
	local.Publish(t.Context(), wake(2))
	cancel()
	if local.Health() == nil {
		t.Error("a closed bus is healthy")
	}
	if heard != 0 {
		t.Errorf("heard %d messages", heard)
	}
}

func TestPublishersAndSubscribersComeAndGo(t *testing.T) {
	local := bus.NewLocal()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for n := range 200 {
				local.Publish(t.Context(), wake(n))
			}
		})
		group.Go(func() {
			for range 50 {
				cancel := local.Subscribe(func(bus.Message) {})
				cancel()
			}
		})
	}
	group.Wait()
	local.Close()
}

func BenchmarkLocalPublish(b *testing.B) {
	local := bus.NewLocal()
	defer local.Close()
	local.Subscribe(func(bus.Message) {})
	b.ReportAllocs()
	for n := range b.N {
		local.Publish(b.Context(), wake(n))
	}
}
