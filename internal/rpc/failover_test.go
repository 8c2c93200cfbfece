package rpc

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/lab/pipe"
	"github.com/impart-im/impart/internal/rpc/impartpb"
)

// inNetwork tells a story in virtual time.
func inNetwork(t *testing.T, story func(w *network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { story(newNetwork(t)) })
}

// TestAKilledNodesSendsGoToAnother kills a node between commit and answer: no sender
// sees it, and no message is there twice.
func TestAKilledNodesSendsGoToAnother(t *testing.T) {
	inNetwork(t, func(w *network) {
		s := newShelf()
		first, second := newClerk(s), newClerk(s)
		nodes := map[*clerk]*running{first: w.serve("node-a:1", first), second: w.serve("node-b:1", second)}
		c := w.client("node-a:1", "node-b:1")
		synctest.Wait()
		var killed atomic.Bool
		for _, clerk := range []*clerk{first, second} {
			clerk.after = func() {
				if killed.CompareAndSwap(false, true) {
					go w.stop(nodes[clerk])
					time.Sleep(time.Second) // the answer never leaves
				}
			}
		}
		for n := range 20 {
			sent := c.Send(w.t.Context(), []impart.Send{message("c-ab", n)})[0]
			if sent.Err != nil || sent.Seq != impart.Seq(n+1) {
				w.t.Fatalf("message %d: %+v", n, sent)
			}
			if dup := n == 0; sent.Dup != dup {
				w.t.Errorf("message %d: dup is %v", n, sent.Dup)
			}
		}
		if s.heads["c-ab"] != 20 {
			w.t.Errorf("%d messages are stored", s.heads["c-ab"])
		}
	})
}

// TestTheOnlyNodeIsRestarted between commit and answer: its calls wait for it.
func TestTheOnlyNodeIsRestarted(t *testing.T) {
	inNetwork(t, func(w *network) {
		s := newShelf()
		clerk := newClerk(s)
		n := w.serve("node:1", clerk)
		c := w.client("node:1")
		synctest.Wait()
		clerk.after = func() {
			go w.stop(n)
			time.Sleep(time.Second)
		}
		time.AfterFunc(700*time.Millisecond, func() { w.serve("node:1", newClerk(s)) })
		sent := c.Send(w.t.Context(), []impart.Send{message("c-ab", 0)})[0]
		if sent.Err != nil || !sent.Dup || s.heads["c-ab"] != 1 {
			w.t.Errorf("%+v, and %d messages are stored", sent, s.heads["c-ab"])
		}
	})
}

// TestACallThatFailsGoesElsewhere: not to the same node again, as long as there is
// another; but for what fares no better anywhere.
func TestACallThatFailsGoesElsewhere(t *testing.T) {
	for _, code := range []codes.Code{codes.Internal, codes.Unimplemented} {
		inNetwork(t, func(w *network) {
			server := grpc.NewServer()
			impartpb.RegisterLogicServiceServer(server, mad{fails: code})
			ln := pipe.Listen("node")
			w.nodes["mad:1"] = &running{addr: "mad:1", ln: ln}
			var serving sync.WaitGroup
			serving.Go(func() { _ = server.Serve(ln) })
			w.serve("node:1", newClerk(newShelf()))
			c := w.client("mad:1", "node:1")
			time.Sleep(time.Second)
			failed := 0
			for i := range 20 {
				if _, err := c.Sync(w.t.Context(), impart.Sync{Conv: impart.ConvID(fmt.Sprint("c-", i))}); err != nil {
					failed++
				}
			}
			if again := value(w.t, c.metrics.retries.WithLabelValues("sync")); (failed == 0) != (code == codes.Internal) || (again == 0) != (code == codes.Unimplemented) {
				w.t.Errorf("%v: %d of 20 calls failed, and %v were made again", code, failed, again)
			}
			server.Stop()
			serving.Wait()
		})
	}
}

// TestTheOnlyNodeGetsTime: one that fails is not asked again in the same breath.
func TestTheOnlyNodeGetsTime(t *testing.T) {
	inNetwork(t, func(w *network) {
		server := grpc.NewServer()
		heals := &atomic.Int32{}
		heals.Store(maxTries - 1)
		impartpb.RegisterLogicServiceServer(server, mad{fails: codes.Internal, heals: heals})
		ln := pipe.Listen("node")
		w.nodes["mad:1"] = &running{addr: "mad:1", ln: ln}
		var serving sync.WaitGroup
		serving.Go(func() { _ = server.Serve(ln) })
		c := w.client("mad:1")
		time.Sleep(time.Second)
		began := time.Now()
		_, err := c.Sync(w.t.Context(), impart.Sync{Conv: "c-ab"})
		if took := time.Since(began); err != nil || took < 2*retryPause {
			w.t.Errorf("after %v: %v", took, err)
		}
		server.Stop()
		serving.Wait()
	})
}

// TestANodeThatHangsIsGivenUp freezes a node's connections: its calls go to the other
// node after the silence, not at their deadline.
func TestANodeThatHangsIsGivenUp(t *testing.T) {
	inNetwork(t, func(w *network) {
		s := newShelf()
		nodes := []*running{w.serve("node-a:1", newClerk(s)), w.serve("node-b:1", newClerk(s))}
		c := w.client("node-a:1", "node-b:1")
		synctest.Wait()
		hung := w.nodeOf(c, "c-ab")
		hung.freeze()
		began := time.Now()
		ctx, cancel := context.WithTimeout(w.t.Context(), 15*time.Second)
		defer cancel()
		sent := c.Send(ctx, []impart.Send{message("c-ab", 0)})[0]
		if took := time.Since(began); sent.Err != nil || took > silence+100*time.Millisecond {
			w.t.Errorf("after %v: %+v", took, sent)
		}
		if s.heads["c-ab"] != 1 {
			w.t.Errorf("%d messages are stored", s.heads["c-ab"])
		}
		// It comes back, and takes its conversations again.
		hung.thaw()
		time.Sleep(2 * silence)
		if back := w.nodeOf(c, "c-ab"); back != hung {
			w.t.Errorf("the conversation stays at %s", back.addr)
		}
		_ = nodes
	})
}

