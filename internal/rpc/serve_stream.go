package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/rpc/impartpb"
)

type logicService struct {
	impartpb.UnimplementedLogicServiceServer
	*Server
}

// Watch implements [impartpb.LogicServiceServer].
func (s *logicService) Watch(r *impartpb.WatchRequest, stream grpc.ServerStreamingServer[impartpb.NodeState]) error {
	protocol := min(r.Protocol, newestProtocol)
	if protocol < r.Oldest || protocol < oldestProtocol {
		s.cfg.Log.Error("a gateway of another version was turned away: run versions that share a protocol",
			"gateway", r.Name, "version", r.Version, "speaks", span(r.Oldest, r.Protocol), "own", span(oldestProtocol, newestProtocol))
		return status.Errorf(codes.FailedPrecondition, "logic node %s (%s) speaks protocol %s, and gateway %s (%s) speaks %s: upgrade the older one",
			s.cfg.Name, s.cfg.Version, span(oldestProtocol, newestProtocol), r.Name, r.Version, span(r.Oldest, r.Protocol))
	}
	s.clients.Add(1)
	defer s.clients.Add(-1)
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		state, changed := s.now()
		err := stream.Send(&impartpb.NodeState{State: state, Beat: s.beat(), Protocol: protocol, Version: s.cfg.Version, Name: s.cfg.Name, MaxBody: int64(s.cfg.MaxBody), Bus: s.cfg.Bus})
		if err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-changed:
		case <-stream.Context().Done():
			return nil
		case <-s.ctx.Done():
			return status.Error(codes.Unavailable, "the node ends")
		}
	}
}

// span names versions from..to.
func span(from, to int32) string {
	if from == to {
		return fmt.Sprintf("version %d", from)
	}
	return fmt.Sprintf("versions %d to %d", from, to)
}

// answers are what waits to be written to one stream. What is ready while a frame is
// written shares the next one.
type answers[A any] struct {
	wake chan struct{} // a token: something waits, or nothing more will come

	mu     sync.Mutex // guards the rest
	list   []A
	closed bool
}

func (a *answers[A]) add(more ...A) {
	a.mu.Lock()
	a.list = append(a.list, more...)
	a.mu.Unlock()
	signal(a.wake)
}

// end lets write return once all is written.
func (a *answers[A]) end() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	signal(a.wake)
}

// take is all that waits; more is false at the end.
func (a *answers[A]) take() (list []A, more bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	list, a.list = a.list, nil
	return list, !a.closed
}

// write sends answers until the end. That one cannot be sent, the reading side finds
// out too; the rest is thrown away then.
func (a *answers[A]) write(send func(A, []A) (rest []A, err error)) {
	for more := true; more; {
		<-a.wake
		runtime.Gosched() // what becomes ready now goes along
		var list []A
		var err error
		for list, more = a.take(); len(list) > 0 && err == nil; {
			list, err = send(list[0], list)
		}
	}
}

// frames carries out the frames of a stream side by side, at most [maxFrames] at a
// time: past that nothing is read, and the client's writing stops. pack makes a frame
// of answers, which are of so many bytes.
func frames[Q, A, R any](stream grpc.BidiStreamingServer[Q, R], pack func([]A) *R, size func(A) int,
	handle func(ctx context.Context, frame *Q, answer func(...A)),
) error {
	out := &answers[A]{wake: make(chan struct{}, 1)}
	room := make(chan struct{}, maxFrames)
	var working, writing sync.WaitGroup
	writing.Go(func() {
		out.write(func(first A, list []A) ([]A, error) {
			n, bytes := 1, size(first)
			for n < len(list) && bytes+size(list[n]) <= maxFrameBytes {
				bytes += size(list[n])
				n++
			}
			return list[n:], stream.Send(pack(list[:n]))
		})
	})
	defer writing.Wait()
	defer out.end()
	defer working.Wait()
	for {
		frame, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		room <- struct{}{}
		working.Go(func() {
			defer func() { <-room }()
			handle(stream.Context(), frame, out.add)
		})
	}
}

// within is ctx with what is left of the deadline of a frame.
func within(ctx context.Context, timeout int64) (context.Context, context.CancelFunc) {
	if timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration(timeout)*time.Millisecond)
}

// Upstream implements [impartpb.LogicServiceServer]. The conversations of a batch do not
// wait for one another, as they would in one Send; the store commits them together.
func (s *logicService) Upstream(stream grpc.BidiStreamingServer[impartpb.UpstreamBatch, impartpb.UpstreamAckBatch]) error {
	pack := func(acks []*impartpb.UpstreamAck) *impartpb.UpstreamAckBatch {
		return &impartpb.UpstreamAckBatch{Acks: acks}
	}
	size := func(*impartpb.UpstreamAck) int { return 2 * impart.MaxID }
	return frames(stream, pack, size, func(ctx context.Context, b *impartpb.UpstreamBatch, answer func(...*impartpb.UpstreamAck)) {
		ctx, cancel := within(ctx, b.TimeoutMs)
		defer cancel()
		s.metrics.items.WithLabelValues("upstream").Observe(float64(len(b.Messages)))
		groups := byConversation(b.Messages)
		each(len(groups), func(i int) {
			sends := make([]impart.Send, len(groups[i]))
			for k, place := range groups[i] {
				sends[k] = fromUpstreamMsg(b.Messages[place])
			}
			acks := make([]*impartpb.UpstreamAck, len(sends))
			for k, sent := range s.cfg.Logic.Send(ctx, sends) {
				acks[k] = toUpstreamAck(sent)
				acks[k].Batch, acks[k].Index = b.Id, uint32(groups[i][k])
			}
			answer(acks...)
		})
	})
}

