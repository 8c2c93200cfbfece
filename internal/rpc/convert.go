package rpc

import (
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/rpc/impartpb"
)

// Each pair of functions carries one type there and back. to… may share memory with
// what it is given; from… gives what belongs to its caller.

// convert is every element of in, converted; nil for nil.
func convert[A, B any](in []A, one func(A) B) []B {
	if in == nil {
		return nil
	}
	out := make([]B, len(in))
	for i := range in {
		out[i] = one(in[i])
	}
	return out
}

// count is a number that may be absent, as a copy.
func count[A, B ~int64](p *A) *B {
	if p == nil {
		return nil
	}
	v := B(*p)
	return &v
}

// bytesOf keeps nil apart from empty.
func bytesOf(b []byte) []byte {
	if b != nil && len(b) == 0 {
		return []byte{}
	}
	return b
}

func toUpstreamMsg(s *impart.Send) *impartpb.UpstreamMsg {
	return &impartpb.UpstreamMsg{
		Sender: string(s.Sender), Device: string(s.Device), ConvId: string(s.Conv), ClientMsgId: string(s.CMID), Prev: string(s.Prev),
		Type: s.Type, Body: s.Body, Ext: s.Ext, Epoch: int64(s.Epoch),
	}
}

func fromUpstreamMsg(m *impartpb.UpstreamMsg) impart.Send {
	return impart.Send{
		Sender: impart.UserID(m.Sender), Device: impart.DeviceID(m.Device), Conv: impart.ConvID(m.ConvId), CMID: impart.CMID(m.ClientMsgId),
		Prev: impart.CMID(m.Prev), Type: m.Type, Body: m.Body, Ext: bytesOf(m.Ext), Epoch: impart.Epoch(m.Epoch),
	}
}

func toUpstreamAck(s impart.Sent) *impartpb.UpstreamAck {
	return &impartpb.UpstreamAck{
		ConvId: string(s.Conv), Seq: int64(s.Seq), MsgId: string(s.MID), Dup: s.Dup, Epoch: int64(s.Epoch), At: int64(s.At), Error: toError(s.Err),
	}
}

func fromUpstreamAck(a *impartpb.UpstreamAck) impart.Sent {
	return impart.Sent{
		Conv: impart.ConvID(a.ConvId), Seq: impart.Seq(a.Seq), MID: impart.MID(a.MsgId), Dup: a.Dup, Epoch: impart.Epoch(a.Epoch),
		At: impart.Millis(a.At), Err: fromErrorOf(a.Error),
	}
}

func toEvent(e *impart.Event) *impartpb.DownstreamMsg {
	if e == nil {
		return nil
	}
	return &impartpb.DownstreamMsg{
		ConvId: string(e.Conv), Seq: int64(e.Seq), Kind: string(e.Kind), MsgId: string(e.MID), Sender: string(e.Sender), Device: string(e.Device),
		ClientMsgId: string(e.CMID), Type: e.Type, Body: e.Body, Ext: e.Ext, At: int64(e.At), Target: int64(e.Target),
		TargetMsgId: string(e.TargetMID), User: string(e.User), By: string(e.By), Recalled: e.Recalled,
	}
}

func fromEvent(m *impartpb.DownstreamMsg) impart.Event {
	return impart.Event{
		Conv: impart.ConvID(m.ConvId), Seq: impart.Seq(m.Seq), Kind: impart.Kind(m.Kind), MID: impart.MID(m.MsgId), Sender: impart.UserID(m.Sender),
		Device: impart.DeviceID(m.Device), CMID: impart.CMID(m.ClientMsgId), Type: m.Type, Body: m.Body, Ext: bytesOf(m.Ext), At: impart.Millis(m.At),
		Target: impart.Seq(m.Target), TargetMID: impart.MID(m.TargetMsgId), User: impart.UserID(m.User), By: impart.UserID(m.By), Recalled: m.Recalled,
	}
}

func toEvents(events []impart.Event) []*impartpb.DownstreamMsg {
	out := make([]*impartpb.DownstreamMsg, len(events))
	for i := range events {
		out[i] = toEvent(&events[i])
	}
	return out
}

func toIdentity(id impart.Identity) *impartpb.Identity {
	return &impartpb.Identity{User: string(id.User), Issued: int64(id.Issued), Expires: int64(id.Expires)}
}

func fromIdentity(id *impartpb.Identity) impart.Identity {
	return impart.Identity{User: impart.UserID(id.GetUser()), Issued: impart.Millis(id.GetIssued()), Expires: impart.Millis(id.GetExpires())}
}

func toSession(s impart.Session) *impartpb.Session {
	return &impartpb.Session{User: string(s.User), Device: string(s.Device), Install: int64(s.Install), Number: s.Number}
}

func fromSession(s *impartpb.Session) impart.Session {
	return impart.Session{
		User: impart.UserID(s.GetUser()), Device: impart.DeviceID(s.GetDevice()), Install: impart.InstallEpoch(s.GetInstall()), Number: s.GetNumber(),
	}
}

