package chat

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
)

// pageSize is how many events are read at a time.
const pageSize = 500

// Since says where Follow begins.
type Since struct {
	Seq  *impart.Seq // after this one; nil: by Last
	Last int         // this many before the end of the log that the store holds
}

// Follow writes each event of the conversation in order, and goes on with those
// that come, until ctx ends (then nil). Lines of in are carried out as in Pipe; its
// end changes nothing. It is an error if the conversation is not the user's, or the
// client has stopped for good.
func (c *Chat) Follow(ctx context.Context, in io.Reader, out *Lines, since Since) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &follower{Chat: c, out: out}
	if err := f.begin(ctx, since); err != nil || ctx.Err() != nil {
		return unlessEnded(ctx, err)
	}
	lines, ended := readLines(ctx, in)
	c.feed.poke()
	for {
		select {
		case line, open := <-lines:
			if !open {
				lines = nil
				if err := <-ended; err != nil {
					f.out.line(out.Err, err.Error(), record{What: "says", Message: err.Error()})
				}
				continue
			}
			if f.order(ctx, line) {
				return nil
			}
		case <-c.feed.wake:
			if err := f.look(ctx); err != nil {
				return unlessEnded(ctx, err)
			}
		case <-ctx.Done():
			// What has been acknowledged is written too.
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			return unlessEnded(ctx, f.look(last))
		}
		if out.failed != nil {
			return out.failed
		}
	}
}

// unlessEnded is err, but nil once ctx has ended: leaving is no failure.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// follower is one run of Follow.
type follower struct {
	*Chat
	out   *Lines
	after impart.Seq // written up to here
	begun bool       // the conversation is in the store
	late  bool       // it was not when we began
	since Since
}

// begin finds where to start. What is older than the store comes from the server.
func (f *follower) begin(ctx context.Context, since Since) error {
	f.since = since
	here, found, err := f.state(ctx, f.conv)
	if err != nil || !found {
		f.late = true
		return err // look begins, once the store has it
	}
	f.begun = true
	f.after = max(here.Start, here.Stored-impart.Seq(since.Last))
	if f.late {
		f.after = here.Start // all of it has come while we wait
	}
	if since.Seq == nil {
		return nil
	}
	f.after = *since.Seq
	if f.after >= here.Start {
		return nil
	}
	older, err := f.between(ctx, f.after, here.Start)
	for i := range older {
		f.out.event(&older[i])
	}
	f.after = here.Start
	return err
}

// between reads events with after < seq <= through from the server, ascending.
func (c *Chat) between(ctx context.Context, after, through impart.Seq) ([]impart.Event, error) {
	var events []impart.Event
	for before := through + 1; before > after+1; {
		page, err := c.History(ctx, c.conv, before, pageSize)
		if err != nil {
			return nil, c.worded(c.conv, err)
		}
		for _, ev := range page.Events {
			if ev.Seq > after {
				events = append(events, ev)
			}
			before = min(before, ev.Seq)
		}
		if !page.More || len(page.Events) == 0 {
			break
		}
	}
	slices.Reverse(events)
	return events, nil
}

// look writes what is new.
func (f *follower) look(ctx context.Context) error {
	for _, n := range f.feed.take() {
		f.out.notice(f.user, n)
		if n.rewound != nil && n.rewound.conv == f.conv {
			f.after = min(f.after, n.rewound.seq)
		}
		if n.status != nil && hopeless(*n.status) {
			return fmt.Errorf("%s", doing(*n.status))
		}
	}
	if !f.begun {
		if err := f.begin(ctx, f.since); err != nil || !f.begun {
			return f.known(ctx, err)
		}
	}
	for {
		events, err := f.Events(ctx, f.conv, f.after, pageSize)
		for i := range events {
			f.out.event(&events[i])
			f.after = events[i].Seq
		}
		if err != nil || len(events) < pageSize || f.out.failed != nil {
			return err
		}
	}
}

// known asks the server, once it can, about a conversation that the store lacks.
func (f *follower) known(ctx context.Context, err error) error {
	if err != nil || f.Status().State != client.Online {
		return err
	}
	return f.exists(ctx, f.conv)
}

// exists is an error if the user is in no such conversation, as the server says.
func (c *Chat) exists(ctx context.Context, conv impart.ConvID) error {
	_, err := c.History(ctx, conv, 1, 1)
	return c.worded(conv, err)
}

// order carries out a line of input; true: leave.
func (f *follower) order(ctx context.Context, line string) bool {
	o, err := parse(line)
	if err == nil && o.word == "quit" {
		return true
	}
	if err == nil && (o.word != "" || o.text != "") {
		var done outcome
		done, err = f.act(ctx, f.conv, o)
		f.out.says(done.say)
	}
	if err != nil {
		f.out.line(f.out.Err, "not taken: "+err.Error(), record{What: "says", Message: "not taken: " + err.Error()})
	}
	return false
}

// ListOutbox writes what waits, and what was refused and not dismissed.
func (c *Chat) ListOutbox(ctx context.Context, out *Lines) error {
	waiting, err := c.Outbox(ctx)
	if err != nil {
		return err
	}
	refused, err := c.Refused(ctx)
	for _, it := range append(waiting, refused...) {
		out.item(c.user, &it)
	}
	if err == nil && len(waiting)+len(refused) == 0 && !out.JSON {
		out.says("nothing waits, nothing was refused")
	}
	return first(err, out.failed)
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
