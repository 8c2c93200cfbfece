package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/lab/pipe"
	"github.com/impart-im/impart/internal/rpc/impartpb"
)

// TestAConversationStaysAtOneNode sends to many conversations from two gateways: each
// conversation is written at one node, and every node has its share.
func TestAConversationStaysAtOneNode(t *testing.T) {
	inNetwork(t, func(w *network) {
		s := newShelf()
		clerks := []*clerk{newClerk(s), newClerk(s), newClerk(s)}
		var addrs []string
		for i, clerk := range clerks {
			addrs = append(addrs, fmt.Sprintf("node-%d:1", i))
			w.serve(addrs[i], clerk)
		}
		clients := []*Client{w.client(addrs...), w.client(addrs[2], addrs[0], addrs[1])}
		synctest.Wait()
		const convs = 90
		for i := range convs {
			for n, c := range clients {
				var all []impart.Send // one call for several conversations
				for k := range 3 {
					all = append(all, message(fmt.Sprintf("c-%d", (i+k)%convs), 100*i+10*n+k))
				}
				for _, sent := range c.Send(w.t.Context(), all) {
					must(w.t, sent.Err)
				}
			}
		}
		shares := make([]int, len(clerks))
		for i := range convs {
			conv := impart.ConvID(fmt.Sprintf("c-%d", i))
			homes := 0
			for k, clerk := range clerks {
				if clerk.served(conv) > 0 {
					homes++
					shares[k]++
				}
			}
			if homes != 1 {
				w.t.Errorf("%s was written at %d nodes", conv, homes)
			}
		}
		if slices.Min(shares) < convs/6 {
			w.t.Errorf("the shares of the nodes: %v", shares)
		}
	})
}

// TestSendsThatWaitShareAFrame lets senders come while frames are under way, and a
// lone one.
func TestSendsThatWaitShareAFrame(t *testing.T) {
	inNetwork(t, func(w *network) {
		clerk := newClerk(newShelf())
		clerk.before = func(context.Context, []impart.Send) { time.Sleep(10 * time.Millisecond) }
		w.serve("node:1", clerk)
		c := w.client("node:1")
		synctest.Wait()
		began := time.Now()
		must(w.t, c.Send(w.t.Context(), []impart.Send{message("c-ab", 0)})[0].Err)
		if took := time.Since(began); took != 10*time.Millisecond {
			w.t.Errorf("a lone send took %v, and the rules 10 ms of it", took)
		}
		const senders = 2000
		var all sync.WaitGroup
		for n := range senders {
			all.Go(func() { must(w.t, c.Send(w.t.Context(), []impart.Send{message("c-ab", n+1)})[0].Err) })
		}
		all.Wait()
		if sum, frames := observed(w.t, c.metrics.items, "upstream"); sum != senders+1 || frames > senders/10 {
			w.t.Errorf("%d senders took %d frames with %v messages", senders, frames, sum)
		}
		if most := slices.Max(clerk.frames); most > maxFrameItems {
			w.t.Errorf("a frame had %d messages", most)
		}
	})
}

// TestANodeThatDoesNotAnswerIsNotBuried bounds what waits for it: the rest is refused
// with the time to wait, and nothing of it was sent.
func TestANodeThatDoesNotAnswerIsNotBuried(t *testing.T) {
	inNetwork(t, func(w *network) {
		clerk := newClerk(newShelf())
		stuck := make(chan struct{})
		clerk.before = func(ctx context.Context, _ []impart.Send) {
			select {
			case <-stuck:
			case <-ctx.Done():
			}
		}
		w.serve("node:1", clerk)
		c := w.client("node:1")
		synctest.Wait()
		const calls, each = 400, 100
		var mu sync.Mutex
		codes := map[impart.Code]int{}
		var all sync.WaitGroup
		for i := range calls {
			all.Go(func() {
				var sends []impart.Send
				for n := range each {
					sends = append(sends, message(fmt.Sprintf("c-%d", i), n))
				}
				sent := c.Send(w.t.Context(), sends)
				mu.Lock()
				defer mu.Unlock()
				codes[impart.CodeOf(sent[0].Err)]++
				if e := impart.AsError(sent[0].Err); e != nil && e.RetryAfter != overloadedRetry {
					w.t.Errorf("refused with %+v", e)
				}
			})
		}
		synctest.Wait()
		taken := calls - codes[impart.Overloaded]
		if most := maxFrames*maxFrameItems + maxQueued; codes[impart.Overloaded] == 0 || taken*each > most {
			w.t.Errorf("%d of %d calls were taken; %d messages may wait", taken, calls, most)
		}
		close(stuck)
		all.Wait()
		if codes[""] != taken || len(clerk.shelf.seqs) != taken*each {
			w.t.Errorf("%v, and %d messages are stored", codes, len(clerk.shelf.seqs))
		}
	})
}