// TestADrainingNodeHandsOver drains both nodes in turn under load: nobody sees an
// error, and nothing is done twice.
func TestADrainingNodeHandsOver(t *testing.T) {
	inNetwork(t, func(w *network) {
		s := newShelf()
		slow := func(context.Context, []impart.Send) { time.Sleep(20 * time.Millisecond) }
		start := func(addr string) *running {
			clerk := newClerk(s)
			clerk.before = slow
			clerk.hold = func(context.Context) { time.Sleep(20 * time.Millisecond) }
			return w.serve(addr, clerk)
		}
		a, b := start("node-a:1"), start("node-b:1")
		c := w.client("node-a:1", "node-b:1")
		synctest.Wait()
		var stop atomic.Bool
		var load sync.WaitGroup
		var sends, hellos atomic.Int64
		for i := range 8 {
			conv := fmt.Sprintf("c-%d", i)
			load.Go(func() {
				for n := 0; !stop.Load(); n++ {
					if sent := c.Send(w.t.Context(), []impart.Send{message(conv, n)})[0]; sent.Err != nil || sent.Dup {
						w.t.Errorf("send: %+v", sent)
					}
					sends.Add(1)
				}
			})
			load.Go(func() {
				for !stop.Load() {
					if _, err := c.Hello(w.t.Context(), impart.Hello{Identity: impart.Identity{User: impart.UserID(conv)}}); err != nil {
						w.t.Errorf("hello: %v", err)
					}
					hellos.Add(1)
				}
			})
		}
		for range 3 {
			for _, n := range []**running{&a, &b} {
				time.Sleep(time.Second)
				began := time.Now()
				(*n).Drain(w.t.Context())
				if took := time.Since(began); took > time.Second {
					w.t.Errorf("the drain took %v", took)
				}
				w.stop(*n)
				time.Sleep(200 * time.Millisecond)
				*n = start((*n).addr)
			}
		}
		time.Sleep(2 * time.Second)
		stop.Store(true)
		load.Wait()
		if sends.Load() < 1000 || hellos.Load() < 1000 || int64(s.hellos) != hellos.Load() {
			w.t.Errorf("%d sends; %d hellos, and %d were carried out", sends.Load(), hellos.Load(), s.hellos)
		}
	})
}

// TestAHelloIsMadeOnce kills the node that has a hello: the device is told that it is
// unknown what became of it, and the other node is not asked.
func TestAHelloIsMadeOnce(t *testing.T) {
	inNetwork(t, func(w *network) {
		s := newShelf()
		clerks := map[string]*clerk{}
		for _, addr := range []string{"node-a:1", "node-b:1"} {
			clerk := newClerk(s)
			clerk.hold = func(ctx context.Context) {
				go w.stop(w.node(addr))
				<-ctx.Done()
			}
			clerks[addr] = clerk
			w.serve(addr, clerk)
		}
		c := w.client("node-a:1", "node-b:1")
		synctest.Wait()
		_, err := c.Hello(w.t.Context(), impart.Hello{Identity: impart.Identity{User: "u-ana"}})
		if impart.CodeOf(err) != impart.Unavailable {
			w.t.Errorf("hello: %v", err)
		}
		synctest.Wait()
		if s.hellos != 1 { // by the node that died, after its connection had gone
			w.t.Errorf("%d hellos were carried out", s.hellos)
		}
	})
}

// TestAHelloGrowsOlderWhileItWaits for a node: of two, the one that was said later
// counts, and this one may not be it any more.
func TestAHelloGrowsOlderWhileItWaits(t *testing.T) {
	inNetwork(t, func(w *network) {
		rules := &fake{answers: []any{impart.Welcome{}, nil}}
		c := w.client("node:1")
		time.AfterFunc(300*time.Millisecond, func() { w.serve("node:1", rules) })
		_, err := c.Hello(w.t.Context(), impart.Hello{Identity: impart.Identity{User: "u-ana"}, Age: time.Second})
		must(w.t, err)
		if age := rules.asked[0].(impart.Hello).Age; age < 1300*time.Millisecond {
			w.t.Errorf("it arrives as said %v ago", age)
		}
	})
}

// TestWhatComesLateIsRefused holds the fence: a request that names an old beat is not
// carried out, by any method that must not happen late.
func TestWhatComesLateIsRefused(t *testing.T) {
	inNetwork(t, func(w *network) {
		s := newShelf()
		n := w.serve("node:1", newClerk(s))
		heard := n.beat()
		service := &logicService{Server: n.Server}
		time.Sleep(stale - time.Millisecond)
		if _, err := service.Hello(w.t.Context(), toHello(impart.Hello{}, heard)); err != nil {
			w.t.Errorf("within the fence: %v", err)
		}
		time.Sleep(2 * time.Millisecond)
		_, err := service.Hello(w.t.Context(), toHello(impart.Hello{}, heard))
		if e, ok := fromStatus(err); !ok || e.Code != impart.Unavailable || s.hellos != 1 {
			w.t.Errorf("past the fence: %v, and %d hellos", err, s.hellos)
		}
	})
}
