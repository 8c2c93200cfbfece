package rpc

import (
	"context"
	"fmt"
	"sync"

	"github.com/impart-im/impart"
)

// shelf is a store that several nodes share: a cmid is stored once.
type shelf struct {
	mu     sync.Mutex
	seqs   map[impart.CMID]impart.Seq
	heads  map[impart.ConvID]impart.Seq
	hellos int
}

func newShelf() *shelf {
	return &shelf{seqs: map[impart.CMID]impart.Seq{}, heads: map[impart.ConvID]impart.Seq{}}
}

// clerk is the rules of one node on a shelf.
type clerk struct {
	fake
	shelf *shelf

	mu     sync.Mutex // guards the rest
	convs  map[impart.ConvID]int
	frames []int                                      // sizes of what came together
	before func(ctx context.Context, s []impart.Send) // of each Send
	after  func()                                     // between commit and answer
}

func newClerk(s *shelf) *clerk { return &clerk{shelf: s, convs: map[impart.ConvID]int{}} }

func (c *clerk) Send(ctx context.Context, sends []impart.Send) []impart.Sent {
	c.mu.Lock()
	c.frames = append(c.frames, len(sends))
	before, after := c.before, c.after
	for _, s := range sends {
		c.convs[s.Conv]++
	}
	c.mu.Unlock()
	if before != nil {
		before(ctx, sends)
	}
	out := make([]impart.Sent, len(sends))
	c.shelf.mu.Lock()
	for i, s := range sends {
		seq, dup := c.shelf.seqs[s.CMID]
		if !dup {
			c.shelf.heads[s.Conv]++
			seq = c.shelf.heads[s.Conv]
			c.shelf.seqs[s.CMID] = seq
		}
		out[i] = impart.Sent{Conv: s.Conv, Seq: seq, MID: impart.MID(s.CMID), Dup: dup, Epoch: 1, At: 1}
	}
	c.shelf.mu.Unlock()
	if after != nil {
		after()
	}
	return out
}

func (c *clerk) Hello(ctx context.Context, h impart.Hello) (impart.Welcome, error) {
	if c.hold != nil {
		c.hold(ctx)
	}
	c.shelf.mu.Lock()
	defer c.shelf.mu.Unlock()
	c.shelf.hellos++
	return impart.Welcome{Session: impart.Session{User: h.Identity.User, Number: int64(c.shelf.hellos)}, Epoch: 1}, nil
}

func (c *clerk) Sync(ctx context.Context, s impart.Sync) (impart.Page, error) {
	if c.hold != nil {
		c.hold(ctx)
	}
	return impart.Page{Conv: s.Conv, Epoch: 1}, nil
}

func (c *clerk) served(conv impart.ConvID) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.convs[conv]
}

func message(conv string, n int) impart.Send {
	return impart.Send{Sender: "u-ana", Conv: impart.ConvID(conv), CMID: impart.CMID(fmt.Sprintf("%s-%d", conv, n)), Type: "text", Body: "hi"}
}
