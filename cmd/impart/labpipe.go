package main

import (
	"context"
	"errors"
	"io"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// errUnread is why a command ends whose reader has gone.
var errUnread = errors.New("nobody reads the output any more")

// listened is ctx that ends when cmd writes to a pipe that nobody reads, as in
// "impart lab run 2>&1 | head -1": by itself that would end the program at once,
// and leave behind what it has started. Its output is watched from now on.
func listened(ctx context.Context, cmd *cobra.Command) context.Context {
	signal.Ignore(syscall.SIGPIPE) // a write then fails instead; see os/signal
	ctx, cancel := context.WithCancelCause(ctx)
	unread := func() { cancel(errUnread) }
	cmd.SetOut(watched{cmd.OutOrStdout(), unread})
	cmd.SetErr(watched{cmd.ErrOrStderr(), unread})
	return ctx
}

// watched is a writer that tells when its reader has gone, and writes on into the
// void: what is left to do is to clean up.
type watched struct {
	io.Writer
	unread func()
}

func (w watched) Write(text []byte) (int, error) {
	n, err := w.Writer.Write(text)
	if errors.Is(err, syscall.EPIPE) {
		w.unread()
		return len(text), nil
	}
	return n, err
}
