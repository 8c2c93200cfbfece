package rpc

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/rpc/impartpb"
)

// kind is what a call is, what it concerns, and whether it may be made again.
type kind struct {
	op  string
	key uint64
	how repeat
}

// unary makes a call that is no stream's.
func unary[S, Q, P, R any](ctx context.Context, c *Client, k kind, of func(*session) S,
	method func(S, context.Context, *Q, ...grpc.CallOption) (*P, error), body func(beat int64) *Q, from func(*P) R,
) (R, error) {
	reply, err := attempt(ctx, c, k.op, k.key, k.how, func(ctx context.Context, s *session) (*P, error) {
		return method(of(s), ctx, body(s.beat.Load()))
	})
	if err != nil {
		var none R
		return none, err
	}
	return from(reply), nil
}

func rules(s *session) impartpb.LogicServiceClient { return s.logic }
func admin(s *session) impartpb.AdminServiceClient { return s.admin }

// plain is the body of a request that may be carried out late.
func plain[Q any](body *Q) func(int64) *Q { return func(int64) *Q { return body } }

func nothing(*impartpb.Done) struct{} { return struct{}{} }

// Hello implements [impart.Sessions]. It is made once: a first attempt that was
// carried out after a second would outdo the session that the device was told.
func (c *Client) Hello(ctx context.Context, hello impart.Hello) (impart.Welcome, error) {
	came := time.Now()
	welcome, err := unary(ctx, c, kind{"hello", hashOf(hello.Identity.User), once}, rules, impartpb.LogicServiceClient.Hello,
		func(beat int64) *impartpb.HelloRequest {
			// A device may have said hello elsewhere while this one waited for a node.
			late := hello
			late.Age += time.Since(came)
			return toHello(late, beat)
		}, fromWelcome)
	c.saw(welcome.Epoch)
	return welcome, err
}

// Visit implements [impart.Sessions].
func (c *Client) Visit(ctx context.Context, id impart.Identity, device impart.DeviceID, install string) (impart.Session, error) {
	return unary(ctx, c, kind{"visit", hashOf(id.User), again}, rules, impartpb.LogicServiceClient.Visit,
		plain(&impartpb.VisitRequest{Identity: toIdentity(id), Device: string(device), Install: install}), fromSession)
}

// Authorize implements [impart.Sessions].
func (c *Client) Authorize(ctx context.Context, id impart.Identity) error {
	_, err := unary(ctx, c, kind{"authorize", hashOf(id.User), again}, rules, impartpb.LogicServiceClient.Authorize,
		plain(toIdentity(id)), nothing)
	return err
}

// Standings implements [impart.Sessions].
func (c *Client) Standings(ctx context.Context, queries []impart.StandingQuery) ([]impart.Standing, error) {
	if len(queries) == 0 {
		return []impart.Standing{}, nil
	}
	return attempt(ctx, c, "standings", hashOf(queries[0].Session.User), again, func(ctx context.Context, s *session) ([]impart.Standing, error) {
		reply, err := s.logic.Standings(ctx, &impartpb.StandingsRequest{Queries: convert(queries, toStandingQuery)})
		if err == nil && len(reply.Standings) != len(queries) {
			err = errShort
		}
		return convert(reply.GetStandings(), func(s impartpb.Standing) impart.Standing { return impart.Standing(s) }), err
	})
}

// Epoch implements [impart.Sessions].
func (c *Client) Epoch(ctx context.Context) (impart.Epoch, error) {
	epoch, err := unary(ctx, c, kind{"epoch", 0, again}, rules, impartpb.LogicServiceClient.Epoch,
		plain(&impartpb.EpochRequest{}), fromEpoch)
	c.saw(epoch)
	return epoch, err
}

func fromEpoch(r *impartpb.EpochReply) impart.Epoch { return impart.Epoch(r.Epoch) }

// Recall implements [impart.Log]. A repeat is safe: it has a cmid too.
func (c *Client) Recall(ctx context.Context, recall impart.Recall) (impart.Sent, error) {
	return unary(ctx, c, kind{"recall", hashOf(recall.Conv), again}, rules, impartpb.LogicServiceClient.Recall,
		plain(toRecall(recall)), fromUpstreamAck)
}

// Sync implements [impart.Log].
func (c *Client) Sync(ctx context.Context, sync impart.Sync) (impart.Page, error) {
	return unary(ctx, c, kind{"sync", hashOf(sync.Conv), again}, rules, impartpb.LogicServiceClient.Sync,
		plain(toSync(sync)), fromPage)
}

// Pull implements [impart.Log].
func (c *Client) Pull(ctx context.Context, pull impart.Pull) (impart.Pulled, error) {
	return unary(ctx, c, kind{"pull", hashOf(pull.Session.User), again}, rules, impartpb.LogicServiceClient.Pull,
		plain(&impartpb.PullRequest{Session: toSession(pull.Session), Limit: int64(pull.Limit)}), fromPulled)
}

// Convs implements [impart.Log].
func (c *Client) Convs(ctx context.Context, convs impart.Convs) (impart.ConvsPage, error) {
	return unary(ctx, c, kind{"convs", hashOf(convs.Session.User), again}, rules, impartpb.LogicServiceClient.Convs,
		plain(&impartpb.ConvsRequest{Session: toSession(convs.Session), After: string(convs.After), Limit: int64(convs.Limit)}), fromConvsPage)
}

// Read implements [impart.Cursors]. A repeat is safe: the cursor is merged.
func (c *Client) Read(ctx context.Context, read impart.Read) (impart.Seq, error) {
	return unary(ctx, c, kind{"read", hashOf(read.Conv), again}, rules, impartpb.LogicServiceClient.Read,
		plain(&impartpb.ReadRequest{Session: toSession(read.Session), ConvId: string(read.Conv), Seq: int64(read.Seq), Epoch: int64(read.Epoch)}),
		func(r *impartpb.ReadReply) impart.Seq { return impart.Seq(r.Read) })
}

// Who implements [impart.Cursors].
func (c *Client) Who(ctx context.Context, who impart.Who) (impart.Report, error) {
	return unary(ctx, c, kind{"who", hashOf(who.Conv), again}, rules, impartpb.LogicServiceClient.Who,
		plain(&impartpb.WhoRequest{User: string(who.User), ConvId: string(who.Conv), Seq: int64(who.Seq), After: string(who.After), Limit: int64(who.Limit)}),
		fromReport)
}

// Typing implements [impart.Cursors]: now or never.
func (c *Client) Typing(ctx context.Context, user impart.UserID, conv impart.ConvID) error {
	_, err := unary(ctx, c, kind{"typing", hashOf(conv), once}, rules, impartpb.LogicServiceClient.Typing,
		plain(&impartpb.TypingRequest{User: string(user), ConvId: string(conv)}), nothing)
	return err
}