// byConversation sorts the places of messages by their conversation; within one they
// keep their order.
func byConversation(messages []*impartpb.UpstreamMsg) [][]int {
	groups := make([][]int, 0, len(messages))
	at := make(map[string]int, len(messages))
	for place, m := range messages {
		k, found := at[m.ConvId]
		if !found {
			k = len(groups)
			at[m.ConvId] = k
			groups = append(groups, nil)
		}
		groups[k] = append(groups[k], place)
	}
	return groups
}

// Acks implements [impartpb.LogicServiceServer]. The acks of a batch are of several
// devices and wait for one another no more than acks of several connections do: the
// store commits them together.
func (s *logicService) Acks(stream grpc.BidiStreamingServer[impartpb.AckBatch, impartpb.AckedBatch]) error {
	pack := func(acked []*impartpb.AckedMsg) *impartpb.AckedBatch { return &impartpb.AckedBatch{Acked: acked} }
	size := func(a *impartpb.AckedMsg) int { return 16 + len(a.Items)*2*impart.MaxID }
	return frames(stream, pack, size, func(ctx context.Context, b *impartpb.AckBatch, answer func(...*impartpb.AckedMsg)) {
		ctx, cancel := within(ctx, b.TimeoutMs)
		defer cancel()
		s.metrics.items.WithLabelValues("acks").Observe(float64(len(b.Acks)))
		each(len(b.Acks), func(i int) {
			acked := toAcked(s.cfg.Logic.Ack(ctx, fromAckMsg(b.Acks[i])))
			acked.Batch, acked.Index = b.Id, uint32(i)
			answer(acked)
		})
	})
}

// Downstream implements [impartpb.LogicServiceServer].
func (s *logicService) Downstream(stream grpc.BidiStreamingServer[impartpb.DownstreamBatch, impartpb.DownstreamReplyBatch]) error {
	pack := func(replies []*impartpb.DownstreamReply) *impartpb.DownstreamReplyBatch {
		return &impartpb.DownstreamReplyBatch{Replies: replies}
	}
	return frames(stream, pack, sizeOfReply, func(ctx context.Context, b *impartpb.DownstreamBatch, answer func(...*impartpb.DownstreamReply)) {
		ctx, cancel := within(ctx, b.TimeoutMs)
		defer cancel()
		s.metrics.items.WithLabelValues("downstream").Observe(float64(len(b.Requests)))
		each(len(b.Requests), func(i int) {
			r := b.Requests[i]
			part, err := s.cfg.Logic.Range(ctx, impart.ConvID(r.ConvId), impart.Seq(r.From), impart.Seq(r.Through))
			reply := &impartpb.DownstreamReply{Batch: b.Id, Index: uint32(i), Error: toError(err)}
			if err == nil {
				reply.Events, reply.Audience = toEvents(part.Events), toAudience(part.Audience, r.Known)
				reply.Head, reply.Epoch, reply.More = int64(part.Head), int64(part.Epoch), part.More
			}
			answer(reply)
		})
	})
}

// sizeOfReply is about how many bytes a part of a log takes.
func sizeOfReply(r *impartpb.DownstreamReply) int {
	bytes := 64 + 2*impart.MaxID*len(r.GetAudience().GetMembers())
	for _, e := range r.Events {
		bytes += 2*impart.MaxID + len(e.Body) + len(e.Ext)
	}
	return bytes
}

// each calls do for 0..n-1, side by side, and returns when all have returned.
func each(n int, do func(i int)) {
	if n == 1 {
		do(0)
		return
	}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

func toAckMsg(a *impart.Ack) *impartpb.AckMsg {
	return &impartpb.AckMsg{
		Session: toSession(a.Session), N: a.N, Epoch: int64(a.Epoch),
		Items: convert(a.Items, func(i impart.AckItem) *impartpb.AckItem {
			return &impartpb.AckItem{ConvId: string(i.Conv), Seq: int64(i.Seq)}
		}),
	}
}

func fromAckMsg(m *impartpb.AckMsg) impart.Ack {
	return impart.Ack{
		Session: fromSession(m.Session), N: m.N, Epoch: impart.Epoch(m.Epoch),
		Items: convert(m.Items, func(i *impartpb.AckItem) impart.AckItem {
			return impart.AckItem{Conv: impart.ConvID(i.ConvId), Seq: impart.Seq(i.Seq)}
		}),
	}
}

func toAcked(acked []impart.Acked) *impartpb.AckedMsg {
	return &impartpb.AckedMsg{Items: convert(acked, func(a impart.Acked) *impartpb.Acked {
		return &impartpb.Acked{ConvId: string(a.Conv), Delivered: int64(a.Delivered), Error: toError(a.Err)}
	})}
}

func fromAcked(m *impartpb.AckedMsg) []impart.Acked {
	return convert(m.GetItems(), func(a *impartpb.Acked) impart.Acked {
		return impart.Acked{Conv: impart.ConvID(a.ConvId), Delivered: impart.Seq(a.Delivered), Err: fromErrorOf(a.Error)}
	})
}
