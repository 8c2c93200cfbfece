package rpc

import (
	"context"
	"slices"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/rpc/impartpb"
)

// maxAudienceQueries is how many audiences are asked for at once.
const maxAudienceQueries = 256

// look is what was known of an audience before something was asked.
type look struct {
	known known // its audience is nil where nothing was
	at    time.Time
}

func (c *Client) look(conv impart.ConvID) look {
	k, _ := c.audiences.get(conv, impart.Epoch(c.epoch.Load()))
	return look{k, time.Now()}
}

// version is that of the audience, 0 for none.
func (l look) version() int64 {
	if l.known.audience == nil {
		return 0
	}
	return l.known.audience.Version
}

// audienceOf is the audience of an answer, or the one known before where the answer
// says that it is that. It is kept for the epoch of the node: in another one it would
// be taken for a later version than it is.
func (c *Client) audienceOf(l look, a *impartpb.Audience, epoch impart.Epoch) *impart.Audience {
	if a == nil {
		return nil
	}
	audience, from := l.known.audience, "cache"
	if !a.Known {
		audience, from = fromAudience(a), "node"
	}
	c.metrics.audience.WithLabelValues(from).Inc()
	if audience != nil {
		c.audiences.keep(known{audience, epoch, l.at})
	}
	return audience
}

// Audience implements [impart.Fanout]. The one of now is [audienceNow] older at most
// than a node's answer.
func (c *Client) Audience(ctx context.Context, conv impart.ConvID, version int64) (*impart.Audience, error) {
	l := c.look(conv)
	if k := l.known.audience; k != nil && (version > 0 && k.Version >= version || version == 0 && time.Since(l.known.at) < audienceNow) {
		c.metrics.audience.WithLabelValues("cache").Inc()
		return k, nil
	}
	answers, err := c.ask(ctx, []impart.ConvID{conv}, []int64{version})
	if err != nil {
		return nil, err
	}
	return answers[0].audience, answers[0].err
}

type audienceAnswer struct {
	audience *impart.Audience
	err      error
}

// ask reads audiences of the given versions from a node.
func (c *Client) ask(ctx context.Context, convs []impart.ConvID, versions []int64) ([]audienceAnswer, error) {
	answers := make([]audienceAnswer, 0, len(convs))
	for len(answers) < len(convs) {
		from := len(answers)
		n := min(len(convs)-from, maxAudienceQueries)
		looks := make([]look, n)
		request := &impartpb.AudiencesRequest{}
		for i, conv := range convs[from : from+n] {
			looks[i] = c.look(conv)
			request.Queries = append(request.Queries, &impartpb.AudienceQuery{ConvId: string(conv), Version: versions[from+i], Known: looks[i].version()})
		}
		reply, err := attempt(ctx, c, "audience", hashOf(convs[from]), again, func(ctx context.Context, s *session) (*impartpb.AudiencesReply, error) {
			reply, err := s.logic.Audiences(ctx, request)
			if err == nil && (len(reply.Answers) == 0 || len(reply.Answers) > n) {
				err = errShort
			}
			return reply, err
		})
		if err != nil {
			return nil, err
		}
		c.saw(impart.Epoch(reply.Epoch))
		for i, a := range reply.Answers {
			answers = append(answers, audienceAnswer{c.audienceOf(looks[i], a.Audience, impart.Epoch(reply.Epoch)), fromErrorOf(a.Error)})
		}
	}
	return answers, nil
}

// Written implements [impart.Fanout]. Members come over only for the conversations
// whose audience is not known in the version that was written.
func (c *Client) Written(ctx context.Context, since impart.Millis) (impart.Written, error) {
	reply, err := attempt(ctx, c, "written", uint64(since), again, func(ctx context.Context, s *session) (*impartpb.WrittenReply, error) {
		return s.logic.Written(ctx, &impartpb.WrittenRequest{Since: int64(since)})
	})
	if err != nil {
		return impart.Written{}, err
	}
	c.saw(impart.Epoch(reply.Epoch))
	written := impart.Written{Next: impart.Millis(reply.Next), Epoch: impart.Epoch(reply.Epoch), Convs: make([]impart.WrittenConv, len(reply.Convs))}
	var convs []impart.ConvID
	var versions []int64
	var places []int
	for i, w := range reply.Convs {
		conv := impart.ConvID(w.ConvId)
		written.Convs[i] = impart.WrittenConv{Conv: conv, Head: impart.Seq(w.Head)}
		if k := c.look(conv).known.audience; k != nil && k.Version >= w.Version {
			written.Convs[i].Audience = k
			continue
		}
		convs, versions, places = append(convs, conv), append(versions, w.Version), append(places, i)
	}
	answers, err := c.ask(ctx, convs, versions)
	if err != nil {
		return impart.Written{}, err
	}
	for i, a := range answers {
		if a.err != nil && impart.CodeOf(a.err) != impart.NotFound {
			return impart.Written{}, a.err
		}
		written.Convs[places[i]].Audience = a.audience
	}
	written.Convs = slices.DeleteFunc(written.Convs, func(w impart.WrittenConv) bool { return w.Audience == nil })
	return written, nil
}

// Lagging implements [impart.Fanout].
func (c *Client) Lagging(ctx context.Context, of impart.Session, all bool, limit int) (impart.LaggingPage, error) {
	page, err := attempt(ctx, c, "lagging", hashOf(of.User), again, func(ctx context.Context, s *session) (*impartpb.LaggingPage, error) {
		return s.logic.Lagging(ctx, &impartpb.LaggingRequest{Session: toSession(of), All: all, Limit: int64(limit)})
	})
	if err != nil {
		return impart.LaggingPage{}, err
	}
	c.saw(impart.Epoch(page.Epoch))
	return fromLaggingPage(page), nil
}

// Lags implements [impart.Fanout].
func (c *Client) Lags(ctx context.Context, queries []impart.LagQuery) ([]impart.Lag, error) {
	if len(queries) == 0 {
		return []impart.Lag{}, nil
	}
	lags := make([]impart.Lag, 0, len(queries))
	for part := range slices.Chunk(queries, impart.MaxLimit) {
		request := &impartpb.LagsRequest{Queries: convert(part, func(q impart.LagQuery) *impartpb.LagQuery {
			return &impartpb.LagQuery{Session: toSession(q.Session), ConvId: string(q.Conv)}
		})}
		reply, err := attempt(ctx, c, "lags", hashOf(part[0].Conv), again, func(ctx context.Context, s *session) (*impartpb.LagsReply, error) {
			reply, err := s.logic.Lags(ctx, request)
			if err == nil && len(reply.Lags) != len(part) {
				err = errShort
			}
			return reply, err
		})
		if err != nil {
			return nil, err
		}
		lags = append(lags, convert(reply.Lags, func(l *impartpb.Lag) impart.Lag {
			return impart.Lag{Head: impart.Seq(l.Head), Delivered: impart.Seq(l.Delivered)}
		})...)
	}
	return lags, nil
}
