package gateway

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/gobwas/ws"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

const unauthenticatedStatus = ws.StatusPolicyViolation

func unauthenticated(format string, args ...any) *impart.Error {
	return impart.Errorf(impart.Unauthenticated, format, args...)
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// Bounds of one step of work.
const (
	maxRun = 256 // requests handled together
	// maxApart is how far apart they may have come, since they share one deadline.
	maxApart = time.Second
	// maxUnwritten is how many bytes of replies may wait for the socket before the
	// next request is handled.
	maxUnwritten = 1 << 20
	// rateLimitPause is what a client over its budget is told to wait.
	rateLimitPause = time.Second
)

// request is one decoded message of a client.
type request struct {
	rid   string
	frame wire.Frame
	err   error
	due   time.Time // as in inbound
}

// work handles requests in the order in which they came, and ends when there
// are none. Sends and acks that wait together are handed on together, so that a
// client that pipelines gets one commit for many. The time of a request counts from
// its arrival: behind others that take long it may be over when its turn comes.
func (c *conn) work() {
	for {
		batch := c.takeInbox()
		if batch == nil {
			return
		}
		requests := make([]request, len(batch))
		for i, message := range batch {
			requests[i] = c.decode(message)
		}
		for len(requests) > 0 {
			held := c.waitForReader()
			due := requests[0].due.Add(held)
			switch n := joined(requests); {
			case n > 0:
				c.handleJoined(requests[:n], due)
				requests = requests[n:]
			default:
				c.handleOne(requests[0], due)
				requests = requests[1:]
			}
		}
		c.finished(batch)
	}
}

// waitForReader waits while the client leaves too many replies unread, and returns
// for how long it has done so since the connection began: that is the client's time
// and not its requests'.
func (c *conn) waitForReader() (held time.Duration) {
	began := time.Now()
	c.out.wait(maxUnwritten)
	waited := time.Since(began)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held += waited
	return c.held
}

// takeInbox takes the waiting messages, or ends the working goroutine's time.
func (c *conn) takeInbox() []inbound {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.inbox) == 0 || c.stage >= leaving {
		c.working = false
		c.inbox = nil
		c.room.Broadcast()
		return nil
	}
	n := min(len(c.inbox), maxRun)
	batch := c.inbox[:n:n]
	if c.inbox = c.inbox[n:]; len(c.inbox) == 0 {
		c.inbox = nil
	}
	return batch
}

// finished gives the room of answered requests back to the reader.
func (c *conn) finished(batch []inbound) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inflight -= len(batch)
	for _, message := range batch {
		c.inBytes -= len(message.text)
	}
	c.room.Broadcast()
}

func (c *conn) decode(message inbound) request {
	frame, rid, err := wire.Decode(message.text)
	if size := len(message.text); size > c.g.cfg.MaxFrame {
		err = impart.Errorf(impart.TooLarge, "the frame is %d bytes, at most %d are allowed", size, c.g.cfg.MaxFrame)
	}
	if err == nil {
		err = c.afford()
	}
	return request{rid: rid, frame: frame, err: err, due: message.due}
}

// afford takes a request from the connection's budget, or is RATE_LIMITED.
func (c *conn) afford() error {
	if c.spend(1) {
		return nil
	}
	e := impart.Errorf(impart.RateLimited, "more than %.0f requests a second on one connection", c.g.cfg.MaxRate)
	e.RetryAfter = rateLimitPause
	return e
}

// joined is how many of the first requests are handled together. They share the
// deadline of the first.
func joined(requests []request) (n int) {
	for n < len(requests) && joins(requests[n]) && requests[n].due.Sub(requests[0].due) <= maxApart {
		n++
	}
	return n
}

// joins reports whether a request may be handled together with its neighbours.
func joins(r request) bool {
	switch r.frame.(type) {
	case *wire.Send, *wire.Ack:
		return r.err == nil
	default:
		return false
	}
}

// handleJoined answers a run of sends and acks. The two do not wait for each
// other: an ack can only be of events that came before this run.
func (c *conn) handleJoined(run []request, due time.Time) {
	switch c.at() {
	case greeting:
		c.refuse(run[0].rid, unauthenticated("say hello first"))
		return
	case leaving, closed:
		return // thrown away
	}
	ctx, cancel := context.WithDeadline(c.g.ctx, due)
	defer cancel()
	if ctx.Err() != nil {
		for _, r := range run {
			c.fail(r.rid, ctx.Err())
		}
		return
	}
	var sends, acks []request
	for _, r := range run {
		if _, ok := r.frame.(*wire.Send); ok {
			sends = append(sends, r)
		} else if !loseAck(r) {
			acks = append(acks, r)
		}
	}
	if len(acks) == 0 {
		c.handleSends(ctx, sends)
		return
	}
	var both sync.WaitGroup
	if len(sends) > 0 {
		both.Go(func() { c.handleSends(ctx, sends) })
	}
	c.handleAcks(ctx, acks)
	both.Wait()
}

func (c *conn) handleSends(ctx context.Context, run []request) {
	sends := make([]impart.Send, len(run))
	for i, r := range run {
		f := r.frame.(*wire.Send)
		sends[i] = impart.Send{
			Sender: c.session.User, Device: c.session.Device, Conv: f.Conv, CMID: f.CMID, Prev: f.Prev,
			Type: f.Type, Body: f.Body, Ext: f.Ext, Epoch: f.Epoch,
		}
	}
	for i, sent := range c.g.cfg.Logic.Send(ctx, sends) {
		c.answerSent(run[i].rid, sent, sent.Err)
	}
}

