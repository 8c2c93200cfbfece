package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
)

// Pipe puts each line of in into the outbox (or carries out the order that it is)
// and waits until everything in the outbox is stored, also what earlier runs have
// left, and a moment longer for the server to know that this device has it. It
// returns nil then.
//
// It is an error if a message was refused, a line was no good, timeout has passed
// since the end of the input, the client has stopped for good by then, or ctx ended. What
// is unsent then stays in the outbox, and the error says so.
func (c *Chat) Pipe(ctx context.Context, in io.Reader, out *Lines, timeout time.Duration) error {
	p := &pipe{Chat: c, out: out, owed: map[impart.CMID]bool{}, told: map[impart.ConvID]impart.Seq{}, timeout: timeout}
	left, err := c.Outbox(ctx)
	if err != nil {
		return err
	}
	for _, it := range left {
		p.owed[it.CMID] = true
	}
	if err := p.run(ctx, in); err != nil {
		return err
	}
	p.waitAcked(ctx, p.told)
	return p.verdict()
}

// pipe is one run of Pipe.
type pipe struct {
	*Chat
	out     *Lines
	timeout time.Duration
	owed    map[impart.CMID]bool         // in the outbox as far as we were told
	told    map[impart.ConvID]impart.Seq // the newest that was stored by this run
	unread  impart.Seq                   // a read cursor that the server has yet to learn
	full    string                       // a line that found the outbox full
	lines   <-chan string                // nil: no more
	late    <-chan time.Time
	refused int
	bad     int  // lines that were not taken
	warned  bool // that nothing will come of it
}

func (p *pipe) run(ctx context.Context, in io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines, ended := readLines(ctx, in)
	p.lines = lines
	for p.lines != nil || p.full != "" || len(p.owed) > 0 || p.unread > 0 {
		take := p.lines
		if p.full != "" {
			take = nil // no more before there is room
		}
		select {
		case line, open := <-take:
			if !open {
				p.endInput(<-ended)
				break
			}
			if err := p.line(ctx, line); err != nil {
				return err
			}
		case <-p.feed.wake:
			if err := p.look(ctx); err != nil {
				return err
			}
		case <-p.readAgain():
			if err := p.checkRead(ctx); err != nil {
				return err
			}
		case <-p.late:
			return p.unfinished(fmt.Sprintf("not stored within %v", p.timeout))
		case <-ctx.Done():
			return p.unfinished("interrupted")
		}
		if p.out.failed != nil {
			return p.out.failed
		}
	}
	return nil
}

func (p *pipe) endInput(err error) {
	p.lines = nil
	if err != nil {
		p.complain(err)
	}
	if p.timeout > 0 {
		p.late = time.After(p.timeout)
	}
	p.feed.poke() // to look whether there is anything to wait for
}

func (p *pipe) complain(err error) {
	p.bad++
	p.out.line(p.out.Err, "not taken: "+err.Error(), record{What: "says", Message: "not taken: " + err.Error()})
}

// line carries out one line. Its error ends the run.
func (p *pipe) line(ctx context.Context, line string) error {
	p.full = ""
	o, err := parse(line)
	switch {
	case err != nil:
		p.complain(err)
		return nil
	case o.word == "" && o.text == "":
		return nil
	case o.word == "quit":
		p.endInput(nil)
		return nil
	}
	if o.word == "who" || o.word == "recall" || o.word == "read" {
		// They speak of the log, so it has to be here.
		if err := p.ready(ctx); err != nil {
			return err
		}
	}
	done, err := p.act(ctx, p.conv, o)
	if errors.Is(err, client.ErrOutboxFull) {
		p.full = line
		return nil
	}
	if err != nil {
		p.complain(err)
		return nil
	}
	for _, cmid := range done.sent {
		p.owed[cmid] = true
	}
	delete(p.owed, done.gone)
	p.unread = max(p.unread, done.read)
	p.out.says(done.say)
	return nil
}

// ready waits until the log is here, no longer than the timeout.
func (p *pipe) ready(ctx context.Context) error {
	limited, cancel := context.WithCancel(ctx)
	if p.timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, p.timeout)
	}
	defer cancel()
	if err := p.WaitOnline(limited); err != nil {
		return p.unfinished(fmt.Sprintf("not online within %v", p.timeout))
	}
	return nil
}

// look takes what the client was told.
func (p *pipe) look(ctx context.Context) error {
	for _, n := range p.feed.take() {
		if n.settled == nil && n.rewound == nil {
			continue
		}
		p.out.notice(p.user, n)
		if n.settled != nil {
			delete(p.owed, n.settled.CMID)
			if n.settled.Err != nil {
				p.refused++
			} else {
				p.told[n.settled.Conv] = max(p.told[n.settled.Conv], n.settled.Seq)
			}
		}
	}
	if p.full != "" {
		if err := p.line(ctx, p.full); err != nil {
			return err
		}
	}
	s := p.Status()
	switch {
	case !hopeless(s):
		p.warned = false
	case p.lines == nil || p.full != "":
		return p.unfinished(doing(s))
	case !p.warned:
		// The input goes on; its lines are as safe in the outbox as any.
		p.warned = true
		p.out.line(p.out.Err, doing(s)+"; what comes is kept in the outbox", record{What: "says", Message: doing(s)})
	}
	return nil
}

// readAgain ticks while the server has to learn what was read.
func (p *pipe) readAgain() <-chan time.Time {
	if p.unread == 0 {
		return nil
	}
	return time.After(20 * time.Millisecond)
}

func (p *pipe) checkRead(ctx context.Context) error {
	here, _, err := p.state(ctx, p.conv)
	if err == nil && here.ReadTold >= p.unread {
		p.unread = 0
	}
	return err
}

// unfinished is the error of a run that ends too soon.
func (p *pipe) unfinished(why string) error {
	ctx := context.Background() // the run's may have ended, and the store is local
	list, err := p.Outbox(ctx)
	if err != nil {
		return err
	}
	if s := p.Status(); s.Err != nil && why != doing(s) {
		why += " (" + doing(s) + ")"
	}
	switch len(list) {
	case 0:
		return errors.New(why)
	case 1:
		return fmt.Errorf("%s: 1 item stays in the outbox, in %s; the next impart chat on it sends it", why, p.place())
	}
	return fmt.Errorf("%s: %d items stay in the outbox, in %s; the next impart chat on it sends them", why, len(list), p.place())
}

// verdict is the error of a run in which something was not taken.
func (p *pipe) verdict() error {
	switch {
	case p.refused > 0 && p.bad > 0:
		return fmt.Errorf("%d refused by the server, %s not taken", p.refused, lines(p.bad))
	case p.refused > 0:
		return fmt.Errorf("%d refused by the server; impart chat --outbox lists what was, /retry and /dismiss settle it", p.refused)
	case p.bad > 0:
		return fmt.Errorf("%s not taken", lines(p.bad))
	}
	return nil
}

func lines(n int) string {
	if n == 1 {
		return "1 line"
	}
	return fmt.Sprintf("%d lines", n)
}
