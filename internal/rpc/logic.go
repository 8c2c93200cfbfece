package rpc

import (
	"context"
	"errors"
	"sync"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/rpc/impartpb"
)

// errShort is an answer that is not one for each item.
var errShort = errors.New("rpc: fewer answers than items")

// Send implements [impart.Log]. Messages of one conversation travel together, in
// their order; where several nodes serve, those of different conversations may go to
// different nodes. A repeat is safe: the cmid makes it one message.
func (c *Client) Send(ctx context.Context, sends []impart.Send) []impart.Sent {
	sent := make([]impart.Sent, len(sends))
	groups := c.route(sends)
	if len(groups) == 1 {
		c.sendGroup(ctx, sends, groups[0], sent)
		return sent
	}
	var all sync.WaitGroup
	for _, group := range groups {
		all.Go(func() { c.sendGroup(ctx, sends, group, sent) })
	}
	all.Wait()
	return sent
}

// route sorts the places of sends by the node that they go to.
func (c *Client) route(sends []impart.Send) [][]int {
	if len(sends) == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var groups [][]int
	at := map[*session]int{}
	for i := range sends {
		var to *session
		if len(c.ready) > 1 {
			to = c.best(hashOf(sends[i].Conv), nil)
		}
		k, found := at[to]
		if !found {
			k = len(groups)
			at[to] = k
			groups = append(groups, nil)
		}
		groups[k] = append(groups[k], i)
	}
	return groups
}

// sendGroup sends what goes to one node: what is too much for one go in parts, one
// after the other.
func (c *Client) sendGroup(ctx context.Context, sends []impart.Send, places []int, sent []impart.Sent) {
	for len(places) > 0 {
		n, bytes := 0, 0
		for n < len(places) && (n == 0 || bytes+len(sends[places[n]].Body) <= maxCallBytes) {
			bytes += len(sends[places[n]].Body)
			n++
		}
		c.sendPart(ctx, sends, places[:n], sent)
		places = places[n:]
	}
}

func (c *Client) sendPart(ctx context.Context, sends []impart.Send, places []int, sent []impart.Sent) {
	messages := make([]*impartpb.UpstreamMsg, len(places))
	for i, place := range places {
		messages[i] = toUpstreamMsg(&sends[place])
	}
	key := hashOf(sends[places[0]].Conv)
	acks, err := attempt(ctx, c, "send", key, again, func(ctx context.Context, s *session) ([]*impartpb.UpstreamAck, error) {
		return s.upstream.do(ctx, messages)
	})
	for i, place := range places {
		if err != nil {
			sent[place] = impart.Sent{Conv: sends[place].Conv, Err: err}
			continue
		}
		sent[place] = fromUpstreamAck(acks[i])
		c.saw(sent[place].Epoch)
	}
}

// Ack implements [impart.Cursors]. A repeat is safe: cursors are merged.
func (c *Client) Ack(ctx context.Context, ack impart.Ack) []impart.Acked {
	message := []*impartpb.AckMsg{toAckMsg(&ack)}
	acked, err := attempt(ctx, c, "ack", hashOf(ack.Session.User), again, func(ctx context.Context, s *session) ([]impart.Acked, error) {
		answers, err := s.acks.do(ctx, message)
		if err != nil {
			return nil, err
		}
		acked := fromAcked(answers[0])
		if len(acked) != len(ack.Items) {
			return nil, errShort
		}
		return acked, nil
	})
	if err == nil {
		return acked
	}
	acked = make([]impart.Acked, len(ack.Items))
	for i, item := range ack.Items {
		acked[i] = impart.Acked{Conv: item.Conv, Err: err}
	}
	return acked
}

// Range implements [impart.Fanout]. Members are sent only where the client does not
// have them.
func (c *Client) Range(ctx context.Context, conv impart.ConvID, from, through impart.Seq) (impart.Range, error) {
	look := c.look(conv)
	request := []*impartpb.DownstreamRequest{{ConvId: string(conv), From: int64(from), Through: int64(through), Known: look.version()}}
	r, err := attempt(ctx, c, "range", hashOf(conv), again, func(ctx context.Context, s *session) (*impartpb.DownstreamReply, error) {
		answers, err := s.downstream.do(ctx, request)
		if err != nil {
			return nil, err
		}
		return answers[0], fromErrorOf(answers[0].Error)
	})
	if err != nil {
		return impart.Range{}, err
	}
	c.saw(impart.Epoch(r.Epoch))
	part := impart.Range{
		Events: convert(r.Events, fromEvent), Head: impart.Seq(r.Head), Epoch: impart.Epoch(r.Epoch), More: r.More,
	}
	part.Audience = c.audienceOf(look, r.Audience, impart.Epoch(r.Epoch))
	return part, nil
}