func (c *conn) answerSent(rid string, sent impart.Sent, err error) {
	if lost, instead := loseReply(); lost {
		return
	} else if instead != nil {
		err = instead
	}
	if err != nil {
		c.fail(rid, err)
		return
	}
	c.reply(&wire.Sent{RID: rid, Sent: sent})
}

// handleOne answers any other request.
func (c *conn) handleOne(r request, due time.Time) {
	switch c.at() {
	case greeting:
		c.handleFirst(r)
		return
	case leaving, closed:
		return // thrown away
	}
	if r.err != nil {
		c.fail(r.rid, r.err)
		return
	}
	ctx, cancel := context.WithDeadline(c.g.ctx, due)
	defer cancel()
	if ctx.Err() != nil {
		c.fail(r.rid, ctx.Err())
		return
	}
	if frame, err := c.answer(ctx, r); err != nil {
		c.fail(r.rid, err)
	} else if frame != nil {
		c.reply(frame)
	}
}

// handleFirst handles what comes before a hello is accepted.
func (c *conn) handleFirst(r request) {
	hello, ok := r.frame.(*wire.Hello)
	switch {
	case r.err != nil:
		c.fail(r.rid, r.err) // a frame that cannot be read is no proof of a bad client
	case !ok:
		c.refuse(r.rid, unauthenticated("say hello first"))
	default:
		c.greet(hello)
	}
}

// answer carries out one request. A nil frame means that it has no reply.
func (c *conn) answer(ctx context.Context, r request) (wire.ServerFrame, error) {
	logic := c.g.cfg.Logic
	switch f := r.frame.(type) {
	case *wire.Hello:
		return nil, impart.Errorf(impart.BadFrame, "hello was already said on this connection")
	case *wire.Sub:
		return c.subscribe(ctx, f)
	case *wire.Sync:
		page, err := logic.Sync(ctx, impart.Sync{
			User: c.session.User, Conv: f.Conv, After: f.After, Before: f.Before,
			AfterMID: f.AfterMID, Limit: limitOf(f.Limit), Epoch: f.Epoch,
		})
		return &wire.Synced{RID: r.rid, Back: f.Before != nil, Page: page}, err
	case *wire.Pull:
		pulled, err := logic.Pull(ctx, impart.Pull{Session: c.session, Limit: limitOf(f.Limit)})
		return &wire.Pulled{RID: r.rid, Pulled: pulled}, err
	case *wire.Convs:
		page, err := logic.Convs(ctx, impart.Convs{Session: c.session, After: f.After, Limit: limitOf(f.Limit)})
		return &wire.ConvsPage{RID: r.rid, Page: page}, err
	case *wire.Read:
		read, err := logic.Read(ctx, impart.Read{Session: c.session, Conv: f.Conv, Seq: f.Seq, Epoch: f.Epoch})
		return &wire.Readed{RID: r.rid, Conv: f.Conv, Read: read}, err
	case *wire.Recall:
		sent, err := logic.Recall(ctx, impart.Recall{
			Sender: c.session.User, Device: c.session.Device, Conv: f.Conv, Seq: f.Seq, CMID: f.CMID, MID: f.MID, Epoch: f.Epoch,
		})
		return &wire.Sent{RID: r.rid, Sent: sent}, err
	case *wire.Who:
		report, err := logic.Who(ctx, impart.Who{User: c.session.User, Conv: f.Conv, Seq: f.Seq, After: f.After, Limit: limitOf(f.Limit)})
		return &wire.Whos{RID: r.rid, Conv: f.Conv, Seq: f.Seq, Report: report}, err
	case *wire.Typing:
		if !c.mayType(f.Conv, time.Now()) {
			return nil, nil //nolint:nilnil // what is typed is ephemeral, and has no answer
		}
		return nil, logic.Typing(ctx, c.session.User, f.Conv)
	case *wire.Ping:
		return &wire.Pong{RID: r.rid}, nil
	default:
		return nil, impart.Errorf(impart.BadFrame, "frame %q is not understood", f.T())
	}
}

// typingEvery is how often a connection may say that somebody is typing in one
// conversation: more than that would cost each member a frame and tell nobody
// anything.
const typingEvery = 200 * time.Millisecond

func (c *conn) mayType(conv impart.ConvID, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.typedIn == conv && now.Sub(c.typedAt) < typingEvery {
		return false
	}
	c.typedIn, c.typedAt = conv, now
	return true
}

func limitOf(limit *int) int {
	if limit == nil {
		return impart.DefaultLimit
	}
	return *limit
}

// fail answers with an error. Only what the store or the network did to us is
// logged: a client's mistakes are the client's.
func (c *conn) fail(rid string, err error) {
	e := impart.AsError(err)
	c.g.metrics.errors.WithLabelValues(string(e.Code)).Inc()
	if e.Cause != nil {
		c.g.log.Debug("request failed", "conn", c.name(), "code", e.Code, "err", e.Cause)
	}
	c.reply(&wire.ErrorFrame{RID: rid, Err: e})
}
