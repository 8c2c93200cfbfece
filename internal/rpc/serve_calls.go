package rpc

import (
	"context"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/rpc/impartpb"
)

// answer is a result of the rules as a reply, or its error as a status.
func answer[A, B any](result A, err error, to func(A) B) (B, error) {
	if err != nil {
		var none B
		return none, toStatus(err)
	}
	return to(result), nil
}

// done is the answer of what has no result.
func done(err error) (*impartpb.Done, error) {
	if err != nil {
		return nil, toStatus(err)
	}
	return &impartpb.Done{}, nil
}

func (s *logicService) Hello(ctx context.Context, r *impartpb.HelloRequest) (*impartpb.Welcome, error) {
	if err := s.fresh(r.Beat); err != nil {
		return nil, toStatus(err)
	}
	welcome, err := s.cfg.Logic.Hello(ctx, fromHello(r))
	return answer(welcome, err, toWelcome)
}

func (s *logicService) Visit(ctx context.Context, r *impartpb.VisitRequest) (*impartpb.Session, error) {
	session, err := s.cfg.Logic.Visit(ctx, fromIdentity(r.Identity), impart.DeviceID(r.Device), r.Install)
	return answer(session, err, toSession)
}

func (s *logicService) Authorize(ctx context.Context, r *impartpb.Identity) (*impartpb.Done, error) {
	return done(s.cfg.Logic.Authorize(ctx, fromIdentity(r)))
}

func (s *logicService) Standings(ctx context.Context, r *impartpb.StandingsRequest) (*impartpb.StandingsReply, error) {
	standings, err := s.cfg.Logic.Standings(ctx, convert(r.Queries, fromStandingQuery))
	return answer(standings, err, func(all []impart.Standing) *impartpb.StandingsReply {
		return &impartpb.StandingsReply{Standings: convert(all, func(s impart.Standing) impartpb.Standing { return impartpb.Standing(s) })}
	})
}

func (s *logicService) Epoch(ctx context.Context, _ *impartpb.EpochRequest) (*impartpb.EpochReply, error) {
	epoch, err := s.cfg.Logic.Epoch(ctx)
	return answer(epoch, err, toEpoch)
}

func toEpoch(epoch impart.Epoch) *impartpb.EpochReply {
	return &impartpb.EpochReply{Epoch: int64(epoch)}
}

func (s *logicService) Recall(ctx context.Context, r *impartpb.RecallRequest) (*impartpb.UpstreamAck, error) {
	sent, err := s.cfg.Logic.Recall(ctx, fromRecall(r))
	return answer(sent, err, toUpstreamAck)
}

func (s *logicService) Sync(ctx context.Context, r *impartpb.SyncRequest) (*impartpb.Page, error) {
	page, err := s.cfg.Logic.Sync(ctx, fromSync(r))
	return answer(page, err, toPage)
}

func (s *logicService) Pull(ctx context.Context, r *impartpb.PullRequest) (*impartpb.Pulled, error) {
	pulled, err := s.cfg.Logic.Pull(ctx, impart.Pull{Session: fromSession(r.Session), Limit: int(r.Limit)})
	return answer(pulled, err, toPulled)
}

func (s *logicService) Convs(ctx context.Context, r *impartpb.ConvsRequest) (*impartpb.ConvsPage, error) {
	page, err := s.cfg.Logic.Convs(ctx, impart.Convs{Session: fromSession(r.Session), After: impart.ConvID(r.After), Limit: int(r.Limit)})
	return answer(page, err, toConvsPage)
}

func (s *logicService) Read(ctx context.Context, r *impartpb.ReadRequest) (*impartpb.ReadReply, error) {
	read, err := s.cfg.Logic.Read(ctx, impart.Read{
		Session: fromSession(r.Session), Conv: impart.ConvID(r.ConvId), Seq: impart.Seq(r.Seq), Epoch: impart.Epoch(r.Epoch),
	})
	return answer(read, err, func(seq impart.Seq) *impartpb.ReadReply { return &impartpb.ReadReply{Read: int64(seq)} })
}

func (s *logicService) Who(ctx context.Context, r *impartpb.WhoRequest) (*impartpb.Report, error) {
	report, err := s.cfg.Logic.Who(ctx, impart.Who{
		User: impart.UserID(r.User), Conv: impart.ConvID(r.ConvId), Seq: impart.Seq(r.Seq), After: impart.UserID(r.After), Limit: int(r.Limit),
	})
	return answer(report, err, toReport)
}

func (s *logicService) Typing(ctx context.Context, r *impartpb.TypingRequest) (*impartpb.Done, error) {
	return done(s.cfg.Logic.Typing(ctx, impart.UserID(r.User), impart.ConvID(r.ConvId)))
}

// maxAudienceMembers is how many members an answer to Audiences holds; what is left
// is asked for again.
const maxAudienceMembers = 100_000

func (s *logicService) Audiences(ctx context.Context, r *impartpb.AudiencesRequest) (*impartpb.AudiencesReply, error) {
	// Before the audiences: one of an older history is then not taken for a newer one's.
	epoch, err := s.cfg.Logic.Epoch(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	reply := &impartpb.AudiencesReply{Epoch: int64(epoch)}
	members := 0
	for _, q := range r.Queries {
		audience, err := s.cfg.Logic.Audience(ctx, impart.ConvID(q.ConvId), q.Version)
		if err != nil {
			reply.Answers = append(reply.Answers, &impartpb.AudienceAnswer{Error: toError(err)})
			continue
		}
		one := toAudience(audience, q.Known)
		reply.Answers = append(reply.Answers, &impartpb.AudienceAnswer{Audience: one})
		if members += len(one.Members); members > maxAudienceMembers {
			break
		}
	}
	return reply, nil
}

func (s *logicService) Lagging(ctx context.Context, r *impartpb.LaggingRequest) (*impartpb.LaggingPage, error) {
	page, err := s.cfg.Logic.Lagging(ctx, fromSession(r.Session), r.All, int(r.Limit))
	return answer(page, err, toLaggingPage)
}

func (s *logicService) Lags(ctx context.Context, r *impartpb.LagsRequest) (*impartpb.LagsReply, error) {
	lags, err := s.cfg.Logic.Lags(ctx, convert(r.Queries, func(q *impartpb.LagQuery) impart.LagQuery {
		return impart.LagQuery{Session: fromSession(q.Session), Conv: impart.ConvID(q.ConvId)}
	}))
	return answer(lags, err, func(lags []impart.Lag) *impartpb.LagsReply {
		return &impartpb.LagsReply{Lags: convert(lags, func(l impart.Lag) *impartpb.Lag {
			return &impartpb.Lag{Head: int64(l.Head), Delivered: int64(l.Delivered)}
		})}
	})
}

func (s *logicService) Written(ctx context.Context, r *impartpb.WrittenRequest) (*impartpb.WrittenReply, error) {
	written, err := s.cfg.Logic.Written(ctx, impart.Millis(r.Since))
	return answer(written, err, func(w impart.Written) *impartpb.WrittenReply {
		return &impartpb.WrittenReply{
			Next: int64(w.Next), Epoch: int64(w.Epoch),
			Convs: convert(w.Convs, func(c impart.WrittenConv) *impartpb.WrittenConv {
				one := &impartpb.WrittenConv{ConvId: string(c.Conv), Head: int64(c.Head)}
				if c.Audience != nil {
					one.Version = c.Audience.Version
				}
				return one
			}),
		}
	})
}
