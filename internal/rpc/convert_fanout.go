package rpc

import (
	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/rpc/impartpb"
)

func toConvState(s impart.ConvState) *impartpb.ConvState {
	return &impartpb.ConvState{
		ConvId: string(s.Conv), Kind: string(s.Kind), Head: int64(s.Head), Delivered: int64(s.Delivered), Read: int64(s.Read), Floor: int64(s.Floor),
		Unread: int64(s.Unread), Last: toEvent(s.Last),
	}
}

func fromConvState(s *impartpb.ConvState) impart.ConvState {
	state := impart.ConvState{
		Conv: impart.ConvID(s.ConvId), Kind: impart.ConvKind(s.Kind), Head: impart.Seq(s.Head), Delivered: impart.Seq(s.Delivered),
		Read: impart.Seq(s.Read), Floor: impart.Seq(s.Floor), Unread: int(s.Unread),
	}
	if s.Last != nil {
		last := fromEvent(s.Last)
		state.Last = &last
	}
	return state
}

func toConvsPage(p impart.ConvsPage) *impartpb.ConvsPage {
	return &impartpb.ConvsPage{Convs: convert(p.Convs, toConvState), More: p.More, Epoch: int64(p.Epoch)}
}

func fromConvsPage(p *impartpb.ConvsPage) impart.ConvsPage {
	return impart.ConvsPage{Convs: convert(p.Convs, fromConvState), More: p.More, Epoch: impart.Epoch(p.Epoch)}
}

func toLaggingPage(p impart.LaggingPage) *impartpb.LaggingPage {
	return &impartpb.LaggingPage{Convs: convert(p.Convs, toConvState), More: p.More, Epoch: int64(p.Epoch)}
}

func fromLaggingPage(p *impartpb.LaggingPage) impart.LaggingPage {
	return impart.LaggingPage{Convs: convert(p.Convs, fromConvState), More: p.More, Epoch: impart.Epoch(p.Epoch)}
}

func toReport(r impart.Report) *impartpb.Report {
	return &impartpb.Report{More: r.More, Users: convert(r.Users, func(u impart.UserReport) *impartpb.UserReport {
		return &impartpb.UserReport{User: string(u.User), Delivered: int64(u.Delivered), Devices: int64(u.Devices), Read: u.Read}
	})}
}

func fromReport(r *impartpb.Report) impart.Report {
	return impart.Report{More: r.More, Users: convert(r.Users, func(u *impartpb.UserReport) impart.UserReport {
		return impart.UserReport{User: impart.UserID(u.User), Delivered: int(u.Delivered), Devices: int(u.Devices), Read: u.Read}
	})}
}

func toPeriods(periods impart.Periods) []*impartpb.Period {
	return convert(periods, func(p impart.Period) *impartpb.Period { return &impartpb.Period{From: int64(p.From), To: int64(p.To)} })
}

func fromPeriods(periods []*impartpb.Period) impart.Periods {
	return convert(periods, func(p *impartpb.Period) impart.Period {
		return impart.Period{From: impart.Seq(p.From), To: impart.Seq(p.To)}
	})
}

// toAudience is an audience, without its members where the client has this version.
func toAudience(a *impart.Audience, known int64) *impartpb.Audience {
	if a == nil {
		return nil
	}
	out := &impartpb.Audience{ConvId: string(a.Conv), Version: a.Version, Current: int64(a.Current)}
	if known > 0 && a.Version == known {
		out.Known = true
		return out
	}
	out.Members = make([]*impartpb.MemberPeriods, 0, len(a.Members))
	for user, periods := range a.Members {
		out.Members = append(out.Members, &impartpb.MemberPeriods{User: string(user), Periods: toPeriods(periods)})
	}
	return out
}

func fromAudience(a *impartpb.Audience) *impart.Audience {
	out := &impart.Audience{
		Conv: impart.ConvID(a.ConvId), Version: a.Version, Current: int(a.Current), Members: make(map[impart.UserID]impart.Periods, len(a.Members)),
	}
	for _, m := range a.Members {
		out.Members[impart.UserID(m.User)] = fromPeriods(m.Periods)
	}
	return out
}

func toUserInfo(u impart.UserInfo) *impartpb.UserInfo {
	return &impartpb.UserInfo{User: string(u.User), Disabled: u.Disabled, Revoked: int64(u.Revoked)}
}

func fromUserInfo(u *impartpb.UserInfo) impart.UserInfo {
	return impart.UserInfo{User: impart.UserID(u.User), Disabled: u.Disabled, Revoked: impart.Millis(u.Revoked)}
}

func toMember(m impart.Member) *impartpb.Member {
	return &impartpb.Member{User: string(m.User), Role: string(m.Role)}
}

func fromMember(m *impartpb.Member) impart.Member {
	return impart.Member{User: impart.UserID(m.GetUser()), Role: impart.Role(m.GetRole())}
}

