package blackbox

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/impart-im/impart/test/blackbox/rawclient"
)

// client is one connection, logged in or not, whose methods end the test when the server breaks the contract.
type client struct {
	*rawclient.Conn
	t       testing.TB
	user    string
	device  string
	welcome rawclient.Frame
	rids    int
}

// ask sends a request under a fresh rid and gives its reply, whatever it is.
func (c *client) ask(frame F) rawclient.Frame {
	c.t.Helper()
	return c.reply(c.post(frame))
}

// post sends a request under a fresh rid without waiting.
func (c *client) post(frame F) (rid string) {
	c.t.Helper()
	c.rids++
	rid = fmt.Sprintf("r%d", c.rids)
	out := F{"rid": rid}
	for k, v := range frame {
		out[k] = v
	}
	if err := c.JSON(out); err != nil {
		c.t.Fatalf("sending %v: %v", out["t"], err)
	}
	return rid
}

func (c *client) reply(rid string) rawclient.Frame {
	c.t.Helper()
	return c.await("the reply to "+rid, 0, func(f rawclient.Frame) bool { return f.Str("rid") == rid })
}

// await waits for a frame from index mark on.
func (c *client) await(what string, mark int, fits func(rawclient.Frame) bool) rawclient.Frame {
	c.t.Helper()
	return c.awaitWithin(patience, what, mark, fits)
}

func (c *client) awaitWithin(d time.Duration, what string, mark int, fits func(rawclient.Frame) bool) rawclient.Frame {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	f, err := c.Wait(ctx, mark, fits)
	if err != nil {
		c.t.Fatalf("%s/%s waits for %s: %v; received: %s", c.user, c.device, what, err, c.digest())
	}
	return f
}

// digest is the last frames received, for messages.
func (c *client) digest() string {
	frames := c.Frames()
	var b strings.Builder
	for _, f := range frames[max(0, len(frames)-8):] {
		fmt.Fprintf(&b, "\n  %.300s", f.Raw)
	}
	return fmt.Sprintf("%d frames, at last:%s", len(frames), b.String())
}

// want asks and demands a reply of kind t.
func (c *client) want(t string, frame F) rawclient.Frame {
	c.t.Helper()
	f := c.ask(frame)
	if f.T() != t {
		c.t.Fatalf("%s: got %s, want %s", brief(frame), f.Object, t)
	}
	return f
}

// refuse asks and demands an error with this code, whose retry flag is the protocol's.
func (c *client) refuse(code string, frame F) rawclient.Frame {
	c.t.Helper()
	f := c.ask(frame)
	if f.T() != "error" || f.Str("code") != code {
		c.t.Fatalf("%s: got %s, want error %s", brief(frame), f.Object, code)
	}
	checkError(c.t, f.Object)
	return f
}

// alive demands that the connection still answers.
func (c *client) alive() {
	c.t.Helper()
	c.want("pong", F{"t": "ping"})
}

// send stores a message and gives its `sent`.
func (c *client) send(conv, cmid, body string) rawclient.Frame {
	c.t.Helper()
	return c.want("sent", F{"t": "send", "conv": conv, "cmid": cmid, "body": body})
}

// sendMany stores n messages, pipelined, with cmids prefix+1..n, and gives the last seq.
func (c *client) sendMany(conv, prefix string, n int) int64 {
	c.t.Helper()
	rids := make([]string, n)
	for i := range n {
		rids[i] = c.post(F{"t": "send", "conv": conv, "cmid": fmt.Sprint(prefix, i+1), "body": fmt.Sprint(prefix, i+1)})
	}
	var last int64
	for _, rid := range rids {
		f := c.reply(rid)
		if f.T() != "sent" {
			c.t.Fatalf("got %s, want sent", f.Object)
		}
		last = max(last, f.Int("seq"))
	}
	return last
}

func (c *client) ack(conv string, seq int64) rawclient.Frame {
	c.t.Helper()
	return c.want("acked", F{"t": "ack", "conv": conv, "seq": seq})
}

// event waits for the live push of one event.
func (c *client) event(conv string, seq int64) rawclient.Object {
	c.t.Helper()
	f := c.await(fmt.Sprintf("event %s %d", conv, seq), 0, isEvent(conv, seq))
	return f.Obj("ev")
}

func isEvent(conv string, seq int64) func(rawclient.Frame) bool {
	return func(f rawclient.Frame) bool {
		ev := f.Obj("ev")
		return f.T() == "event" && ev.Str("conv") == conv && ev.Int("seq") == seq
	}
}

func isT(t string) func(rawclient.Frame) bool {
	return func(f rawclient.Frame) bool { return f.T() == t }
}

// none demands that from index mark on no such frame has come and none comes for a while.
func (c *client) none(what string, mark int, fits func(rawclient.Frame) bool) {
	c.t.Helper()
	c.noneFor(quiet, what, mark, fits)
}

func (c *client) noneFor(d time.Duration, what string, mark int, fits func(rawclient.Frame) bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	f, err := c.Wait(ctx, mark, fits)
	if err == nil {
		c.t.Fatalf("%s/%s got %s: %s", c.user, c.device, what, f.Object)
	}
	if ctx.Err() == nil {
		c.t.Fatalf("%s/%s while listening for %s: %v", c.user, c.device, what, err)
	}
}

// ended waits until the server has closed the connection and gives the close code.
func (c *client) ended(within time.Duration) int {
	c.t.Helper()
	select {
	case <-c.Done():
	case <-time.After(within):
		c.t.Fatalf("%s/%s is still connected after %v; %s", c.user, c.device, within, c.digest())
	}
	return c.CloseCode()
}

// log fetches the events after `after` that the client may see, page by page, and its head.
func (c *client) log(conv string, after int64) ([]rawclient.Event, int64) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bulk)
	defer cancel()
	events, head, err := rawclient.Fetch(ctx, c.Conn, conv, after, 1000)
	if err != nil {
		c.t.Fatalf("fetching %s: %v", conv, err)
	}
	return events, head
}

// brief is a request as JSON, cut to what a message can show.
func brief(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("%.300s", raw)
}
