package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/chat"
)

// chatFlags is what the command line says about a chat.
type chatFlags struct {
	as, conv, url, device, store string
	token, tokenCommand          string
	follow, outbox, json         bool
	since                        impart.Seq
	history                      int
	timeout                      time.Duration
}

func chatCommand(env streams) *cobra.Command {
	var f chatFlags
	cmd := &cobra.Command{
		Use:   "chat --as USER [--conv CONV]",
		Short: "Chat in the terminal, or send and follow from a script",
		Long: "A client on the Go SDK: what you write is in a durable outbox before it is sent, and is sent by a later start if this one cannot.\n\n" +
			"On a terminal it fills the screen. Without one it sends each line of standard input to --conv and ends with 0 once all are stored. " +
			"With --follow it prints the conversation, one event a line, until it is interrupted.\n\n" +
			"Lines that begin with a slash are orders, on the screen and in a script (// begins a message with a slash):\n\n" + chat.Orders() + "\n" +
			"The local store is $XDG_STATE_HOME/impart/chat/SERVER/USER/DEVICE.db, or under ~/.local/state; two chats at once need two devices.",
		Example: "# with a server from impart serve: make the conversation, then chat on the screen\nimpart admin conv put c-demo --member u-ana --member u-ben\nimpart chat --as u-ana --conv c-demo\n\n" +
			"# from a script; exit code 0 means stored\necho \"backup done\" | impart chat --as u-ana --conv c-demo\n\n" +
			"# what happens, as JSON\nimpart chat --as u-ben --conv c-demo --follow --json\n\n" +
			"# what waits, and what was refused\nimpart chat --as u-ana --outbox",
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, env) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.as, "as", "", "user, such as u-ana")
	flags.StringVar(&f.conv, "conv", "", "conversation, such as c-demo; on the screen it can be chosen")
	flags.StringVar(&f.url, "url", "", "address of the server; IM_URL, or "+defaultURL)
	flags.StringVar(&f.token, "token", "", "token of the user; better given as IM_TOKEN; without one that of the dev login")
	flags.StringVar(&f.tokenCommand, "token-command", "", "shell command that prints a token; it is run before each connection")
	flags.StringVar(&f.device, "device", "", "device (default: chat- and the name of this machine)")
	flags.StringVar(&f.store, "store", "", "file of the local store, instead of the one described above")
	flags.BoolVar(&f.follow, "follow", false, "print events as lines until interrupted")
	flags.BoolVar(&f.outbox, "outbox", false, "list what waits and what was refused, without connecting")
	flags.Int64Var((*int64)(&f.since), "since", 0, "with --follow: begin after the event of this number")
	flags.IntVar(&f.history, "history", 200, "begin with so many earlier events; a new store fetches as many of each conversation")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Second, "how long to wait for the server after the last line of input; 0: for ever")
	addJSON(cmd, &f.json)
	return cmd
}

func (f *chatFlags) run(cmd *cobra.Command, env streams) error {
	cfg, err := chatConfig(f, env)
	if err != nil {
		return err
	}
	screen := !f.follow && !f.outbox && !f.json && terminal(cmd.InOrStdin()) && terminal(cmd.OutOrStdout())
	if cfg.Conv == "" && !screen && !f.outbox {
		return usagef("--conv: should name a conversation, such as c-demo")
	}
	if cmd.Flags().Changed("since") && !f.follow {
		return usagef("--since: goes with --follow")
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if f.outbox {
		cfg = cfg.Offline()
	}
	c, err := chat.Open(ctx, cfg)
	if err != nil {
		return err
	}
	in, out := cmd.InOrStdin(), &chat.Lines{Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr(), JSON: f.json}
	switch {
	case f.outbox:
		err = c.ListOutbox(ctx, out)
	case f.follow:
		since := chat.Since{Last: f.history}
		if cmd.Flags().Changed("since") {
			since.Seq = &f.since
		}
		err = c.Follow(ctx, in, out, since)
	case screen:
		err = c.Screen(ctx, in, cmd.OutOrStdout())
	default:
		err = c.Pipe(ctx, in, out, f.timeout)
	}
	return errors.Join(err, c.Close())
}

func terminal(stream any) bool {
	file, is := stream.(*os.File)
	return is && isatty.IsTerminal(file.Fd())
}
