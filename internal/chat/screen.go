package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/impart-im/impart"
)

// Screen fills a terminal until the user leaves or ctx ends, and says then what
// waits in the outbox. in and out are the terminal.
func (c *Chat) Screen(ctx context.Context, in io.Reader, out io.Writer) error {
	// Commands that still run when the program has ended end with it.
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	d := &observer{Chat: c, counted: map[impart.ConvID]convLine{}}
	program := tea.NewProgram(newModel(inner, d, c.user, c.conv),
		tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	_, err := program.Run()
	if ctx.Err() != nil && errors.Is(err, tea.ErrProgramKilled) {
		err = nil
	}
	cancel()
	left, failed := c.Outbox(context.WithoutCancel(ctx))
	if len(left) > 0 {
		fmt.Fprintf(out, "%d in the outbox, in %s: the next start sends them\n", len(left), c.place())
	}
	return errors.Join(err, failed)
}

// next waits until there is something new, or ctx ends.
func (o *observer) next(ctx context.Context) []notice {
	select {
	case <-o.feed.wake:
	case <-ctx.Done():
	}
	return o.feed.take()
}

// older reads a page of events below before from the server, ascending.
func (o *observer) older(ctx context.Context, conv impart.ConvID, before impart.Seq) ([]impart.Event, error) {
	page, err := o.History(ctx, conv, before, moreRows)
	slices.Reverse(page.Events)
	return page.Events, o.worded(conv, err)
}