func toConvInfo(c impart.ConvInfo) *impartpb.ConvInfo {
	return &impartpb.ConvInfo{
		ConvId: string(c.Conv), Kind: string(c.Kind), History: string(c.History), Head: int64(c.Head), Floor: int64(c.Floor),
		Members: convert(c.Members, func(m impart.MemberInfo) *impartpb.MemberInfo {
			return &impartpb.MemberInfo{User: string(m.User), Role: string(m.Role), Periods: toPeriods(m.Periods)}
		}),
	}
}

func fromConvInfo(c *impartpb.ConvInfo) impart.ConvInfo {
	return impart.ConvInfo{
		Conv: impart.ConvID(c.GetConvId()), Kind: impart.ConvKind(c.GetKind()), History: impart.History(c.GetHistory()), Head: impart.Seq(c.GetHead()), Floor: impart.Seq(c.GetFloor()),
		Members: convert(c.GetMembers(), func(m *impartpb.MemberInfo) impart.MemberInfo {
			return impart.MemberInfo{User: impart.UserID(m.User), Role: impart.Role(m.Role), Periods: fromPeriods(m.Periods)}
		}),
	}
}

func toCursor(c impart.DeviceCursor) *impartpb.DeviceCursor {
	return &impartpb.DeviceCursor{
		User: string(c.User), Device: string(c.Device), ConvId: string(c.Conv), Install: int64(c.Install), Epoch: int64(c.Epoch), Start: int64(c.Start),
		Delivered: int64(c.Delivered), Updated: int64(c.Updated),
	}
}

func fromCursor(c *impartpb.DeviceCursor) impart.DeviceCursor {
	return impart.DeviceCursor{
		User: impart.UserID(c.User), Device: impart.DeviceID(c.Device), Conv: impart.ConvID(c.ConvId), Install: impart.InstallEpoch(c.Install),
		Epoch: impart.Epoch(c.Epoch), Start: impart.Seq(c.Start), Delivered: impart.Seq(c.Delivered), Updated: impart.Millis(c.Updated),
	}
}

func toDelivery(d impart.Delivery) *impartpb.DeliveryReply {
	return &impartpb.DeliveryReply{
		Event: toEvent(&d.Event), Head: int64(d.Head),
		Users: convert(d.Users, func(u impart.UserDelivery) *impartpb.UserDelivery {
			return &impartpb.UserDelivery{User: string(u.User), Read: u.Read, Devices: convert(u.Devices, toCursor)}
		}),
	}
}

func fromDelivery(d *impartpb.DeliveryReply) impart.Delivery {
	delivery := impart.Delivery{
		Head: impart.Seq(d.Head),
		Users: convert(d.Users, func(u *impartpb.UserDelivery) impart.UserDelivery {
			return impart.UserDelivery{User: impart.UserID(u.User), Read: u.Read, Devices: convert(u.Devices, fromCursor)}
		}),
	}
	if d.Event != nil {
		delivery.Event = fromEvent(d.Event)
	}
	return delivery
}

func toDevice(d impart.DeviceInfo) *impartpb.DeviceInfo {
	return &impartpb.DeviceInfo{
		User: string(d.User), Device: string(d.Device), Install: int64(d.Install), N: d.N, Session: d.Session, LastSeen: int64(d.LastSeen),
		Cursors: convert(d.Cursors, toCursor),
	}
}

func fromDevice(d *impartpb.DeviceInfo) impart.DeviceInfo {
	return impart.DeviceInfo{
		User: impart.UserID(d.User), Device: impart.DeviceID(d.Device), Install: impart.InstallEpoch(d.Install), N: d.N, Session: d.Session,
		LastSeen: impart.Millis(d.LastSeen), Cursors: convert(d.Cursors, fromCursor),
	}
}

func toHistory(h impart.HistoryInfo) *impartpb.HistoryInfo {
	out := &impartpb.HistoryInfo{
		State: h.State, Epoch: int64(h.Epoch), Incarnation: h.Incarnation, Met: h.Met, Waiting: h.Waiting, Since: int64(h.Since), Lost: h.Lost,
	}
	if l := h.Last; l != nil {
		out.Last = &impartpb.JudgementInfo{
			At: int64(l.At), Raised: l.Raised, Epoch: int64(l.Epoch), Why: l.Why, Late: l.Late, Missing: l.Missing, Lost: l.Lost, Halted: int64(l.Halted),
		}
	}
	return out
}

func fromHistory(h *impartpb.HistoryInfo) impart.HistoryInfo {
	out := impart.HistoryInfo{
		State: h.State, Epoch: impart.Epoch(h.Epoch), Incarnation: h.Incarnation, Met: h.Met, Waiting: h.Waiting, Since: impart.Millis(h.Since), Lost: h.Lost,
	}
	if l := h.Last; l != nil {
		out.Last = &impart.JudgementInfo{
			At: impart.Millis(l.At), Raised: l.Raised, Epoch: impart.Epoch(l.Epoch), Why: l.Why, Late: l.Late, Missing: l.Missing, Lost: l.Lost, Halted: impart.Millis(l.Halted),
		}
	}
	return out
}
