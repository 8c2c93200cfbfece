package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
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
		err := stream.Send(&impartpb.NodeState{State: state, Beat: s.beat(), Protocol: protocol, Version: s.cfg.Version, Name: s.cfg.Name})
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

// replies writes the answers of one stream, one at a time.
type replies[R any] struct {
	mu     sync.Mutex
	stream interface{ Send(*R) error }
}

// send gives an answer. That it cannot be given, the reading side finds out too.
func (r *replies[R]) send(reply *R) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.stream.Send(reply)
}

// frames carries out the frames of a stream side by side, at most [maxFrames] at a
// time: past that nothing is read, and the client's writing stops.
func frames[Q, R any](stream grpc.BidiStreamingServer[Q, R], handle func(ctx context.Context, frame *Q, answer func(*R))) error {
	out := &replies[R]{stream: stream}
	room := make(chan struct{}, maxFrames)
	var working sync.WaitGroup
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
			handle(stream.Context(), frame, out.send)
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

// Upstream implements [impartpb.LogicServiceServer].
func (s *logicService) Upstream(stream grpc.BidiStreamingServer[impartpb.UpstreamBatch, impartpb.UpstreamAckBatch]) error {
	return frames(stream, func(ctx context.Context, b *impartpb.UpstreamBatch, answer func(*impartpb.UpstreamAckBatch)) {
		ctx, cancel := within(ctx, b.TimeoutMs)
		defer cancel()
		s.metrics.items.WithLabelValues("upstream").Observe(float64(len(b.Messages)))
		sends := convert(b.Messages, fromUpstreamMsg)
		answer(&impartpb.UpstreamAckBatch{Id: b.Id, Acks: convert(s.cfg.Logic.Send(ctx, sends), toUpstreamAck)})
	})
}

// Acks implements [impartpb.LogicServiceServer]. The acks of a batch are of several
// devices and wait for one another no more than acks of several connections do: the
// store commits them together.
func (s *logicService) Acks(stream grpc.BidiStreamingServer[impartpb.AckBatch, impartpb.AckedBatch]) error {
	return frames(stream, func(ctx context.Context, b *impartpb.AckBatch, answer func(*impartpb.AckedBatch)) {
		ctx, cancel := within(ctx, b.TimeoutMs)
		defer cancel()
		s.metrics.items.WithLabelValues("acks").Observe(float64(len(b.Acks)))
		reply := &impartpb.AckedBatch{Id: b.Id, Acked: make([]*impartpb.AckedMsg, len(b.Acks))}
		each(len(b.Acks), func(i int) { reply.Acked[i] = toAcked(s.cfg.Logic.Ack(ctx, fromAckMsg(b.Acks[i]))) })
		answer(reply)
	})
}

// Downstream implements [impartpb.LogicServiceServer].
func (s *logicService) Downstream(stream grpc.BidiStreamingServer[impartpb.DownstreamBatch, impartpb.DownstreamReply]) error {
	return frames(stream, func(ctx context.Context, b *impartpb.DownstreamBatch, answer func(*impartpb.DownstreamReply)) {
		ctx, cancel := within(ctx, b.TimeoutMs)
		defer cancel()
		s.metrics.items.WithLabelValues("downstream").Observe(float64(len(b.Requests)))
		each(len(b.Requests), func(i int) {
			r := b.Requests[i]
			part, err := s.cfg.Logic.Range(ctx, impart.ConvID(r.ConvId), impart.Seq(r.From), impart.Seq(r.Through))
			reply := &impartpb.DownstreamReply{Id: b.Id, Index: uint32(i), Error: toError(err)}
			if err == nil {
				reply.Events, reply.Audience = toEvents(part.Events), toAudience(part.Audience, r.Known)
				reply.Head, reply.Epoch, reply.More = int64(part.Head), int64(part.Epoch), part.More
			}
			answer(reply)
		})
	})
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