func toStandingQuery(q impart.StandingQuery) *impartpb.StandingQuery {
	return &impartpb.StandingQuery{Session: toSession(q.Session), Issued: int64(q.Issued)}
}

func fromStandingQuery(q *impartpb.StandingQuery) impart.StandingQuery {
	return impart.StandingQuery{Session: fromSession(q.GetSession()), Issued: impart.Millis(q.GetIssued())}
}

func toHello(h impart.Hello, beat int64) *impartpb.HelloRequest {
	return &impartpb.HelloRequest{
		Identity: toIdentity(h.Identity), Device: string(h.Device), Install: h.Install, N: h.N, History: h.History, Create: h.Create, Beat: beat, Age: int64(h.Age),
	}
}

func fromHello(h *impartpb.HelloRequest) impart.Hello {
	return impart.Hello{
		Identity: fromIdentity(h.Identity), Device: impart.DeviceID(h.Device), Install: h.Install, N: h.N, History: h.History, Create: h.Create, Age: time.Duration(h.Age),
	}
}

func toWelcome(w impart.Welcome) *impartpb.Welcome {
	return &impartpb.Welcome{Session: toSession(w.Session), N: w.N, Fresh: w.Fresh, Epoch: int64(w.Epoch), Now: int64(w.Now)}
}

func fromWelcome(w *impartpb.Welcome) impart.Welcome {
	return impart.Welcome{Session: fromSession(w.Session), N: w.N, Fresh: w.Fresh, Epoch: impart.Epoch(w.Epoch), Now: impart.Millis(w.Now)}
}

func toRecall(r impart.Recall) *impartpb.RecallRequest {
	return &impartpb.RecallRequest{
		Sender: string(r.Sender), Device: string(r.Device), ConvId: string(r.Conv), Seq: int64(r.Seq), ClientMsgId: string(r.CMID), MsgId: string(r.MID),
		Epoch: int64(r.Epoch),
	}
}

func fromRecall(r *impartpb.RecallRequest) impart.Recall {
	return impart.Recall{
		Sender: impart.UserID(r.Sender), Device: impart.DeviceID(r.Device), Conv: impart.ConvID(r.ConvId), Seq: impart.Seq(r.Seq),
		CMID: impart.CMID(r.ClientMsgId), MID: impart.MID(r.MsgId), Epoch: impart.Epoch(r.Epoch),
	}
}

func toSync(s impart.Sync) *impartpb.SyncRequest {
	return &impartpb.SyncRequest{
		User: string(s.User), ConvId: string(s.Conv), After: count[impart.Seq, int64](s.After), Before: count[impart.Seq, int64](s.Before),
		AfterMsgId: string(s.AfterMID), Limit: int64(s.Limit), Epoch: int64(s.Epoch),
	}
}

func fromSync(s *impartpb.SyncRequest) impart.Sync {
	return impart.Sync{
		User: impart.UserID(s.User), Conv: impart.ConvID(s.ConvId), After: count[int64, impart.Seq](s.After), Before: count[int64, impart.Seq](s.Before),
		AfterMID: impart.MID(s.AfterMsgId), Limit: int(s.Limit), Epoch: impart.Epoch(s.Epoch),
	}
}

func toPage(p impart.Page) *impartpb.Page {
	return &impartpb.Page{
		ConvId: string(p.Conv), Events: toEvents(p.Events), Through: int64(p.Through), Head: int64(p.Head), Floor: int64(p.Floor), More: p.More, Epoch: int64(p.Epoch),
	}
}

func fromPage(p *impartpb.Page) impart.Page {
	return impart.Page{
		Conv: impart.ConvID(p.ConvId), Events: convert(p.Events, fromEvent), Through: impart.Seq(p.Through), Head: impart.Seq(p.Head),
		Floor: impart.Seq(p.Floor), More: p.More, Epoch: impart.Epoch(p.Epoch),
	}
}

func toPulled(p impart.Pulled) *impartpb.Pulled {
	return &impartpb.Pulled{
		Convs: convert(p.Convs, toPage),
		Failed: convert(p.Failed, func(f impart.PullFailure) *impartpb.PullFailure {
			return &impartpb.PullFailure{ConvId: string(f.Conv), Code: string(f.Code)}
		}),
		More: p.More, Epoch: int64(p.Epoch),
	}
}

func fromPulled(p *impartpb.Pulled) impart.Pulled {
	return impart.Pulled{
		Convs: convert(p.Convs, fromPage),
		Failed: convert(p.Failed, func(f *impartpb.PullFailure) impart.PullFailure {
			return impart.PullFailure{Conv: impart.ConvID(f.ConvId), Code: impart.Code(f.Code)}
		}),
		More: p.More, Epoch: impart.Epoch(p.Epoch),
	}
}