// TestACallThatEndsIsNotSentAnyMore cancels calls that wait for their frame.
func TestACallThatEndsIsNotSentAnyMore(t *testing.T) {
	inNetwork(t, func(w *network) {
		clerk := newClerk(newShelf())
		clerk.before = func(context.Context, []impart.Send) { time.Sleep(time.Second) }
		w.serve("node:1", clerk)
		c := w.client("node:1")
		synctest.Wait()
		var all sync.WaitGroup
		for i := range maxFrames + 1 { // each a frame of its own
			all.Go(func() { must(w.t, c.Send(w.t.Context(), []impart.Send{message("c-ab", i)})[0].Err) })
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(w.t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := c.Send(ctx, []impart.Send{message("c-ab", 999)})[0].Err; impart.CodeOf(err) != impart.Unavailable || !errors.Is(err, context.DeadlineExceeded) {
			w.t.Errorf("the call that ended: %v", err)
		}
		all.Wait()
		if _, stored := clerk.shelf.seqs["c-ab-999"]; stored {
			w.t.Error("a message was stored whose sender had gone before it was sent")
		}
	})
}

// TestNothingStandsInTheWayOfASend holds reads at the node.
func TestNothingStandsInTheWayOfASend(t *testing.T) {
	inNetwork(t, func(w *network) {
		clerk := newClerk(newShelf())
		clerk.hold = func(context.Context) { time.Sleep(10 * time.Second) }
		w.serve("node:1", clerk)
		c := w.client("node:1")
		synctest.Wait()
		var reads sync.WaitGroup
		for range 200 {
			reads.Go(func() {
				_, err := c.Sync(w.t.Context(), impart.Sync{Conv: "c-ab"})
				must(w.t, err)
			})
		}
		synctest.Wait()
		began := time.Now()
		must(w.t, c.Send(w.t.Context(), []impart.Send{message("c-ab", 0)})[0].Err)
		if took := time.Since(began); took > 0 {
			w.t.Errorf("the send waited %v for reads", took)
		}
		reads.Wait()
	})
}

// TestAnUnfitNodeIsPassedOver: one that cannot reach its store gets calls only when no
// other node can either.
func TestAnUnfitNodeIsPassedOver(t *testing.T) {
	inNetwork(t, func(w *network) {
		s := newShelf()
		var mu sync.Mutex
		sick := map[string]bool{}
		clerks := map[string]*clerk{}
		for _, addr := range []string{"node-a:1", "node-b:1"} {
			clerks[addr] = newClerk(s)
			w.serve(addr, clerks[addr], func(cfg *ServerConfig) {
				cfg.Fit = func(context.Context) error {
					mu.Lock()
					defer mu.Unlock()
					if sick[addr] {
						return errors.New("no store")
					}
					return nil
				}
			})
		}
		c := w.client("node-a:1", "node-b:1")
		synctest.Wait()
		home := w.nodeOf(c, "c-ab")
		set := func(addr string, is bool) {
			mu.Lock()
			sick[addr] = is
			mu.Unlock()
			time.Sleep(1100 * time.Millisecond)
		}
		set(home.addr, true)
		if now := w.nodeOf(c, "c-ab"); now == home {
			w.t.Error("a node without a store still gets calls")
		}
		set("node-a:1", true)
		set("node-b:1", true)
		if fit, unfit, all := c.Nodes(); fit != 0 || unfit != 2 || all != 2 {
			w.t.Errorf("%d fit, %d unfit of %d", fit, unfit, all)
		}
		must(w.t, c.Send(w.t.Context(), []impart.Send{message("c-ab", 0)})[0].Err)
		set(home.addr, false)
		if now := w.nodeOf(c, "c-ab"); now != home {
			w.t.Error("a node that is fit again gets no calls")
		}
	})
}

// TestWithoutANodeCallsWaitAWhile: for one that comes soon, and not for ever.
func TestWithoutANodeCallsWaitAWhile(t *testing.T) {
	inNetwork(t, func(w *network) {
		c := w.client("node:1")
		synctest.Wait()
		began := time.Now()
		err := c.Authorize(w.t.Context(), impart.Identity{User: "u-ana"})
		if took := time.Since(began); impart.CodeOf(err) != impart.Unavailable || took != 2*time.Second {
			w.t.Errorf("after %v: %v", took, err)
		}
		if c.Health() == nil || !strings.Contains(c.Health().Error(), "node:1: ") || !strings.Contains(c.Health().Error(), errRefused.Error()) {
			w.t.Errorf("the health is: %v", c.Health())
		}
		time.AfterFunc(500*time.Millisecond, func() { w.serve("node:1", newClerk(newShelf())) })
		must(w.t, c.Send(w.t.Context(), []impart.Send{message("c-ab", 0)})[0].Err)
		must(w.t, c.Health())
	})
}

// TestNamesAreLookedUpAgain follows a name whose addresses change; one that cannot be
// looked up keeps what it had.
func TestNamesAreLookedUpAgain(t *testing.T) {
	inNetwork(t, func(w *network) {
		s := newShelf()
		w.serve("10.0.0.1:9090", newClerk(s))
		w.serve("10.0.0.2:9090", newClerk(s))
		var mu sync.Mutex
		answer, failure := []string{"10.0.0.1"}, error(nil)
		c, err := NewClient(ClientConfig{Nodes: []string{"dns:///logic.example:9090"}, Dial: w.dial, Resolve: func(context.Context, string) ([]string, error) {
			mu.Lock()
			defer mu.Unlock()
			return answer, failure
		}})
		must(w.t, err)
		defer c.Close()
		now := func(addrs []string, err error) string {
			mu.Lock()
			answer, failure = addrs, err
			mu.Unlock()
			time.Sleep(3 * resolveEvery)
			synctest.Wait()
			c.mu.Lock()
			defer c.mu.Unlock()
			var at []string
			for _, s := range c.ready {
				at = append(at, s.node.addr)
			}
			slices.Sort(at)
			return strings.Join(at, " ")
		}
		for _, step := range []struct {
			addrs []string
			err   error
			want  string
		}{
			{[]string{"10.0.0.1"}, nil, "10.0.0.1:9090"},
			{[]string{"10.0.0.1", "10.0.0.2"}, nil, "10.0.0.1:9090 10.0.0.2:9090"},
			{nil, errors.New("no name server"), "10.0.0.1:9090 10.0.0.2:9090"},
			{[]string{"10.0.0.2"}, nil, "10.0.0.2:9090"},
			{[]string{"10.0.0.1"}, nil, "10.0.0.1:9090"},
		} {
			if got := now(step.addrs, step.err); got != step.want {
				w.t.Errorf("%v, %v: connected to %q, want %q", step.addrs, step.err, got, step.want)
			}
		}
		if w.node("10.0.0.2:9090").Clients() != 0 {
			w.t.Error("a node that left the name is still connected")
		}
	})
}

// oldNode speaks a version of the protocol that is no more.
type oldNode struct {
	impartpb.UnimplementedLogicServiceServer
}

func (oldNode) Watch(_ *impartpb.WatchRequest, stream grpc.ServerStreamingServer[impartpb.NodeState]) error {
	_ = stream.Send(&impartpb.NodeState{State: impartpb.State_STATE_SERVING, Beat: 1, Protocol: 99})
	<-stream.Context().Done()
	return nil
}

// TestVersionsThatShareNothingSayWhatToUpgrade from both sides.
func TestVersionsThatShareNothingSayWhatToUpgrade(t *testing.T) {
	inNetwork(t, func(w *network) {
		n := w.serve("node:1", newClerk(newShelf()))
		conn, err := (&Client{cfg: ClientConfig{Dial: w.dial}}).dial(&node{addr: "node:1"})
		must(w.t, err)
		watch, err := impartpb.NewLogicServiceClient(conn).Watch(w.t.Context(), &impartpb.WatchRequest{Protocol: 9, Oldest: 8, Version: "v9", Name: "gw-new"})
		must(w.t, err)
		_, err = watch.Recv()
		const want = "speaks protocol version 1, and gateway gw-new (v9) speaks versions 8 to 9: upgrade the older one"
		if err == nil || !strings.Contains(err.Error(), want) {
			w.t.Errorf("a newer gateway is told: %v", err)
		}
		must(w.t, conn.Close())
		w.stop(n)

		old := grpc.NewServer()
		impartpb.RegisterLogicServiceServer(old, oldNode{})
		ln := pipe.Listen("node")
		w.mu.Lock()
		w.nodes["node:1"] = &running{addr: "node:1", ln: ln}
		w.mu.Unlock()
		var serving sync.WaitGroup
		serving.Go(func() { _ = old.Serve(ln) })
		c := w.client("node:1")
		time.Sleep(time.Second)
		if err := c.Health(); err == nil || !strings.Contains(err.Error(), "would speak protocol version 99, and this gateway speaks version 1: upgrade the older one") {
			w.t.Errorf("the gateway says: %v", err)
		}
		old.Stop()
		serving.Wait()
	})
}

// TestASlowConversationHoldsUpNoOther: those that share its frame are answered before.
func TestASlowConversationHoldsUpNoOther(t *testing.T) {
	inNetwork(t, func(w *network) {
		clerk := newClerk(newShelf())
		clerk.before = func(_ context.Context, sends []impart.Send) {
			if sends[0].Conv == "c-slow" {
				time.Sleep(10 * time.Second)
			}
		}
		w.serve("node:1", clerk)
		c := w.client("node:1")
		synctest.Wait()
		began := time.Now()
		var all sync.WaitGroup
		took := map[string]time.Duration{}
		var mu sync.Mutex
		for _, conv := range []string{"c-slow", "c-a", "c-b", "c-c"} { // woken together, so they share a frame
			all.Go(func() {
				must(w.t, c.Send(w.t.Context(), []impart.Send{message(conv, 0)})[0].Err)
				mu.Lock()
				defer mu.Unlock()
				took[conv] = time.Since(began)
			})
		}
		all.Wait()
		if _, frames := observed(w.t, c.metrics.items, "upstream"); frames == 4 {
			w.t.Error("no two shared a frame: the story tells nothing")
		}
		for conv, d := range took {
			if (d > 0) != (conv == "c-slow") {
				w.t.Errorf("%s took %v", conv, d)
			}
		}
	})
}

// mad is a node that answers what nobody asked, in one of several ways, or fails.
type mad struct {
	impartpb.UnimplementedLogicServiceServer
	answer func(*impartpb.UpstreamBatch) []*impartpb.UpstreamAck
	fails  codes.Code
	heals  *atomic.Int32 // after so many failures; nil: never
}

func (m mad) Sync(context.Context, *impartpb.SyncRequest) (*impartpb.Page, error) {
	if m.heals != nil && m.heals.Add(-1) < 0 {
		return &impartpb.Page{}, nil
	}
	return nil, status.Error(m.fails, "mad")
}

func (mad) Watch(_ *impartpb.WatchRequest, stream grpc.ServerStreamingServer[impartpb.NodeState]) error {
	_ = stream.Send(&impartpb.NodeState{State: impartpb.State_STATE_SERVING, Beat: 1, Protocol: newestProtocol})
	<-stream.Context().Done()
	return nil
}

func (m mad) Upstream(stream grpc.BidiStreamingServer[impartpb.UpstreamBatch, impartpb.UpstreamAckBatch]) error {
	for {
		b, err := stream.Recv()
		if err != nil {
			return nil //nolint:nilerr // the client has gone
		}
		_ = stream.Send(&impartpb.UpstreamAckBatch{Acks: m.answer(b)})
	}
}

func (mad) Acks(stream grpc.BidiStreamingServer[impartpb.AckBatch, impartpb.AckedBatch]) error {
	<-stream.Context().Done()
	return nil
}

func (mad) Downstream(stream grpc.BidiStreamingServer[impartpb.DownstreamBatch, impartpb.DownstreamReplyBatch]) error {
	<-stream.Context().Done()
	return nil
}

// TestAnAnswerThatFitsNothingEndsTheConnection: no caller gets another's answer.
func TestAnAnswerThatFitsNothingEndsTheConnection(t *testing.T) {
	for name, answer := range map[string]func(*impartpb.UpstreamBatch) []*impartpb.UpstreamAck{
		"another frame": func(b *impartpb.UpstreamBatch) []*impartpb.UpstreamAck {
			return []*impartpb.UpstreamAck{{Batch: b.Id + 1, Seq: 99}}
		},
		"another place": func(b *impartpb.UpstreamBatch) []*impartpb.UpstreamAck {
			return []*impartpb.UpstreamAck{{Batch: b.Id, Index: 2, Seq: 99}}
		},
		"twice": func(b *impartpb.UpstreamBatch) []*impartpb.UpstreamAck {
			return []*impartpb.UpstreamAck{{Batch: b.Id, Seq: 1}, {Batch: b.Id, Seq: 99}, {Batch: b.Id, Index: 1, Seq: 2}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inNetwork(t, func(w *network) {
				server := grpc.NewServer()
				impartpb.RegisterLogicServiceServer(server, mad{answer: answer})
				ln := pipe.Listen("node")
				w.nodes["node:1"] = &running{addr: "node:1", ln: ln}
				var serving sync.WaitGroup
				serving.Go(func() { _ = server.Serve(ln) })
				c := w.client("node:1")
				for _, sent := range c.Send(w.t.Context(), []impart.Send{message("c-ab", 0), message("c-ab", 1)}) {
					if impart.CodeOf(sent.Err) != impart.Unavailable || sent.Seq != 0 {
						w.t.Errorf("it was taken for an answer: %+v", sent)
					}
				}
				server.Stop()
				serving.Wait()
			})
		})
	}
}
